// Memory over many steps as a picture: its marks, its limit, and more steps than pixels.
#include "viz/svg/memory_over_steps.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

StepMemoryPicture picture(std::size_t steps) {
  StepMemoryPicture p;
  p.title = "a <model>";
  p.headline = "reserved stops growing";
  for (std::size_t i = 0; i < steps; ++i) p.steps.push_back({(10 + (i > 2 ? 5 : 0)) * kGiB, (8 + i % 3) * kGiB});
  p.marks = {{StepMark::Kind::growth, 3, "step 3, length 512"}, {StepMark::Kind::retry, 4, "2 retries"}};
  return p;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

}  // namespace

TEST_CASE("a step's marks tell what they are", "[memory_over_steps]") {
  const std::string svg = draw_memory_over_steps(picture(8));
  CHECK(svg == draw_memory_over_steps(picture(8)));
  CHECK(svg.find("a &lt;model&gt;") != std::string::npos);
  CHECK(svg.find("step 3, length 512") != std::string::npos);
  CHECK(svg.find("2 retries") != std::string::npos);
  CHECK(svg.find("limit") == std::string::npos);
  CHECK(svg.find("out of memory") == std::string::npos);
}

TEST_CASE("the limit is drawn where it is near, and the end where there is one", "[memory_over_steps]") {
  StepMemoryPicture p = picture(8);
  p.limit = 20 * kGiB;
  p.marks.push_back({StepMark::Kind::out_of_memory, 8, "8 GiB asked for"});
  CHECK(draw_memory_over_steps(p).find("limit 20.00 GiB") != std::string::npos);
  CHECK(draw_memory_over_steps(p).find("out of memory at step 8") != std::string::npos);
  p.limit = 200 * kGiB;
  CHECK(draw_memory_over_steps(p).find("limit") == std::string::npos);
}

TEST_CASE("a picture grows with its pixels, not with its steps", "[memory_over_steps]") {
  const std::string svg = draw_memory_over_steps(picture(100'000));
  CHECK(svg.size() < 200'000);
  CHECK(count(svg, "<path") == 2);
  CHECK_FALSE(draw_memory_over_steps(picture(1)).empty());
}
