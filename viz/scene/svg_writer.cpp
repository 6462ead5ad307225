#include "viz/scene/svg_writer.hpp"

#include <fmt/core.h>

#include <cmath>

#include "core/base/utf8.hpp"

namespace foreshard::viz {
namespace {

/// Bytes of the character that `text` begins with; 0 where it begins with none that XML 1.0 has.
std::size_t xml_length(std::string_view text) {
  const std::size_t length = utf8_length(text);
  const std::string_view character = text.substr(0, length);
  if (character == "\xef\xbf\xbe" || character == "\xef\xbf\xbf") return 0;  // U+FFFE, U+FFFF
  if (length == 1 && static_cast<unsigned char>(text[0]) < 0x20 && text[0] != '\n' && text[0] != '\t') return 0;
  return length;
}

std::size_t letters_of(std::string_view text) {
  std::size_t letters = 0;
  for (const char c : text) letters += (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  return letters;
}

/// Byte offset of the n-th letter.
std::size_t offset_of(std::string_view text, std::size_t letter) {
  for (std::size_t i = 0; i < text.size(); ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80 && letter-- == 0) return i;
  return text.size();
}

std::string title_of(std::string_view title) {
  return title.empty() ? std::string() : fmt::format("<title>{}</title>", escape(title));
}

}  // namespace

std::string number(double value) {
  const long long hundredths = std::llround(value * 100);
  std::string out = hundredths < 0 ? "-" : "";
  const long long size = hundredths < 0 ? -hundredths : hundredths;
  out += std::to_string(size / 100);
  if (size % 100 == 0) return out;
  out += fmt::format(".{:02}", size % 100);
  if (out.back() == '0') out.pop_back();
  return out;
}

std::string escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = xml_length(text);
    if (length == 0) {
      out += kReplacementCharacter;
      text.remove_prefix(1);
      continue;
    }
    switch (text[0]) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      case '\'':
        out += "&#39;";
        break;
      default:
        out += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  return out;
}

double text_width(std::string_view text, double size) {
  // Advance widths of Helvetica in thousandths of the size (Adobe Core 14 AFM), by groups of letters, rounded up.
  double thousandths = 0;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xc0) == 0x80) continue;
    if (std::string_view("iljtfrI .,:;'|!()[]/").find(c) != std::string_view::npos)
      thousandths += 340;
    else if (c == 'm' || c == 'w' || c == 'M' || c == 'W' || c == '%')
      thousandths += 890;
    else
      thousandths += (c >= 'A' && c <= 'Z') ? 720 : 570;
  }
  return size * thousandths / 1000;
}

std::string shortened(std::string_view text, std::size_t letters) {
  const std::size_t have = letters_of(text);
  if (have <= letters || letters < 3) return std::string(text);
  const std::size_t head = (letters - 1) * 2 / 3;
  const std::size_t tail = letters - 1 - head;
  return std::string(text.substr(0, offset_of(text, head))) + "…" +
         std::string(text.substr(offset_of(text, have - tail)));
}

void SvgWriter::rect(const Box& box, std::string_view attributes, std::string_view title) {
  out_ += fmt::format(R"(<rect x="{}" y="{}" width="{}" height="{}" {})", number(box.x), number(box.y),
                      number(box.width), number(box.height), attributes);
  out_ += title.empty() ? "/>\n" : fmt::format(">{}</rect>\n", title_of(title));
}

void SvgWriter::line(Point from, Point to, std::string_view attributes) {
  out_ += fmt::format("<line x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\" {}/>\n", number(from.x), number(from.y),
                      number(to.x), number(to.y), attributes);
}

void SvgWriter::path(std::string_view data, std::string_view attributes, std::string_view title) {
  out_ += fmt::format("<path d=\"{}\"{}{}", data, attributes.empty() ? "" : " ", attributes);
  out_ += title.empty() ? "/>\n" : fmt::format(">{}</path>\n", title_of(title));
}

void SvgWriter::circle(Point centre, double radius, std::string_view attributes) {
  out_ += fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" {}/>\n", number(centre.x), number(centre.y), number(radius),
                      attributes);
}

void SvgWriter::text(Point at, std::string_view text, const TextStyle& style) {
  out_ += fmt::format("<text x=\"{}\" y=\"{}\" font-size=\"{}\" fill=\"{}\"", number(at.x), number(at.y),
                      number(style.size), style.fill);
  if (style.anchor != "start") out_ += fmt::format(" text-anchor=\"{}\"", style.anchor);
  if (!style.halo.empty())
    out_ +=
        fmt::format(" paint-order=\"stroke\" stroke=\"{}\" stroke-width=\"3\" stroke-linejoin=\"round\"", style.halo);
  if (style.bold) out_ += " font-weight=\"bold\"";
  if (style.turn != 0)
    out_ += fmt::format(" transform=\"rotate({} {} {})\"", number(style.turn), number(at.x), number(at.y));
  out_ += fmt::format(">{}</text>\n", escape(text));
}

}  // namespace foreshard::viz
