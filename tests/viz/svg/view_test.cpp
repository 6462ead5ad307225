// `foreshard view`: formats, steps, files that are there.

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "tests/catch.hpp"
#include "tests/cli/knock.hpp"
#include "tests/viz/svg/drawn_runs.hpp"
#include "traces/store/store.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

struct Files {
  std::string run = "foreshard_view_test.db";
  std::string svg = "foreshard_view_test.svg";
  std::string png = "foreshard_view_test.png";
  Files() { REQUIRE(traces::write_run(viz::small_run(), run, {.force = true})); }
  ~Files() {
    for (const std::string& path : {run, svg, png}) std::remove(path.c_str());
  }
};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("view writes an SVG once, and again with --force") {
  const Files files;
  CHECK(knock({"view", files.run, "-o", files.svg}).status == 0);
  const std::string first = content(files.svg);
  CHECK(first.starts_with("<svg "));
  CHECK(knock({"view", files.run, "-o", files.svg}).status == 2);
  CHECK(knock({"view", files.run, "-o", files.svg, "--force", "--step", "all", "--theme", "dark"}).status == 0);
  CHECK(content(files.svg) != first);
}

TEST_CASE("view refuses what it does not write, and leaves no file behind") {
  const Files files;
  const Answer page = knock({"view", files.run, "-o", "foreshard_view_test.gif"});
  CHECK(page.status == 2);
  CHECK(page.err.find(".html, .svg, .png or .pdf") != std::string::npos);
  CHECK(knock({"view", files.run, "-o", files.svg, "--step", "9"}).status == 2);
  CHECK(knock({"view", files.run, "-o", files.svg, "--step", "last"}).status == 2);
  CHECK(knock({"view", files.run, "-o", files.svg, "--theme", "blue"}).status == 2);
  CHECK(knock({"view", "/nonexistent.db", "-o", files.svg}).status == 3);
  CHECK(content(files.svg).empty());
}

TEST_CASE("without rsvg-convert view says what to install") {
  const Files files;
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  ::setenv("PATH", "/nonexistent", 1);
  const Answer answer = knock({"view", files.run, "-o", files.png});
  ::setenv("PATH", path.c_str(), 1);
  CHECK(answer.status == 3);
  CHECK(answer.err.find("librsvg2-bin") != std::string::npos);
  CHECK(content(files.png).empty());
}
