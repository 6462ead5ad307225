# cmake -DINPUT=page.html -DOUTPUT=page_template.cpp -P embed.cmake: a file's bytes as a C++ array.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"viz/pack/page_template.hpp\"

namespace foreshard::viz {
namespace {

constexpr unsigned char kPage[] = {${bytes}};

}  // namespace

std::string_view page_template() {
  return {reinterpret_cast<const char*>(kPage), sizeof kPage};
}

}  // namespace foreshard::viz
")
