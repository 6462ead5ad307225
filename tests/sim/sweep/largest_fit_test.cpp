// The largest batch that fits, held against plans of every batch.
#include "sim/sweep/largest_fit.hpp"

#include <algorithm>

#include "sim/sweep/remedies.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::base;
using foreshard::sim::test::machine;

namespace {

/// A model whose activations grow with the batch.
class Sized final : public WorkloadSource {
 public:
  [[nodiscard]] Result<std::shared_ptr<const Workload>> at(const Settings& settings) override {
    Settings own = base();
    own.batch = settings.batch;
    Workload w = foreshard::test::timed_workload(own, 4);
    for (Program& program : w.steps)
      for (Op& op : program.ops)
        if (op.kind == OpKind::alloc && op.category == MemoryCategory::activations)
          op.size.bytes += *settings.batch * 2 * kMiB;
    return std::make_shared<const Workload>(std::move(w));
  }
  [[nodiscard]] bool one_for_all() const override { return false; }
};

Settings with_batch(std::uint32_t batch) {
  Settings settings = base();
  settings.batch = batch;
  return settings;
}

Prediction plan(std::uint32_t batch, std::optional<Bytes> limit) {
  Sized source;
  const auto workload = source.at(with_batch(batch));
  auto p = predict(**workload, machine(), {with_batch(batch), limit, 4});
  INFO((p ? std::string() : p.error().text()));
  REQUIRE(p);
  return std::move(*p);
}

LargestFit find(const LargestFitRequest& request) {
  Sized source;
  auto found = find_largest_fit(source, machine(), request);
  REQUIRE(found);
  return std::move(*found);
}

}  // namespace

TEST_CASE("a plan of memory alone says of memory what the whole plan says") {
  Sized source;
  for (const std::uint32_t batch : {2U, 20U}) {
    const Bytes enough = plan(batch, {}).peaks.reserved;
    for (const Bytes limit : {enough - 4 * kMiB, enough, 4 * enough}) {
      const Prediction whole = plan(batch, limit);
      PredictRequest request{with_batch(batch), limit, 4};
      request.memory_only = true;
      const auto p = predict(**source.at(request.settings), machine(), request);
      REQUIRE(p);
      CHECK_FALSE(p->has_time);
      CHECK(p->peaks == whole.peaks);
      CHECK(p->num_alloc_retries == whole.num_alloc_retries);
      CHECK(p->step_num_alloc_retries == whole.step_num_alloc_retries);
      CHECK(p->out_of_memory.has_value() == whole.out_of_memory.has_value());
    }
  }
}

TEST_CASE("the largest batch that fits was simulated, and the next one does not fit") {
  for (const std::uint32_t wanted : {3U, 11U, 29U}) {
    const Bytes limit = plan(wanted, {}).peaks.reserved;
    const LargestFit found = find({with_batch(64), limit, SizeSetting::batch, 1, 64});
    const LargestFit upwards = find({base(), limit, SizeSetting::batch, 2});
    CHECK(found.value == upwards.value);
    const std::uint32_t most = std::max(found.value, found.with_retries);
    CHECK(most >= wanted);
    CHECK(most < 64);
    CHECK_FALSE(plan(found.value, limit).out_of_memory);
    CHECK(plan(found.value, limit).step_num_alloc_retries == 0);
    CHECK(plan(most + 1, limit).out_of_memory);
    CHECK(found.found().reserved == plan(found.value, limit).peaks.reserved);
    CHECK(found.tried.size() <= 14);
    for (std::size_t i = 1; i < found.tried.size(); ++i) CHECK(found.tried[i - 1].value < found.tried[i].value);
    CHECK(words_of(found).find(std::to_string(most + 1) + " does not fit; ") != std::string::npos);
  }
}

TEST_CASE("where nothing fits, and where a source has one batch, the search says so") {
  const LargestFit none = find({with_batch(8), 4 * kMiB, SizeSetting::batch, 1, 8});
  CHECK(none.value == 0);
  CHECK(none.tried.size() == 2);
  OneWorkload recorded(std::make_shared<const Workload>(foreshard::test::timed_workload(base(), 4, 3.0)));
  const auto refused = find_largest_fit(recorded, machine(), {base(), {}, SizeSetting::batch, 2});
  REQUIRE(refused);
  CHECK(refused->value == 2);
  CHECK(words_of(*refused) ==
        "3 was refused, not tried (another batch or sequence length changes the recorded program itself); 1 batch size "
        "was simulated");
}

TEST_CASE("a plan that runs out of memory names the largest batch that fits, not half of it", "[remedies][oom]") {
  const Bytes limit = plan(13, {}).peaks.reserved;
  Sized source;
  const auto remedies = find_remedies(source, machine(), {.settings = with_batch(64), .memory_limit = limit});
  REQUIRE(remedies);
  REQUIRE(remedies->out_of_memory);
  const auto batch = std::find_if(remedies->useful.begin(), remedies->useful.end(),
                                  [](const Remedy& remedy) { return remedy.setting.starts_with("--batch "); });
  REQUIRE(batch != remedies->useful.end());
  REQUIRE(batch->largest);
  CHECK(batch->settings.batch >= 13U);
  CHECK(batch->settings.batch == batch->largest->value);
  CHECK(batch->peaks.reserved <= limit);
  CHECK(batch->reason == "the largest batch size that fits: " + words_of(*batch->largest));
}
