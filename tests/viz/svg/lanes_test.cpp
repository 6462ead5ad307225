// Lanes: order, level of detail, and nothing dropped.

#include "viz/scene/lanes.hpp"

#include "tests/catch.hpp"
#include "tests/growth.hpp"
#include "tests/viz/svg/drawn_runs.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

std::vector<Lane> lanes_of(const Run& run, const WindowRequest& request, Nanoseconds pixel) {
  const auto window = choose_window(run, request);
  REQUIRE(window);
  REQUIRE(window->lanes);
  return read_lanes(run, *window->lanes, *window, pixel);
}

std::uint64_t counted(const Lane& lane) {
  std::uint64_t count = 0;
  for (const Bar& bar : lane.bars) count += bar.count;
  return count;
}

/// `steps` steps of one phase of 10 us, each of which issues four ops to the compute stream, the last of them first,
/// and one to another; ops run 100 us after they were issued, for 5 us.
Run run_of_phases(unsigned steps) {
  Run run;
  for (unsigned step = 0; step < steps; ++step) {
    const Nanoseconds begin = us(10 * step);
    run.phases.push_back({static_cast<std::int32_t>(step), Recording::run, "forward", begin, begin + us(10)});
    for (const unsigned at : {6U, 0U, 2U, 4U, 8U}) {
      DeviceOpRecord op;
      op.stream = at == 8 ? StreamId{1} : kComputeStream;
      op.issue = begin + us(at);
      op.start = op.issue + us(100);
      op.end = op.start + us(5);
      run.device_ops.push_back(op);
    }
  }
  return run;
}

std::vector<Stretch> phases_of(const Run& run) {
  Window all;
  all.from = {INT64_MIN};
  all.to = {INT64_MAX};
  Side side;
  side.origin = us(3);
  side.last = us(15);
  return device_phases(run, side, all);
}

}  // namespace

TEST_CASE("a phase on the device is from the first start to the last end of what it issued to the compute stream") {
  Run run = run_of_phases(3);
  run.phases.push_back({3, Recording::run, "backward", us(30), us(40)});  // issues nothing
  const std::vector<Stretch> phases = phases_of(run);
  REQUIRE(phases.size() == 3);
  for (unsigned step = 0; step < 3; ++step) {
    CHECK(phases[step].start == us(97 + 10 * step));
    CHECK(phases[step].end == us(108 + 10 * step));
    CHECK(phases[step].other_step == (step == 2));
  }
}

TEST_CASE("phases on the device are found in linear time") {
  const Run few = run_of_phases(500), many = run_of_phases(8000);
  const double exponent = test::growth_exponent(
      [&](unsigned steps) { CHECK_FALSE(phases_of(steps == 500 ? few : many).empty()); }, 500, 8000);
  INFO("exponent " << exponent);
  CHECK(exponent < test::kLinearWithin);
}

TEST_CASE("lanes stand in the order of a unit's way, and only where ops are") {
  const auto lanes = lanes_of(small_run(), {}, us(10));
  REQUIRE(lanes.size() == 6);
  CHECK(lanes[0].name == "host: issues ops");
  CHECK(lanes[1].name == "compute");
  CHECK(lanes[2].name == "all-gather copy-in");
  CHECK(lanes[3].name == "all-gather");
  CHECK(lanes[4].name == "reduce-scatter");
  CHECK(lanes[5].name == "user 1");
  CHECK(lanes[3].bars[0].title.find("layers.0") != std::string::npos);
  CHECK(lanes[3].bars[0].op_class == OpClass::all_gather);
}

TEST_CASE("every op is in a bar, at any level of detail") {
  Run run = small_run();
  for (int i = 0; i < 5000; ++i)
    run.device_ops.push_back(kernel(kComputeStream, us(7000), Nanoseconds{7000000 + i * 500},
                                    Nanoseconds{7000000 + i * 500 + 300},
                                    i % 3 == 0 ? KernelClass::gemm : KernelClass::memory_bound));
  for (const std::int64_t pixel : {1, 400, 5000, 1000000}) {
    const auto lanes = lanes_of(run, {.all = true}, Nanoseconds{pixel});
    std::uint64_t all = 0;
    for (const Lane& lane : lanes) {
      CHECK(counted(lane) == lane.ops);
      if (!lane.name.starts_with("host")) all += lane.ops;
    }
    CHECK(all == run.device_ops.size());
    if (pixel >= 5000) CHECK(lanes[1].bars.size() < 1000);
  }
}

TEST_CASE("a bar of several ops says how many and of what") {
  Run run = small_run();
  run.device_ops.clear();
  for (int i = 0; i < 4; ++i)
    run.device_ops.push_back(kernel(kComputeStream, us(1), us(100 + i), us(101 + i), KernelClass::gemm));
  const auto lanes = lanes_of(run, {.all = true}, us(10));
  REQUIRE(lanes[1].bars.size() == 1);
  CHECK(lanes[1].bars[0].title == "4 ops: 4 GEMM, start 0.100 ms, 0.004 ms, busy 0.004 ms");
  CHECK(lanes[1].bars[0].others.empty());
}

TEST_CASE("a bar of several classes keeps those that are a tenth of it") {
  Run run = small_run();
  run.device_ops.clear();
  const auto add = [&run](std::int64_t from, std::int64_t to, KernelClass kernel_class) {
    run.device_ops.push_back(kernel(kComputeStream, us(1), us(from), us(to), kernel_class));
  };
  add(100, 106, KernelClass::gemm);
  add(106, 108, KernelClass::attention);
  add(108, 109, KernelClass::memory_bound);
  const auto lanes = lanes_of(run, {.all = true}, us(100));
  REQUIRE(lanes[1].bars.size() == 1);
  const Bar& bar = lanes[1].bars[0];
  CHECK(bar.op_class == OpClass::gemm);
  REQUIRE(bar.others.size() == 2);
  CHECK(bar.others[0].first == OpClass::attention);
  CHECK(bar.others[0].second == Approx(2.0 / 9).epsilon(0.01));
}

TEST_CASE("ops of another step are told apart") {
  Run run = small_run();
  const auto lanes = lanes_of(run, {.step = 1, .from = us(-3000)}, us(10));
  REQUIRE(lanes[4].name == "reduce-scatter");
  REQUIRE(lanes[4].bars.size() == 2);
  CHECK(lanes[4].bars[0].other_step);
  CHECK_FALSE(lanes[4].bars[1].other_step);
}
