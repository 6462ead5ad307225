// Text of inputs as a terminal may have it: names and messages come out of files of strangers, and a terminal takes
// some characters for commands. Pure.
#pragma once

#include <streambuf>
#include <string>
#include <string_view>

namespace foreshard::cli {

enum class Lines : bool { one, many };

/// Control characters (C0, DEL, C1) written out: "\x1b", "\u009b"; with Lines::many a tab and a line feed stay as they
/// are. So does everything else, also bytes that are not UTF-8.
[[nodiscard]] std::string printable(std::string_view text, Lines lines);

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
  bool lead_ = false;  ///< the last byte was 0xc2: with the next it may be a control character
};

}  // namespace foreshard::cli
