// A stand-alone SVG document around the marks of a picture.
#pragma once

#include <string>
#include <string_view>

namespace foreshard::viz {

/// `width`, `height` in pixels; `title` unescaped, what a browser shows of the whole; `marks` is markup. Fonts are
/// those that the reader's machine has.
[[nodiscard]] std::string svg_document(double width, double height, std::string_view title, std::string_view paper,
                                       std::string_view marks);

}  // namespace foreshard::viz
