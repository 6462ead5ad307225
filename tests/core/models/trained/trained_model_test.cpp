// Models of which some parameters are frozen: what is saved, gathered, reduced and stepped.
#include <algorithm>
#include <map>
#include <set>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

Settings small_step() {
  Settings s;
  s.gpus = 2;
  s.batch = 2;
  s.seq = 16;
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return s;
}

ModelConfig small_llama() {
  return *preset("llama-tiny", {256, 3});
}

/// An mlp's inputs have no sequence.
Settings settings_for(const ModelConfig& model, Settings settings) {
  if (model.family == ModelFamily::mlp) settings.seq.reset();
  return settings;
}

Workload made(const ModelConfig& model, const Settings& settings = small_step()) {
  auto workload = generate(model, settings_for(model, settings), {}, 132);
  INFO((workload ? std::string() : workload.error().text()));
  REQUIRE(workload);
  return std::move(*workload);
}

Error refusal(const ModelConfig& model, const Settings& settings = small_step()) {
  const auto workload = generate(model, settings_for(model, settings), {}, 132);
  REQUIRE_FALSE(workload);
  return workload.error();
}

std::vector<const Parameter*> all_of(const Workload& w) {
  std::vector<const Parameter*> out;
  for (const Unit& unit : w.units)
    for (const Parameter& p : unit.parameters) out.push_back(&p);
  return out;
}

void check_gradients(const Workload& w) {
  const auto parameters = all_of(w);
  for (const Program& step : w.steps) {
    std::map<std::uint32_t, int> gradients;
    std::set<std::uint32_t> live;
    for (const Op& op : step.ops) {
      if (op.kind == OpKind::alloc && op.gradient_of.valid()) ++gradients[op.gradient_of.value];
      if (op.kind == OpKind::alloc && !op.gradient_of.valid()) live.insert(op.tensor.value);
      if (op.kind == OpKind::free) CHECK(live.erase(op.tensor.value) == 1);
    }
    for (std::uint32_t i = 0; i < parameters.size(); ++i) CHECK(gradients[i] == (parameters[i]->requires_grad ? 1 : 0));
  }
}

std::vector<std::uint32_t> units_at(const Program& step, Hook hook) {
  std::vector<std::uint32_t> out;
  for (const Op& op : step.ops)
    if (op.kind == OpKind::hook && op.hook == hook) out.push_back(op.unit.value);
  return out;
}

Bytes kept_for_backward(const Program& step) {
  Bytes bytes = 0;
  for (const Op& op : step.ops)
    if (op.kind == OpKind::alloc && op.category == MemoryCategory::activations) bytes += op.size.bytes;
  return bytes;
}

TEST_CASE("below the first trained parameter there is no backward and nothing is saved") {
  ModelConfig model = small_llama();
  const Workload whole = made(model);
  model.frozen = {"tok", "layers.0-1"};
  const Workload w = made(model);
  check_gradients(w);
  const Program& step = w.steps[1];
  CHECK(units_at(step, Hook::pre_backward) == std::vector<std::uint32_t>{0, 3});
  CHECK(units_at(step, Hook::post_backward).empty());  // no input of block 2 wants a gradient: the root's callback
  CHECK(units_at(step, Hook::pre_forward).size() == 4);
  CHECK(kept_for_backward(step) < kept_for_backward(whole.steps[1]));
  CHECK(w.parameters_order == whole.parameters_order);
}

TEST_CASE("a frozen linear layer does not save its input, a frozen norm does") {
  ModelConfig model = small_llama();
  const Bytes all = kept_for_backward(made(model).steps[1]);
  const Bytes tokens = Bytes{2} * 16;
  model.frozen = {"layers.2.w2"};
  CHECK(all - kept_for_backward(made(model).steps[1]) == tokens * model.ffn * 2);  // silu(w1 x) * (w3 x)
  model.frozen = {"layers.2.ffn_norm"};
  CHECK(all == kept_for_backward(made(model).steps[1]));
}

TEST_CASE("attention that wants no gradient makes no log-sum-exp") {
  ModelConfig model = small_llama();
  model.frozen = {"tok", "layers.0"};
  const Workload w = made(model);
  const Bytes statistics = Bytes{2} * model.heads * 16 * 4;
  const auto count = std::count_if(w.steps[1].ops.begin(), w.steps[1].ops.end(), [&](const Op& op) {
    return op.kind == OpKind::alloc && op.size.bytes == statistics;
  });
  const Workload whole = made(small_llama());
  const auto all = std::count_if(whole.steps[1].ops.begin(), whole.steps[1].ops.end(),
                                 [&](const Op& op) { return op.kind == OpKind::alloc && op.size.bytes == statistics; });
  CHECK(count < all);
}

TEST_CASE("LoRA: update layers behind their linear layer, everything else frozen") {
  ModelConfig model = small_llama();
  model.lora = {4, {}};  // PEFT's default: queries and values
  const Workload w = made(model);
  check_gradients(w);
  std::vector<std::string> names;
  std::vector<std::string> trained;
  for (const Parameter& p : w.units[1].parameters) {
    names.push_back(p.name);
    if (p.requires_grad) trained.push_back(p.name);
  }
  CHECK(std::vector<std::string>(names.begin() + 1, names.begin() + 6) ==
        std::vector<std::string>{"layers.0.wq.base_layer.weight", "layers.0.wq.lora_A.default.weight",
                                 "layers.0.wq.lora_B.default.weight", "layers.0.wk.weight",
                                 "layers.0.wv.base_layer.weight"});
  CHECK(trained == std::vector<std::string>{"layers.0.wq.lora_A.default.weight", "layers.0.wq.lora_B.default.weight",
                                            "layers.0.wv.lora_A.default.weight", "layers.0.wv.lora_B.default.weight"});
  CHECK(w.units[1].parameters[2].shape == std::vector<std::int64_t>{4, 256});
  CHECK(w.units[1].parameters[3].shape == std::vector<std::int64_t>{256, 4});
  CHECK(w.parameters_order.size() == all_of(w).size());
  CHECK(units_at(w.steps[1], Hook::post_backward) == std::vector<std::uint32_t>{3, 2});
}

TEST_CASE("LoRA beside layers with a bias, in Hugging Face's names, checkpointed") {
  ModelConfig model = small_llama();
  model.name = "qwen2";
  model.family = ModelFamily::hf_qwen2;
  model.attention_bias = true;
  model.lora = {4, {"all-linear"}};
  Settings settings = small_step();
  settings.checkpoint = Checkpoint::blocks;
  const Workload w = made(model, settings);
  check_gradients(w);
  std::vector<std::string> in_order;
  const auto parameters = all_of(w);
  for (const ParameterId id : w.parameters_order) in_order.push_back(parameters[id.value]->name);
  const auto bias = std::find(in_order.begin(), in_order.end(), "model.layers.0.self_attn.q_proj.base_layer.bias");
  REQUIRE(in_order.end() - bias > 2);
  CHECK(bias[-1] == "model.layers.0.self_attn.q_proj.base_layer.weight");
  CHECK(bias[1] == "model.layers.0.self_attn.q_proj.lora_A.default.weight");
  CHECK(bias[2] == "model.layers.0.self_attn.q_proj.lora_B.default.weight");
  CHECK(std::count_if(parameters.begin(), parameters.end(), [](const Parameter* p) { return p->requires_grad; }) ==
        3 * 7 * 2);
}

TEST_CASE("every family runs with its embedding and first block frozen") {
  const std::map<std::string, std::vector<std::string>> frozen{
      {"mlp", {"pre_norm", "layers.0"}}, {"torch-transformer", {"layers.0"}}, {"mpt-760m", {"*wpe*", "blocks.0"}}};
  for (const auto& [name, patterns] : frozen) {
    INFO(name);
    ModelConfig model = *preset(name, {name == "mpt-760m" ? 1536 : 64, 2});
    Settings settings = small_step();
    if (name != "mpt-760m") settings.param_dtype = settings.reduce_dtype = std::nullopt;
    model.frozen = patterns;
    check_gradients(made(model, settings));
    model.frozen.clear();
    if (name == "mpt-760m") continue;
    model.lora.rank = 2;
    check_gradients(made(model, settings));
  }
}

TEST_CASE("what names nothing, or leaves nothing to train, is refused") {
  ModelConfig model = small_llama();
  model.frozen = {"layers.0-1", "embedding"};
  CHECK(refusal(model).what == "'embedding' names no parameter of llama-tiny");
  CHECK(refusal(model).hint.find("tok, norm, head, layers.0.attn_norm") != std::string::npos);
  model.frozen = {"*"};
  CHECK(refusal(model).what.find("nothing is left to train") != std::string::npos);
  model.frozen.clear();
  model.lora = {4, {"wq", "tok"}};
  CHECK(refusal(model).what == "'tok' names no linear layer of llama-tiny's blocks");
  model.lora.targets = {"wq"};
  Settings fused = small_step();
  fused.kernels = Kernels::fused;
  CHECK(refusal(model, fused).what.find("everything is trained") != std::string::npos);
  ModelConfig mpt = *preset("mpt-760m");
  mpt.lora.rank = 4;
  CHECK(refusal(mpt).what.find("not known for this family") != std::string::npos);
}

}  // namespace
}  // namespace foreshard
