// Programs of small workloads: what they run to is what a plan says, and what cannot be forecast is refused.
#include "core/adapt/adapt.hpp"
#include "sim/forecast/forecast.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/process_memory_options.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::base;
using foreshard::sim::test::machine;

namespace {

ForecastRequest request_of(const Workload& workload, const Settings& settings, const std::string& lengths,
                           std::size_t steps) {
  ForecastRequest request{parse_length_list(lengths, "lengths").value(), steps, {0}, {}};
  request.process.options.config = parse_alloc_conf(settings.alloc_conf, settings.pytorch).value();
  request.process.options.memory = process_memory_options(workload, settings, machine(), {}, true).memory;
  request.process.options.as_recorded = settings.alloc_conf == workload.settings.alloc_conf;
  return request;
}

/// Two recorded lengths and a third; the activations of `half` follow them.
Workload recording(bool reorder = false) {
  Workload w = foreshard::test::small_workload(base(), 3);
  const auto at = [&](std::uint32_t seq, Program program) {
    for (Op& op : program.ops)
      if (op.kind == OpKind::alloc && op.size.bytes == foreshard::test::kTemporary) op.size.bytes = 30'000ULL * seq;
    return program;
  };
  const Program first = w.steps[0];
  const Program later = w.steps[1];
  w.steps = {at(100, first), at(200, later), at(100, later), at(300, later)};
  if (reorder) {
    std::vector<Op>& ops = w.steps[3].ops;
    const auto two = std::adjacent_find(ops.begin(), ops.end(), [](const Op& a, const Op& b) {
      return a.kind == OpKind::alloc && b.kind == OpKind::free;
    });
    REQUIRE(two != ops.end());
    std::iter_swap(two, std::next(two));
  }
  for (const std::uint32_t seq : {100U, 200U, 100U, 300U}) w.recorded.push_back({2, seq, false});
  w.cycle = 4;
  return w;
}

}  // namespace

TEST_CASE("a forecast of equal steps ends at the plan's peaks", "[forecast]") {
  for (const char* conf : {"", "expandable_segments:True", "roundup_power2_divisions:4"}) {
    INFO(conf);
    const Workload workload = foreshard::test::timed_workload(base(), 4, 3.0);
    Settings settings = base();
    settings.alloc_conf = conf;
    const auto plan = predict(workload, machine(), {settings, {}, 4});
    REQUIRE(plan);
    const auto adapted = adapt(workload, settings);
    REQUIRE(adapted);
    auto programs = recorded_programs(adapted->workload, settings, BetweenOrders::refuse);
    REQUIRE(programs);
    const auto seeds = run_forecast(**programs, request_of(adapted->workload, settings, "128", 4));
    REQUIRE(seeds);
    const StepUse& last = seeds->front().steps.at(3);
    CHECK(last.peak_reserved == plan->peaks.reserved);
    CHECK(last.peak_allocated == plan->peaks.allocated);
  }
}

TEST_CASE("at any settings a forecast of equal steps ends at the plan's peaks", "[forecast][property]") {
  CHECK(rc::check([] {
    Settings settings = foreshard::test::random_settings();
    settings.batch = 2;
    settings.seq = 128;
    if (settings.release == Release::record_stream) settings.release = Release::automatic;
    settings.cuda_graph.reset();
    settings.alloc_conf = *rc::gen::element<std::string>("", "expandable_segments:True", "max_split_size_mb:32",
                                                         "garbage_collection_threshold:0.5");
    const Workload workload = foreshard::test::timed_workload(base(), *rc::gen::inRange(1U, 5U), 3.0);
    const auto limit = *rc::gen::element<std::optional<Bytes>>(std::nullopt, 40 * kMiB, 64 * kMiB);
    const auto plan = predict(workload, machine(), {settings, limit, 4});
    RC_PRE(plan && !plan->deadlock);
    const auto adapted = adapt(workload, settings);
    RC_ASSERT(adapted);
    auto programs = recorded_programs(adapted->workload, settings, BetweenOrders::refuse);
    RC_ASSERT(programs);
    ForecastRequest request = request_of(adapted->workload, settings, "128", 4);
    request.process.options.memory = process_memory_options(adapted->workload, settings, machine(), limit, true).memory;
    const auto seeds = run_forecast(**programs, request);
    RC_ASSERT(seeds);
    const SeedForecast& seed = seeds->front();
    RC_ASSERT(seed.out_of_memory.has_value() == plan->out_of_memory.has_value());
    if (seed.out_of_memory) return;
    RC_ASSERT(seed.steps.at(3).peak_reserved == plan->peaks.reserved);
    RC_ASSERT(seed.steps.at(3).peak_allocated == plan->peaks.allocated);
    RC_ASSERT(seed.num_alloc_retries() == plan->num_alloc_retries);
  }));
}

TEST_CASE("recorded lengths run as recorded, others from them", "[forecast]") {
  const Workload workload = recording();
  auto programs = recorded_programs(workload, base(), BetweenOrders::refuse);
  REQUIRE(programs);
  const auto plan = predict(workload, machine(), {base(), {}, 4});
  REQUIRE(plan);
  const auto seeds = run_forecast(**programs, request_of(workload, base(), "100\n200\n100\n300", 4));
  REQUIRE(seeds);
  REQUIRE(plan->steps.size() == 4);
  for (std::size_t i = 0; i < 4; ++i) CHECK(seeds->front().steps[i].peak_reserved == plan->steps[i].peaks.reserved);
  CHECK((*programs)->notes().empty());
  CHECK((*programs)->doubts().empty());
  // 250 was not recorded: its temporaries lie on the line.
  REQUIRE((*programs)->prepare({250}, 1));
  const auto& sizes = (*programs)->at(250).later.sizes;
  CHECK(std::find(sizes.begin(), sizes.end(), 30'000 * 250) != sizes.end());
  // Its first step is the recorded one, with the temporaries of a later step of 250.
  REQUIRE((*programs)->at(250).first);
  const auto& first = (*programs)->at(250).first->sizes;
  CHECK(first.size() > sizes.size());
  CHECK(std::find(first.begin(), first.end(), 30'000 * 250) != first.end());
  CHECK(std::find(first.begin(), first.end(), 30'000 * 100) == first.end());
  CHECK(std::find(first.begin(), first.end(), foreshard::test::kWorkspace) != first.end());
  CHECK((*programs)->notes().size() == 1);
}

TEST_CASE("a recording whose first step's length is not known goes on with the others", "[forecast]") {
  const Workload known = recording();
  auto whole = recorded_programs(known, base(), BetweenOrders::refuse);
  REQUIRE(whole);
  const auto expected = run_forecast(**whole, request_of(known, base(), "100\n200\n300", 3));
  REQUIRE(expected);
  // It makes the requests of the later step of 100.
  Workload unknown = known;
  unknown.recorded[0] = {0, 0, false};
  auto programs = recorded_programs(unknown, base(), BetweenOrders::refuse);
  REQUIRE(programs);
  const auto seeds = run_forecast(**programs, request_of(unknown, base(), "100\n200\n300", 3));
  REQUIRE(seeds);
  CHECK_FALSE(seeds->front().behind_recorded_first);
  for (std::size_t i = 0; i < 3; ++i)
    CHECK(seeds->front().steps[i].peak_reserved == expected->front().steps[i].peak_reserved);
  REQUIRE((*programs)->notes().size() == 1);
  CHECK((*programs)->notes()[0].find("one of length 100") != std::string::npos);
  // Without that step nothing says what it is of: it runs before.
  unknown.recorded[2] = {0, 0, false};
  auto behind = recorded_programs(unknown, base(), BetweenOrders::refuse);
  REQUIRE(behind);
  const auto ran = run_forecast(**behind, request_of(unknown, base(), "200\n300", 2));
  REQUIRE(ran);
  CHECK(ran->front().behind_recorded_first);
  REQUIRE((*behind)->notes().size() == 2);
  CHECK((*behind)->notes()[1] == "1 recorded step whose length the recording does not show is left out");
}

TEST_CASE("a first step of another order runs behind the recorded one", "[forecast]") {
  const Workload workload = recording(true);
  auto programs = recorded_programs(workload, base(), BetweenOrders::refuse);
  REQUIRE(programs);
  const auto seeds = run_forecast(**programs, request_of(workload, base(), "300\n200", 2));
  REQUIRE(seeds);
  CHECK(seeds->front().steps.size() == 2);
  CHECK_FALSE((*programs)->at(300).first);
  CHECK((*programs)->at(200).first);
}

TEST_CASE("between two orders a length is refused, unless one is named", "[forecast]") {
  const Workload workload = recording(true);
  auto refusing = recorded_programs(workload, base(), BetweenOrders::refuse);
  REQUIRE(refusing);
  const auto refused = (*refusing)->prepare({250}, 1);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
  CHECK(refused.error().what.find("250 lies between 200 and 300") != std::string::npos);
  CHECK((*refusing)->prepare({150, 400}, 1));
  auto naming = recorded_programs(workload, base(), BetweenOrders::upper);
  REQUIRE(naming);
  CHECK((*naming)->prepare({250}, 1));
  CHECK((*naming)->at(250).later.shape == (*naming)->at(300).later.shape);
  CHECK((*naming)->doubts().size() == 2);  // the guess, and that 300 is the one length of its order
  // 300 is the one length of its order, 150 lies on a line through two, and 400 beyond all.
  CHECK((*refusing)->doubts().size() == 3);
}

TEST_CASE("a recording without lengths, and record_stream, are refused", "[forecast]") {
  Workload unknown = recording();
  for (std::size_t i = 1; i < 4; ++i) unknown.recorded[i].seq = 0;
  const auto none = recorded_programs(unknown, base(), BetweenOrders::refuse);
  REQUIRE_FALSE(none);
  CHECK(none.error().hint.find("--write-about") != std::string::npos);
  Settings records = base();
  records.release = Release::record_stream;
  const auto refused = recorded_programs(recording(), records, BetweenOrders::refuse);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("record_stream") != std::string::npos);
}
