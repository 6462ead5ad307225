// Text of inputs as a terminal may have it: names and messages come out of files of strangers, and a terminal takes
// some characters for commands. Pure.
#pragma once

#include <streambuf>
#include <string>
#include <string_view>

namespace foreshard::cli {

enum class Lines : bool { one, many };

/// Control characters (C0, DEL, C1), those that turn the direction of writing (Unicode's Bidi_Control: U+200E, U+200F,
/// U+202A to U+202E, U+2066 to U+2069) and the separators U+2028 and U+2029 written out: "\x1b", "\u009b", "\u202e";
/// with Lines::many a tab and a line feed stay as they are. So does everything else, also bytes that are not UTF-8.
[[nodiscard]] std::string printable(std::string_view text, Lines lines);

/// A name, or a sentence with names in it, as one line of what is printed.
[[nodiscard]] inline std::string in_line(std::string_view text) {
  return printable(text, Lines::one);
}

/// At most `most` bytes, the middle left out ("…"), cut between characters.
[[nodiscard]] std::string shortened(std::string_view text, std::size_t most);

/// A stream's buffer that passes printable() text of any number of lines on to another.
class PrintableBuffer final : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf& to) : to_(to) {}

 private:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override { return to_.pubsync(); }

  std::streambuf& to_;
  std::string lead_;  ///< the last bytes, which with the next may be a control character
};

}  // namespace foreshard::cli
