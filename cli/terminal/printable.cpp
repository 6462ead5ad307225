#include "cli/terminal/printable.hpp"

#include <fmt/core.h>

#include <optional>
#include <utility>

namespace foreshard::cli {
namespace {

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

/// The character of two or three bytes that `text` begins with, where it is one to be written out.
std::optional<unsigned> hidden(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) return byte(1);  // U+0080 to U+009F
  if (byte(0) != 0xe2 || (byte(1) != 0x80 && byte(1) != 0x81) || !(byte(2) >= 0x80 && byte(2) < 0xc0))
    return std::nullopt;
  const unsigned code = 0x2000 | (byte(1) & 0x3f) << 6 | (byte(2) & 0x3f);
  const bool turns =
      code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
  return turns || code == 0x2028 || code == 0x2029 ? std::optional(code) : std::nullopt;
}

/// The bytes at the end of `text` that may begin such a character.
std::size_t begun(std::string_view text) {
  for (const std::string_view lead : {"\xe2\x80", "\xe2\x81", "\xc2", "\xe2"})
    if (text.ends_with(lead)) return lead.size();
  return 0;
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == '\n' || byte == '\t') {
      if (lines == Lines::many)
        out += text[i];
      else
        out += byte == '\n' ? "\\n" : "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (const auto code = hidden(text.substr(i))) {
      out += fmt::format("\\u{:04x}", *code);
      i += *code < 0x800 ? 1 : 2;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::streamsize PrintableBuffer::xsputn(const char* text, std::streamsize size) {
  std::string all = std::exchange(lead_, {});
  all.append(text, static_cast<std::size_t>(size));
  lead_ = all.substr(all.size() - begun(all));
  all.resize(all.size() - lead_.size());
  const std::string out = printable(all, Lines::many);
  const auto length = static_cast<std::streamsize>(out.size());
  return to_.sputn(out.data(), length) == length ? size : 0;
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char one = traits_type::to_char_type(c);
  return xsputn(&one, 1) == 1 ? c : traits_type::eof();
}

std::string shortened(std::string_view text, std::size_t most) {
  constexpr std::string_view kGap = " … ";
  if (text.size() <= most || most < kGap.size()) return std::string(text);
  const std::size_t kept = most - kGap.size();
  std::size_t head = kept - kept / 3, tail = text.size() - kept / 3;
  while (head > 0 && continues(text[head])) --head;
  while (tail < text.size() && continues(text[tail])) ++tail;
  return fmt::format("{}{}{}", text.substr(0, head), kGap, text.substr(tail));
}

}  // namespace foreshard::cli
