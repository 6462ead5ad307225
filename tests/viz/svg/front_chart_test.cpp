// What a search tried as a picture: its points, its front, and its limit.
#include "viz/svg/front_chart.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

FrontPicture front() {
  FrontPicture p;
  p.title = "a <model>";
  p.points = {{FrontPoint::Kind::front, 0, 20, 10 * kGiB, "0: as asked for", "as asked for"},
              {FrontPoint::Kind::front, 1, 10, 14 * kGiB, "1: --forward-prefetch 2", "best"},
              {FrontPoint::Kind::tried, 2, 15, 16 * kGiB, "2: --accumulate 2 & more", {}},
              {FrontPoint::Kind::no_part, 3, 9, 12 * kGiB, "3: less sure", {}}};
  return p;
}

}  // namespace

TEST_CASE("every point of a search has a mark that tells its settings", "[front_chart]") {
  const std::string svg = draw_front(front());
  CHECK(svg == draw_front(front()));
  CHECK(svg.find("a &lt;model&gt;") != std::string::npos);
  for (const char* mark : {"data-point=\"0\"", "data-point=\"1\"", "data-point=\"2\"", "data-point=\"3\"",
                           "2: --accumulate 2 &amp; more", ">best</text>", ">as asked for</text>"}) {
    INFO(mark);
    CHECK(svg.find(mark) != std::string::npos);
  }
}

TEST_CASE("a search of one point, and one of equal points, have a picture", "[front_chart]") {
  FrontPicture p = front();
  p.points.resize(1);
  CHECK(draw_front(p).find("data-point=\"0\"") != std::string::npos);
  p.points.push_back(p.points.front());
  CHECK(draw_front(p).find("nan") == std::string::npos);
  p.points.erase(p.points.begin(), p.points.end() - 1);
  p.points.front().kind = FrontPoint::Kind::no_part;  // no front
  CHECK(draw_front(p).find("<path") == std::string::npos);
}

TEST_CASE("the limit is drawn where points come near to it", "[front_chart]") {
  FrontPicture p = front();
  p.limit = 15 * kGiB;
  CHECK(draw_front(p).find("limit 15.00 GiB") != std::string::npos);
  p.limit = 80 * kGiB;
  CHECK(draw_front(p).find("limit") == std::string::npos);
}
