#include "cli/terminal/printable.hpp"

#include <fmt/core.h>

namespace foreshard::cli {
namespace {

bool continues(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

}  // namespace

std::string printable(std::string_view text, Lines lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = i + 1 < text.size() ? static_cast<unsigned char>(text[i + 1]) : 0;
    if (byte == '\n' || byte == '\t') {
      if (lines == Lines::many)
        out += text[i];
      else
        out += byte == '\n' ? "\\n" : "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out += fmt::format("\\x{:02x}", byte);
    } else if (byte == 0xc2 && next >= 0x80 && next < 0xa0) {  // U+0080 to U+009F in UTF-8
      out += fmt::format("\\u{:04x}", next);
      ++i;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::streamsize PrintableBuffer::xsputn(const char* text, std::streamsize size) {
  std::string all = lead_ ? "\xc2" : "";
  all.append(text, static_cast<std::size_t>(size));
  lead_ = !all.empty() && all.back() == '\xc2';
  if (lead_) all.pop_back();
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
