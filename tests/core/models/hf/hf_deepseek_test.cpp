// DeepSeek-V3's latent attention, grouped router and shared experts as Hugging Face's eager code runs them.
#include "core/models/presets.hpp"
#include "tests/core/models/hf/hf_fixture.hpp"

namespace foreshard::model::testing {
namespace {

ModelConfig small() {
  return small_config(ModelFamily::hf_deepseek_v3);
}

std::vector<std::string> names_of(const Unit& unit) {
  std::vector<std::string> out;
  for (const Parameter& p : unit.parameters) out.push_back(p.name.substr(unit.name.size() + 1));
  return out;
}

TEST_CASE("deepseek_v3: each parameter gets one gradient and each hook its place") {
  for (const std::uint64_t rank : {192, 0}) {
    ModelConfig c = small();
    c.latent.q_rank = rank;
    for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks}) {
      Settings settings = small_settings();
      settings.checkpoint = checkpoint;
      const Workload workload = generated(c, settings);
      check_step(workload, workload.steps[0]);
      check_step(workload, workload.steps[1]);
    }
  }
}

TEST_CASE("deepseek_v3: parameters have the library's names, shapes and order") {
  const Workload w = generated(small(), small_settings());
  const std::vector<std::string> attention{"self_attn.q_a_proj.weight",       "self_attn.q_a_layernorm.weight",
                                           "self_attn.q_b_proj.weight",       "self_attn.kv_a_proj_with_mqa.weight",
                                           "self_attn.kv_a_layernorm.weight", "self_attn.kv_b_proj.weight",
                                           "self_attn.o_proj.weight"};
  std::vector<std::string> dense = attention;
  for (const char* name : {"mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"})
    dense.emplace_back(name);
  std::vector<std::string> sparse = attention;
  for (const char* name :
       {"mlp.experts.gate_up_proj", "mlp.experts.down_proj", "mlp.gate.weight", "mlp.shared_experts.gate_proj.weight",
        "mlp.shared_experts.up_proj.weight", "mlp.shared_experts.down_proj.weight"})
    sparse.emplace_back(name);
  for (auto* block : {&dense, &sparse})
    for (const char* name : {"input_layernorm.weight", "post_attention_layernorm.weight"}) block->emplace_back(name);
  CHECK(names_of(w.units[1]) == dense);
  CHECK(names_of(w.units[2]) == sparse);
  const auto shape = [&](std::size_t i) { return w.units[2].parameters[i].shape; };
  CHECK(shape(2) == std::vector<std::int64_t>{4 * 96, 192});
  CHECK(shape(3) == std::vector<std::int64_t>{128 + 32, 256});
  CHECK(shape(5) == std::vector<std::int64_t>{4 * (64 + 64), 128});
  CHECK(shape(6) == std::vector<std::int64_t>{256, 4 * 64});
  CHECK(w.units[1].parameters[7].shape == std::vector<std::int64_t>{640, 256});
  ModelConfig c = small();
  c.latent.q_rank = 0;
  CHECK(names_of(generated(c, small_settings()).units[1]).front() == "self_attn.q_proj.weight");
}

TEST_CASE("deepseek_v3: parameters are counted as the library counts them") {
  CHECK(parameter_elements(generated(preset("deepseek-v3").value(), small_settings())) == 671'026'404'352);
  CHECK(parameter_elements(generated(preset("moonlight-16b").value(), small_settings())) == 15'960'108'544);
}

TEST_CASE("deepseek_v3: attention makes the products of heads that are wider in q than in v") {
  const Workload w = generated(small(), small_settings());
  double forward = 0;
  double backward = 0;
  for (const Op& op : w.steps[1].ops) {
    if (op.kind != OpKind::kernel) continue;
    if (op.kernel.math.kind == KernelMath::Kind::attention_forward) forward = static_cast<double>(op.kernel.math.k);
    if (op.kernel.math.kind == KernelMath::Kind::attention_backward) backward = static_cast<double>(op.kernel.math.k);
  }
  CHECK(forward == (96 + 64) / 2);
  CHECK(backward == (3 * 96 + 2 * 64) / 5);
}

TEST_CASE("deepseek_v3: experts are split over ranks, shared ones are not") {
  Settings settings = small_settings();
  settings.expert_parallel = 2;
  const Workload w = generated(small(), settings);
  CHECK(account(w, w.steps[1]).gradients.size() == parameter_count(w));
  REQUIRE(w.units.size() == 4);  // the first block is dense
  CHECK(w.units[3].name == "model.layers.1.mlp.experts");
  CHECK(w.units[3].parameters.size() == 2);
  CHECK(w.units[3].parameters[0].shape.front() == 4);
}

TEST_CASE("deepseek_v3: the plan says what of it is an estimate, and heads that no kernel takes are refused") {
  const auto says = [](const ModelConfig& c, std::string_view what) {
    const Workload w = generated(c, small_settings());
    return std::any_of(w.estimates.begin(), w.estimates.end(),
                       [&](const std::string& one) { return one.starts_with(what); });
  };
  ModelConfig apart = small();
  apart.latent.interleaves = false;
  CHECK(says(apart, "rope_interleave false"));
  CHECK_FALSE(says(small(), "rope_interleave"));
  CHECK(says(small(), "experts are timed as if routing were nearly balanced"));
  ModelConfig wide = small();
  wide.latent.nope = 256;
  wide.head_dim = wide.latent.query();
  const auto refused = generate(wide, small_settings(), {}, 132);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("head dimension of 288") != std::string::npos);
}

}  // namespace
}  // namespace foreshard::model::testing
