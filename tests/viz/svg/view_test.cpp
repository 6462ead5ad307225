// `foreshard view`: formats, steps, files that are there.

#include <cstdlib>

#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/viz/svg/drawn_runs.hpp"
#include "traces/store/store.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

struct Files {
  test::TemporaryFolder folder;
  std::string run = folder.file("run.db");
  std::string svg = folder.file("run.svg");
  std::string png = folder.file("run.png");
  Files() { REQUIRE(traces::write_run(viz::small_run(), run, {.force = true})); }
};

}  // namespace

TEST_CASE("view writes an SVG once, and again with --force") {
  const Files files;
  CHECK(run_cli({"view", files.run, "-o", files.svg}).status == 0);
  const std::string first = test::file_bytes(files.svg);
  CHECK(first.starts_with("<svg "));
  CHECK(run_cli({"view", files.run, "-o", files.svg}).status == 2);
  CHECK(run_cli({"view", files.run, "-o", files.svg, "--force", "--step", "all", "--theme", "dark"}).status == 0);
  CHECK(test::file_bytes(files.svg) != first);
}

TEST_CASE("view refuses what it does not write, and leaves no file behind") {
  const Files files;
  const Answer page = run_cli({"view", files.run, "-o", files.folder.file("run.gif")});
  CHECK(page.status == 2);
  CHECK(page.err.find(".html, .svg, .png or .pdf") != std::string::npos);
  CHECK(run_cli({"view", files.run, "-o", files.svg, "--step", "9"}).status == 2);
  CHECK(run_cli({"view", files.run, "-o", files.svg, "--step", "last"}).status == 2);
  CHECK(run_cli({"view", files.run, "-o", files.svg, "--theme", "blue"}).status == 2);
  CHECK(run_cli({"view", "/nonexistent.db", "-o", files.svg}).status == 3);
  CHECK(test::file_bytes(files.svg).empty());
}

TEST_CASE("a picture of ranks is one, with nothing of memory") {
  const Files files;
  CHECK(run_cli({"view", files.run, "-o", files.svg, "--picture", "ranks"}).status == 0);
  CHECK(test::file_bytes(files.svg).find("waits for a rank") != std::string::npos);
  const auto refused = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments{"view", files.run, "-o", files.svg, "--force"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_cli(arguments);
  };
  CHECK(refused({"--picture", "ranks", "--by", "module"}).err.find("shows no memory") != std::string::npos);
  CHECK(refused({"--picture", "ranks", "--height", "900"}).err.find("as high as its rows") != std::string::npos);
  CHECK(refused({"--picture", "links"}).status == 2);
  CHECK(run_cli({"view", files.run, "-o", files.folder.file("run.html"), "--picture", "ranks"}).status == 2);
}

TEST_CASE("without rsvg-convert view says what to install") {
  const Files files;
  const std::string path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "";
  ::setenv("PATH", "/nonexistent", 1);
  const Answer answer = run_cli({"view", files.run, "-o", files.png});
  ::setenv("PATH", path.c_str(), 1);
  CHECK(answer.status == 3);
  CHECK(answer.err.find("librsvg2-bin") != std::string::npos);
  CHECK(test::file_bytes(files.png).empty());
}
