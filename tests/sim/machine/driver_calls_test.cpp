// What cudaMalloc and cudaFree take: /driver_calls of h200 against what was measured, and who is told of it when.
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "sim/machine/address_space.hpp"
#include "sim/machine/profile.hpp"
#include "sim/machine/timed_memory.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace foreshard::sim {
namespace {

using nlohmann::json;

TEST_CASE("h200's driver calls are what retries.py --calls measured") {
  const DriverCalls calls = builtin_profile("h200")->driver_calls;
  const json rows = json::parse(test::file_bytes("sim/machine/measured/h200_driver_calls.json"))["calls"];
  // Of segments that are made one behind the other beside kernels, and go back once these are done.
  const auto in_a_row = [&](int mib, const char* call) {
    for (const json& row : rows)
      if (row.contains("beside_kernels") && row["mib"] == mib) return row[call]["median_us"].get<double>();
    FAIL("no row of that size");
    return 0.0;
  };
  for (const auto& [call, base, slope] :
       {std::tuple{"malloc", calls.malloc, calls.malloc_gib}, std::tuple{"free", calls.free, calls.free_gib}}) {
    CAPTURE(call);
    const double gib = (in_a_row(256, call) - in_a_row(20, call)) / (236.0 / 1024);
    CHECK(slope.us() == Approx(gib).margin(0.5));
    CHECK(base.us() == Approx(in_a_row(20, call) - gib * 20 / 1024).margin(0.05));
  }
  for (const auto& [call, time] : {std::pair{"map", calls.map}, std::pair{"unmap", calls.unmap}}) {
    double sum = 0;
    for (const json& row : rows)
      if (const int pages = row.value("pages", 0); pages >= 50) sum += row[call]["median_us"].get<double>() / pages / 2;
    CHECK(time.us() == Approx(sum).margin(0.05));
  }
  for (const json& row : rows)
    if (row.contains("refused"))
      CHECK(calls.refused.us() == Approx(row["refused"]["median_us"].get<double>()).margin(0.5));
}

TEST_CASE("a complete profile of before takes the driver's calls from h200, with what they were fitted on") {
  auto profile = json::parse(builtin_profile_json("h200").value());
  profile.erase("driver_calls");
  profile["measurements"].erase("driver-calls-probe");
  const auto read = parse_profile(profile.dump(), "before.json");
  INFO((read ? "" : read.error().text()));
  REQUIRE(read);
  CHECK(read->driver_calls.free == builtin_profile("h200")->driver_calls.free);
}

TEST_CASE("driver calls count from the first one on that gives something back, which waits for the GPU") {
  SimMemoryOptions options;
  options.total = options.capacity = 4 * kGiB;
  SimMemory memory(options);
  std::vector<std::pair<std::int64_t, bool>> told;  // us, waits
  const DriverCalls calls{{1'000}, {10'000}, {7'000}, {2'000}, {20'000}, {3'000}, {4'000}};
  TimedMemory timed(memory, calls, 20 * kMiB,
                    [&](const TimedMemory::Call& call) { told.emplace_back(call.time.count / 1000, call.waits); });
  const auto first = timed.allocate(MemoryKind::device, kGiB);
  const auto second = timed.allocate(MemoryKind::device, 2 * kGiB);
  REQUIRE((first && second));
  CHECK_FALSE(timed.allocate(MemoryKind::device, 2 * kGiB));
  CHECK(told.empty());  // growth
  timed.free(*second);
  CHECK_FALSE(timed.allocate(MemoryKind::device, 4 * kGiB));
  CHECK(timed.allocate(MemoryKind::device, kGiB));
  const auto range = timed.reserve(kGiB);
  REQUIRE(range);
  CHECK(timed.map(*range, 40 * kMiB));
  CHECK_FALSE(timed.map(*range + 40 * kMiB, 4 * kGiB));
  timed.unmap(*range, 40 * kMiB);
  CHECK(told == std::vector<std::pair<std::int64_t, bool>>{
                    {42, true}, {7, false}, {11, false}, {6, false}, {7, false}, {8, true}});
  CHECK(memory.used() == 2 * kGiB);
  // The small pool's pages are of 2 MiB: each is mapped by itself, and many go back at once.
  told.clear();
  const auto small = timed.reserve(kGiB);
  REQUIRE(small);
  for (Bytes at = 0; at < 20 * kMiB; at += 2 * kMiB) CHECK(timed.map(*small + at, 2 * kMiB));
  timed.unmap(*small, 20 * kMiB);
  REQUIRE(told.size() == 11);
  CHECK(told.front() == std::pair<std::int64_t, bool>{3, false});
  CHECK(told.back() == std::pair<std::int64_t, bool>{40, true});
}

}  // namespace
}  // namespace foreshard::sim
