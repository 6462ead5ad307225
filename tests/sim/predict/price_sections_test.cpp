// What a workload has no times of, another optimizer or the copies of another kind of shard group: its times are those
// of a workload that was made with it.
#include "sim/predict/price_sections.hpp"

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/catch.hpp"
#include "tests/sim/predict/llama_on_nodes.hpp"

using namespace foreshard;
using namespace foreshard::sim;

namespace {

Workload llama(Optimizer optimizer, std::uint32_t gpus = 4) {
  const MachineProfile machine = builtin_profile("h200").value();
  Settings settings;
  settings.gpus = gpus;
  settings.batch = 1;
  settings.seq = 512;
  settings.param_dtype = DType::bfloat16;
  settings.optimizer = optimizer;
  return generate(*preset("llama-tiny"), settings, machine.host_calls, machine.gpu()).value();
}

Prediction planned(const Workload& workload, const MachineProfile& machine, Optimizer optimizer) {
  Settings wanted = workload.settings;
  wanted.optimizer = optimizer;
  const auto p = predict(workload, machine, {wanted, {}});
  REQUIRE(p);
  return *p;
}

}  // namespace

TEST_CASE("an exchanged optimizer takes what it takes in a workload that has it", "[price_sections]") {
  const MachineProfile machine = builtin_profile("h200").value();
  const Workload adam = llama(Optimizer::adam);
  for (const Optimizer other : {Optimizer::sgd, Optimizer::adam_fused, Optimizer::adam_single}) {
    const Prediction exchanged = planned(adam, machine, other);
    const Prediction own = planned(llama(other), machine, other);
    CHECK(exchanged.has_time);
    CHECK(exchanged.time_unknown.empty());
    CHECK(exchanged.step_ms == own.step_ms);
    CHECK(exchanged.peaks == own.peaks);
    CHECK(exchanged.step_ms != planned(adam, machine, Optimizer::adam).step_ms);
  }
}

TEST_CASE("host times of the profile are not scaled as recorded ones are", "[price_sections]") {
  const MachineProfile machine = builtin_profile("h200").value();
  Workload workload = llama(Optimizer::adam);
  Settings wanted = workload.settings;
  wanted.optimizer = Optimizer::sgd;
  const auto priced = price_sections(workload, wanted, machine, 0.5);
  REQUIRE(priced);
  Nanoseconds host;
  for (const SectionCost& section : workload.sections)
    if (section.section == Section::optimizer)
      for (const SectionItem& item : section.items) host += item.host_before;
  CHECK(host == priced->host.scaled(2));
  CHECK(priced->kernels.count > 0);
}

TEST_CASE("where the times of another optimizer are not known there is no step", "[price_sections]") {
  MachineProfile no_calls = builtin_profile("h200").value();
  no_calls.host_calls_known = false;
  const Prediction p = planned(llama(Optimizer::adam), no_calls, Optimizer::sgd);
  CHECK_FALSE(p.has_time);
  CHECK_FALSE(p.valid);
  CHECK(p.interval.rests_on.empty());
  REQUIRE(p.time_unknown.size() == 1);
  CHECK(p.time_unknown.front().starts_with("the recording's optimizer is adam, and the machine profile h200"));
}

TEST_CASE("host times of another program price no optimizer", "[price_sections]") {
  MachineProfile machine = builtin_profile("h200").value();
  machine.host_calls.program = Lowering::foreshard;
  const Prediction p = planned(llama(Optimizer::adam), machine, Optimizer::sgd);
  REQUIRE(p.time_unknown.size() == 1);
  CHECK(p.time_unknown.front().find("are of foreshard's program, not of the recording's") != std::string::npos);
}

namespace {

/// The sections of a kind, with what the shard group decides about.
std::vector<std::vector<SectionItem>> items_of(const Workload& workload, Section section) {
  std::map<std::tuple<UnitId, Pass>, std::vector<SectionItem>> found;
  for (const SectionCost& cost : workload.sections) {
    if (cost.section != section) continue;
    std::vector<SectionItem>& items = found[{cost.unit, cost.pass}];
    for (const SectionItem& item : cost.items)
      if (section != Section::reduce || item.role == SectionRole::collective || item.role == SectionRole::copy_reduced)
        items.push_back(item);
  }
  std::vector<std::vector<SectionItem>> out;
  for (auto& [key, items] : found) out.push_back(std::move(items));
  return out;
}

bool alike(const std::vector<std::vector<SectionItem>>& a, const std::vector<std::vector<SectionItem>>& b) {
  const auto same = [](const SectionItem& x, const SectionItem& y) {
    return x.role == y.role && x.bytes == y.bytes && x.host_before == y.host_before;
  };
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const auto& x, const auto& y) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), same);
  });
}

}  // namespace

TEST_CASE("copies of a shard group of one rank and of several are those of a workload that has them",
          "[price_sections]") {
  const MachineProfile machine = builtin_profile("h200").value();
  for (const auto& [have, wanted] : {std::pair{4U, 1U}, std::pair{1U, 4U}}) {
    Workload workload = llama(Optimizer::adam, have);
    const Workload own = llama(Optimizer::adam, wanted);
    REQUIRE(exchanges_shard_copies(workload, own.settings));
    CHECK_FALSE(exchanges_shard_copies(workload, workload.settings));
    const auto priced = price_sections(workload, own.settings, machine, 1);
    REQUIRE(priced);
    CHECK((priced->kernels.count > 0 && priced->host.count > 0));
    REQUIRE(priced->warnings.size() == 1);
    for (const Section section : {Section::copy_out, Section::reduce})
      CHECK(alike(items_of(workload, section), items_of(own, section)));
    if (wanted > 1) CHECK(alike(items_of(workload, Section::all_gather), items_of(own, Section::all_gather)));
    CHECK_FALSE(exchanges_shard_copies(workload, own.settings));  // it has them now
  }
}

TEST_CASE("what both shard groups do in a reduction keeps its recorded times", "[price_sections]") {
  const MachineProfile machine = builtin_profile("h200").value();
  Workload workload = llama(Optimizer::adam, 1);
  for (SectionCost& cost : workload.sections)
    for (SectionItem& item : cost.items)
      if (item.role == SectionRole::chunk_cat) item.work = Nanoseconds{12345};
  REQUIRE(price_sections(workload, llama(Optimizer::adam, 4).settings, machine, 1));
  for (const SectionCost& cost : workload.sections)
    for (const SectionItem& item : cost.items)
      if (item.role == SectionRole::chunk_cat) CHECK(item.work == Nanoseconds{12345});
}

TEST_CASE("a recording of one GPU has no step on several where nothing says what all-gathers cost the host",
          "[price_sections]") {
  MachineProfile machine = builtin_profile("h200").value();
  machine.host_calls_known = false;
  Settings wanted = llama(Optimizer::adam, 4).settings;
  const auto p = predict(llama(Optimizer::adam, 1), machine, {wanted, {}});
  REQUIRE(p);
  CHECK_FALSE(p->has_time);
  REQUIRE(p->time_unknown.size() == 1);
  CHECK(p->time_unknown.front().starts_with("the recording's shard group is one rank, which gathers"));
}

TEST_CASE("a step alone is as much in doubt for exchanged copies as the whole plan", "[price_sections]") {
  const MachineProfile machine = builtin_profile("h200").value();
  Workload workload = llama(Optimizer::adam, 4);
  workload.measured = Measured{std::vector<double>(12, 8.0), std::vector<double>(12, 4.0)};  // as of a recording
  PredictRequest request{workload.settings, {}};
  request.settings.replicate = 4;
  request.host_scale = HostScale{};
  const auto whole = predict(workload, machine, request);
  REQUIRE(whole);
  CHECK(whole->host_bound);
  REQUIRE_FALSE(whole->not_valid.empty());
  CHECK(whole->not_valid.front().starts_with("host-bound, and the recorded host ran FSDP2's calls of another kind"));
  request.step_alone = true;
  const auto alone = predict(workload, machine, request);
  REQUIRE(alone);
  CHECK(alone->step_ms == whole->step_ms);
  CHECK(alone->not_valid == whole->not_valid);
}
