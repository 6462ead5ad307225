#include "viz/svg/document.hpp"

#include <fmt/format.h>

#include "viz/scene/svg_writer.hpp"

namespace foreshard::viz {

std::string svg_document(double width, double height, std::string_view title, std::string_view paper,
                         std::string_view marks) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" "
      "font-family=\"Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif\">\n"
      "<title>{2}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"{3}\"/>\n{4}</svg>\n",
      number(width), number(height), escape(title), paper, marks);
}

}  // namespace foreshard::viz
