// Embedding and head as units of their own: hooks, parameters and collectives of a generated model so wrapped.
#include "sim/sweep/split_candidate.hpp"

#include <map>
#include <set>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::machine;

namespace {

Settings wrapped() {
  Settings settings;
  settings.gpus = 4;
  settings.batch = 2;
  settings.seq = 512;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  return settings;
}

Workload tiny(std::uint32_t accumulate = 1) {
  Settings settings = wrapped();
  settings.accumulate = accumulate;
  ModelConfig model = preset("llama-tiny").value();
  model.layers = 2;
  return generate(model, settings, machine().host_calls, machine().gpu(), true).value();
}

SplitCandidate split(const Workload& workload) {
  auto found = split_workload(workload, machine(), workload.settings);
  INFO((found ? std::string() : found.error().text()));
  REQUIRE(found);
  return std::move(*found);
}

/// "F1 f1" of forwards and "B1 b1" of backwards, by unit.
std::string hooks(const Program& program) {
  const std::map<Hook, char> letters{
      {Hook::pre_forward, 'F'}, {Hook::post_forward, 'f'}, {Hook::pre_backward, 'B'}, {Hook::post_backward, 'b'}};
  std::string text;
  for (const Op& op : program.ops)
    if (const auto letter = letters.find(op.hook); op.kind == OpKind::hook && letter != letters.end())
      text += (text.empty() ? "" : " ") + (letter->second + std::to_string(op.unit.value));
  return text;
}

std::vector<std::string> names(const Workload& workload) {
  std::vector<std::string> by_id, out;
  for (const Unit& unit : workload.units)
    for (const Parameter& p : unit.parameters) by_id.push_back(p.name);
  for (const ParameterId id : workload.parameters_order) out.push_back(by_id[id.value]);
  return out;
}

std::map<std::string, Bytes> gathered(const Workload& workload, const Settings& settings) {
  const auto p = predict(workload, machine(), {settings, {}, 4});
  REQUIRE(p);
  std::map<std::string, Bytes> out;
  for (const DeviceOpRecord& op : p->run.device_ops)
    if (op.kind == DeviceOpRecord::Kind::collective && op.collective == CollectiveKind::reduce_scatter)
      out[p->run.units[op.unit.value].name] = op.bytes;
  return out;
}

}  // namespace

TEST_CASE("the embedding's and the head's hooks stand where their modules run", "[time_remedies]") {
  const SplitCandidate two = split(tiny(2));
  const std::string forward = "F0 F1 f1 F2 f2 F3 f3 F4 f4 f0", backward = "B0 B4 b4 B3 b3 B2 b2 B1";
  for (const Program& step : two.workload.steps)
    CHECK(hooks(step) == forward + " " + backward + " " + forward + " " + backward);
  CHECK(two.candidate.setting == "fully_shard(model.tok), fully_shard([model.norm, model.head])");
  CHECK(two.candidate.pytorch.starts_with("fully_shard(model.tok, mesh=mesh, mp_policy=policy, "));
}

TEST_CASE("its parameters are the model's, each in one unit, in model.parameters() order", "[time_remedies]") {
  const Workload before = tiny();
  const Workload after = split(before).workload;
  CHECK(names(after) == names(before));
  CHECK(after.units.front().parameters.empty());
  CHECK(after.units[1].name == "tok");
  CHECK(after.units.back().name == "norm, head");
  std::set<std::uint32_t> used;
  for (const Op& op : after.steps.back().ops)
    if (op.gradient_of.valid()) CHECK(used.insert(op.gradient_of.value).second);
  CHECK(used.size() == after.parameters_order.size());
}

TEST_CASE("what the root reduced its two units reduce", "[time_remedies]") {
  const Workload before = tiny();
  const SplitCandidate after = split(before);
  const auto whole = gathered(before, before.settings);
  const auto parts = gathered(after.workload, after.candidate.settings);
  CHECK(parts.size() == whole.size() + 1);
  CHECK_FALSE(parts.contains(""));
  CHECK(parts.at("tok") + parts.at("norm, head") == whole.at(""));
  CHECK(parts.at("layers.1") == whole.at("layers.1"));
}

TEST_CASE("a recording is not taken apart, nor a root of one part", "[time_remedies]") {
  const Workload recorded = foreshard::test::timed_workload(foreshard::sim::test::base(), 4, 3.0);
  const auto refused = split_workload(recorded, machine(), recorded.settings);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("the recording gathers both") == 0);
  Workload tied = tiny();
  for (Program& step : tied.steps)
    for (Op& op : step.ops)
      if (op.gradient_of == ParameterId{0}) op.gradient_of = ParameterId{2};
  const auto shared = split_workload(tied, machine(), tied.settings);
  REQUIRE_FALSE(shared);
  CHECK(shared.error().kind == ErrorKind::usage);
}
