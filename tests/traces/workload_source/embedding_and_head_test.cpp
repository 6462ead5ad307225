// Embedding and head as units of their own: hooks, parameters and collectives of a generated model so wrapped.
#include "core/models/embedding_and_head.hpp"

#include <map>
#include <set>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"

using namespace foreshard;

namespace {

const sim::MachineProfile& h200() {
  static const sim::MachineProfile kMachine = sim::builtin_profile("h200").value();
  return kMachine;
}

Settings wrapped(bool apart, std::uint32_t accumulate = 1) {
  Settings settings;
  settings.gpus = 4;
  settings.batch = 2;
  settings.seq = 512;
  settings.param_dtype = DType::bfloat16;
  settings.reduce_dtype = DType::float32;
  settings.accumulate = accumulate;
  settings.fully_shard_embedding_and_head = apart;
  return settings;
}

Result<Workload> made(const Settings& settings) {
  ModelConfig model = preset("llama-tiny").value();
  model.layers = 2;
  return generate(model, settings, h200().host_calls, h200().gpu(), true);
}

Workload tiny(bool apart, std::uint32_t accumulate = 1) {
  return made(wrapped(apart, accumulate)).value();
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

/// Bytes of each unit's reduce-scatter.
std::map<std::string, Bytes> reduced(const Workload& workload) {
  const auto p = sim::predict(workload, h200(), {workload.settings, {}, 4});
  REQUIRE(p);
  std::map<std::string, Bytes> out;
  for (const DeviceOpRecord& op : p->run.device_ops)
    if (op.kind == DeviceOpRecord::Kind::collective && op.collective == CollectiveKind::reduce_scatter)
      out[p->run.units[op.unit.value].name] = op.bytes;
  return out;
}

/// How often a step gathers the unit.
std::size_t gathers_of(const Workload& workload, const std::string& unit) {
  const auto p = sim::predict(workload, h200(), {workload.settings, {}, 4});
  REQUIRE(p);
  std::size_t count = 0;
  for (const DeviceOpRecord& op : p->run.device_ops)
    count += op.kind == DeviceOpRecord::Kind::collective && op.collective == CollectiveKind::all_gather &&
                     p->run.units[op.unit.value].name == unit
                 ? 1
                 : 0;
  return count / 4;
}

}  // namespace

TEST_CASE("the embedding's and the head's hooks stand where their modules run") {
  const Workload two = tiny(true, 2);
  const std::string forward = "F0 F1 f1 F2 f2 F3 f3 F4 f4 f0", backward = "B0 B4 b4 B3 b3 B2 b2 B1";
  for (const Program& step : two.steps) CHECK(hooks(step) == forward + " " + backward + " " + forward + " " + backward);
}

TEST_CASE("its parameters are the model's, each in one unit, in model.parameters() order") {
  const Workload before = tiny(false);
  const Workload after = tiny(true);
  CHECK(names(after) == names(before));
  CHECK(after.units.front().parameters.empty());
  CHECK(after.units[1].name == "tok");
  CHECK(after.units.back().name == "norm, head");
  std::set<std::uint32_t> used;
  for (const Op& op : after.steps.back().ops)
    if (op.gradient_of.valid()) CHECK(used.insert(op.gradient_of.value).second);
  CHECK(used.size() == after.parameters_order.size());
}

TEST_CASE("what the root reduced its two units reduce") {
  const auto whole = reduced(tiny(false));
  const auto parts = reduced(tiny(true));
  CHECK(parts.size() == whole.size() + 1);
  CHECK_FALSE(parts.contains(""));
  CHECK(parts.at("tok") + parts.at("norm, head") == whole.at(""));
  CHECK(parts.at("layers.1") == whole.at("layers.1"));
}

TEST_CASE("the head stays gathered after forward unless it is named") {
  CHECK(gathers_of(tiny(true), "norm, head") == 1);
  CHECK(gathers_of(tiny(true), "layers.1") == 2);
  Settings resharded = wrapped(true);
  resharded.reshard_of_unit["norm, head"] = {Reshard::Kind::always, 0};
  const auto workload = made(resharded);
  REQUIRE(workload);
  CHECK(gathers_of(*workload, "norm, head") == 2);
}

TEST_CASE("tied weights, frozen ones and a root of norms alone are not taken apart") {
  const auto refusal = [](Workload workload) {
    const auto wrapped_so = model::wrap_embedding_and_head(workload, h200().host_calls);
    REQUIRE_FALSE(wrapped_so);
    CHECK(wrapped_so.error().kind == ErrorKind::usage);
    CHECK(wrapped_so.error().where == "--fully-shard-embedding-and-head");
    return wrapped_so.error().what;
  };
  const auto of = [](const char* name, bool lora = false) {
    ModelConfig model = preset(name).value();
    model.layers = 2;
    if (lora) model.lora.rank = 4;
    Settings settings;
    settings.gpus = 4;
    return generate(model, settings, h200().host_calls, h200().gpu()).value();
  };
  const std::string tied = "embedding and head share their weights (tied): one unit must hold both";
  CHECK(refusal(of("torch-transformer")) == tied);
  CHECK(refusal(of("mlp")) == "the root holds no embedding and no head");
  CHECK(refusal(of("llama-tiny", true)).starts_with("not all of the root's parameters are trained"));
  Workload both = tiny(false);
  for (Program& step : both.steps)
    for (Op& op : step.ops)
      if (op.gradient_of == ParameterId{0}) op.gradient_of = ParameterId{2};
  CHECK_FALSE(refusal(std::move(both)).empty());
  for (const ModelFamily family : {ModelFamily::hf_llama, ModelFamily::hf_gpt2, ModelFamily::mpt}) {
    ModelConfig model = preset("llama-tiny").value();
    model.layers = 2;
    model.tied_embedding = true;
    model.family = family;
    model.positions = 512;
    auto workload = generate(model, wrapped(false), h200().host_calls, h200().gpu());
    INFO((workload ? std::string() : workload.error().text()));
    REQUIRE(workload);
    CHECK(refusal(std::move(*workload)) == tied);
  }
}
