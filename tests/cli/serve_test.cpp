// `foreshard serve` at the front door, and the progress that it follows.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <thread>

#include "cli/options/progress_file.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard::cli;
using foreshard::test::TemporaryFolder;

namespace {

std::vector<std::string> lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> out;
  for (std::string line; std::getline(file, line);) out.push_back(line);
  return out;
}

}  // namespace

TEST_CASE("serve refuses what it cannot show, before it listens") {
  CHECK(run_cli({"serve"}).status == 2);
  const Answer missing = run_cli({"serve", "/no/such/run.db"});
  CHECK(missing.status == 3);
  CHECK(missing.err.find("/no/such/run.db") != std::string::npos);
  CHECK(missing.out.empty());
  CHECK(run_cli({"serve", "x.db", "--port", "99999"}).status == 2);
  const TemporaryFolder folder;
  const std::string other = folder.write("other.txt", "hello");
  CHECK(run_cli({"serve", other, "--wait"}).status == 3);
}

TEST_CASE("serve says where it is, and a signal ends it in order") {
  const TemporaryFolder folder;
  const std::string path = folder.file("later.db");
  std::thread person([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(500));
    ::kill(::getpid(), SIGTERM);
  });
  const Answer answer = run_cli({"serve", path, "--wait", "--port", "0"});
  person.join();
  CHECK(answer.status == 0);
  CHECK(answer.out.starts_with("http://127.0.0.1:"));
}

TEST_CASE("a progress file is whole lines: a head, rows, an end") {
  const TemporaryFolder folder;
  const std::string path = folder.file("progress.jsonl");
  {
    ProgressFile progress;
    progress.row({1});  // nothing before open()
    REQUIRE(progress.open(path, false, {"a sweep", "points", 2, {"step_ms", "peak_reserved_bytes"}}));
    progress.row({1.5, 4096});
    progress.row({nullptr, nullptr});
  }
  CHECK(lines(path) ==
        std::vector<std::string>{
            R"({"progress":1,"title":"a sweep","unit":"points","total":2,"columns":["step_ms","peak_reserved_bytes"]})",
            R"({"done":1,"total":2,"row":[1.5,4096]})", R"({"done":2,"total":2,"row":[null,null]})",
            R"({"finished":true,"done":2,"total":2})"});
  ProgressFile again;
  CHECK_FALSE(again.open(path, false, {}));
  CHECK(again.open(path, true, {}));
  ProgressFile nowhere;
  CHECK_FALSE(nowhere.open("/no/such/folder/x", false, {}));
}

TEST_CASE("sweep --progress tells every point") {
  const TemporaryFolder folder;
  const std::string path = folder.file("sweep.jsonl");
  const std::vector<std::string> sweep{
      "sweep",      "mlp",        "--dim", "512", "--layers", "3", "--gpus", "4", "--forward-prefetch",
      "implicit,1", "--progress", path};
  const Answer answer = run_cli(sweep);
  INFO(answer.err);
  CHECK(answer.status == 0);
  const auto told = lines(path);
  REQUIRE(told.size() == 4);
  CHECK(told[0].find(
            R"("state","step_ms","tokens_per_s_per_gpu","peak_reserved_bytes","fits","valid"],"limit_bytes":)") !=
        std::string::npos);
  CHECK(told[1].find(R"("done":1,"total":2)") != std::string::npos);
  CHECK(told[3].find("finished") != std::string::npos);
  const std::size_t at = told[3].find(R"("best":)");
  REQUIRE(at != std::string::npos);
  const std::string best = told[3].substr(at + 7, told[3].size() - at - 8);
  CHECK((told[1].find(best) != std::string::npos || told[2].find(best) != std::string::npos));
  CHECK(run_cli(sweep).status == 2);
}

TEST_CASE("progress that cannot be written is said, beside the table") {
  const Answer answer = run_cli(
      {"sweep", "mlp", "--dim", "512", "--layers", "2", "--gpus", "4", "--batch", "1", "--progress", "/dev/full"});
  INFO(answer.err);
  CHECK(answer.status == 3);
  CHECK(answer.out.find("batch") != std::string::npos);
  CHECK(answer.err.find("/dev/full: the progress could not be written: No space left on device") != std::string::npos);
}

TEST_CASE("a store of the best point that cannot be written is said, beside the table") {
  const TemporaryFolder folder;
  // A name that is long enough, but for what a temporary file has more.
  const Answer answer = run_cli({"sweep", "mlp", "--dim", "512", "--layers", "2", "--gpus", "4", "--batch", "1",
                                 "--csv", folder.file("x.csv"), "-o", folder.file(std::string(250, 'x'))});
  INFO(answer.err);
  CHECK(answer.status == 3);
  CHECK(answer.out.find("batch") != std::string::npos);
  CHECK(answer.err.find("cannot create a file here") != std::string::npos);
}
