// Writes SVG elements into a string: numbers short and locale-free, text escaped, nothing else.
//
// Used by the charts of viz/svg. Lengths are in user units (pixels at 100 %). Equal calls give equal bytes.
#pragma once

#include <string>
#include <string_view>

namespace foreshard::viz {

/// At most two decimals, no trailing zeros, no "-0".
[[nodiscard]] std::string number(double value);
/// The five special characters as entities; control characters and bytes that are not UTF-8 as U+FFFD.
[[nodiscard]] std::string escape(std::string_view text);
/// How wide `text` is in the fonts of the pictures (Helvetica and its like), a little on the safe side.
[[nodiscard]] double text_width(std::string_view text, double size);
/// At most `letters` letters; the middle gives way to "…".
[[nodiscard]] std::string shortened(std::string_view text, std::size_t letters);

struct Point {
  double x = 0;
  double y = 0;
};
struct Box {
  double x = 0;
  double y = 0;
  double width = 0;
  double height = 0;
  [[nodiscard]] double right() const { return x + width; }
  [[nodiscard]] double bottom() const { return y + height; }
};

struct TextStyle {
  double size = 12;
  std::string_view fill;
  std::string_view anchor = "start";  ///< "start", "middle", "end"
  bool bold = false;
  double turn = 0;             ///< degrees clockwise about its place
  std::string_view halo = {};  ///< colour of an edge around the letters, for text over lines
};

class SvgWriter {
 public:
  /// `attributes` as they stand, with no blank before them: fill="#fff".
  void rect(const Box& box, std::string_view attributes, std::string_view title = {});
  void line(Point from, Point to, std::string_view attributes);
  void path(std::string_view data, std::string_view attributes, std::string_view title = {});
  void circle(Point centre, double radius, std::string_view attributes);
  void text(Point at, std::string_view text, const TextStyle& style);
  /// Markup that is already whole.
  void raw(std::string_view markup) { out_ += markup; }

  [[nodiscard]] const std::string& markup() const { return out_; }

 private:
  std::string out_;
};

}  // namespace foreshard::viz
