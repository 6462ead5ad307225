#include "traces/store/store.hpp"

#include <ctime>
#include <filesystem>
#include <thread>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/store/run_sample.hpp"

namespace foreshard::traces {
namespace {

using test::difference;
using test::full_run;
using test::path_of;

void must_write(const Run& run, const std::string& path) {
  const auto written = write_run(run, path, {.force = true});
  INFO((written ? "" : written.error().text()));
  REQUIRE(written);
}

std::string round_trip(const Run& run) {
  const std::string path = path_of("round_trip.db");
  must_write(run, path);
  const Result<Run> read = read_run(path);
  if (!read) return read.error().text();
  return difference(run, *read);
}

TEST_CASE("a run reads back equal in every field", "[store]") {
  CHECK(round_trip(full_run()) == "");
  CHECK(round_trip(Run()) == "");
  Run measured;
  measured.measured = Measured{};
  CHECK(round_trip(measured) == "");
  CHECK(difference(full_run(), Run()) != "");
}

TEST_CASE("equal runs give equal bytes", "[store]") {
  must_write(full_run(), path_of("first.db"));
  const std::string first = foreshard::test::file_bytes(path_of("first.db"));
  REQUIRE(first.size() > 4096);

  SECTION("later, in another directory and over an older file") {
    std::filesystem::create_directory(path_of("elsewhere"));
    must_write(Run(), path_of("elsewhere/a longer name.db"));
    must_write(full_run(), path_of("elsewhere/a longer name.db"));
    CHECK(foreshard::test::file_bytes(path_of("elsewhere/a longer name.db")) == first);
  }
  SECTION("written by several threads at once") {
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([i] { (void)write_run(full_run(), path_of("thread" + std::to_string(i) + ".db")); });
    for (std::thread& thread : threads) thread.join();
    for (int i = 0; i < 4; ++i)
      CHECK(foreshard::test::file_bytes(path_of("thread" + std::to_string(i) + ".db")) == first);
  }
  SECTION("read and written again") {
    const Result<Run> read = read_run(path_of("first.db"));
    REQUIRE(read);
    must_write(*read, path_of("second.db"));
    CHECK(foreshard::test::file_bytes(path_of("second.db")) == first);
  }
}

TEST_CASE("a file that is there is replaced only with force", "[store]") {
  const std::string path = path_of("there.db");
  foreshard::test::write_file(path, "precious");
  const auto refused = write_run(full_run(), path);
  REQUIRE(!refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK(refused.error().text().find(path) != std::string::npos);
  CHECK(refused.error().hint.find("--force") != std::string::npos);
  CHECK(foreshard::test::file_bytes(path) == "precious");
  must_write(full_run(), path);
  CHECK(read_run(path));
}

TEST_CASE("names that a URI would read differently", "[store]") {
  for (const char* name : {"a?mode=rwc.db", "b#c.db", "d%41.db", "e f.db", "ü.db"}) {
    must_write(full_run(), path_of(name));
    CHECK(read_run(path_of(name)));
  }
}

TEST_CASE("a run that does not hold together is not written", "[store]") {
  Run run = full_run();
  std::string words;
  SECTION("label") {
    run.device_ops[3].label = LabelId{4};
    words = "device_op 3 names label 4, of which there are 4";
  }
  SECTION("unit") {
    run.blocks[1].unit = UnitId{3};
    words = "block 1 names unit 3, of which there are 3";
  }
  SECTION("parameter") {
    run.blocks[0].parameter = ParameterId{3};
    words = "block 0 names parameter 3, of which there are 3";
  }
  SECTION("block") {
    run.allocator[1].block = BlockId{2};
    words = "allocator_event 1 names block 2, of which there are 2";
  }
  SECTION("stack") {
    run.segments[0].blocks[1].stack = StackId{2};
    words = "block of a segment 1 names stack 2, of which there are 2";
  }
  SECTION("stream") {
    run.streams.push_back(run.streams[0]);
    words = "stream 0 is listed twice";
  }
  SECTION("setting") {
    run.settings.pytorch = "1.0";
    words = "a setting cannot be stored";
  }
  SECTION("not a number") {
    run.measured->step_ms[0] = std::numeric_limits<double>::quiet_NaN();
    words = "not a number";
  }
  const auto written = write_run(run, path_of("refused.db"));
  REQUIRE(!written);
  CHECK(written.error().kind == ErrorKind::mismatch);
  CHECK(written.error().what.find(words) != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path_of("refused.db")));
}

TEST_CASE("a hundred thousand rows take well under a second", "[store]") {
  Run run = full_run();
  run.device_ops.resize(30000, run.device_ops[0]);
  run.host_ops.resize(30000, run.host_ops[0]);
  run.blocks.resize(10000, run.blocks[0]);
  run.allocator.resize(30000, run.allocator[0]);
  // Time of the processor, not of a clock on the wall: other tests run at once.
  const std::clock_t begin = std::clock();
  must_write(run, path_of("large.db"));
  const std::clock_t written = std::clock();
  const Result<Run> read = read_run(path_of("large.db"));
  const std::clock_t end = std::clock();
  REQUIRE(read);
  CHECK(difference(run, *read) == "");
  const auto ms = [](std::clock_t from, std::clock_t to) {
    return 1e3 * static_cast<double>(to - from) / CLOCKS_PER_SEC;
  };
  INFO("write " << ms(begin, written) << " ms, read " << ms(written, end) << " ms, "
                << std::filesystem::file_size(path_of("large.db")) << " bytes");
  CHECK(ms(begin, written) < 2000);  // a build without optimisation included
}

}  // namespace
}  // namespace foreshard::traces
