// Experts split over ranks: what a rank holds, which units FSDP2 makes, what is exchanged and when the host waits.
#include <map>
#include <set>

#include "tests/core/models/hf/hf_fixture.hpp"

namespace foreshard::model::testing {
namespace {

constexpr std::uint64_t kRows = 2 * 64 * 2;  // batch · seq · experts a token
constexpr Bytes kRowBytes = 256 * 2;

Settings parallel(std::uint32_t ranks) {
  Settings s = small_settings();
  s.expert_parallel = ranks;
  return s;
}

struct Exchange {
  bool backward = false;
  Bytes bytes = 0;
  bool operator==(const Exchange&) const = default;
};

std::vector<Exchange> exchanges(const Program& step) {
  std::vector<Exchange> out;
  bool backward = false;
  for (const Op& op : step.ops) {
    backward |= op.kind == OpKind::hook && op.hook == Hook::backward_begin;
    if (op.kind != OpKind::collective) continue;
    CHECK(op.collective.kind == CollectiveKind::all_to_all);
    out.push_back({backward, op.collective.bytes});
  }
  return out;
}

std::vector<std::pair<Hook, std::uint32_t>> hooks_of(const Program& step) {
  std::vector<std::pair<Hook, std::uint32_t>> out;
  for (const Op& op : step.ops)
    if (op.kind == OpKind::hook && op.unit.valid()) out.emplace_back(op.hook, op.unit.value);
  return out;
}

std::string refused(const ModelConfig& config, const Settings& settings) {
  const auto workload = generate(config, settings, {}, 132);
  REQUIRE_FALSE(workload);
  CHECK(workload.error().kind == ErrorKind::usage);
  CHECK(workload.error().where == "--expert-parallel");
  CHECK_FALSE(workload.error().hint.empty());
  return workload.error().what;
}

TEST_CASE("expert parallel: the experts are a unit of their own inside the block's, one rank's part of them") {
  const Workload w = generated(small_config(ModelFamily::hf_mixtral), parallel(2));
  REQUIRE(w.units.size() == 5);
  CHECK(w.units[1].name == "model.layers.0");
  CHECK(w.units[1].parameters.size() == 7);
  CHECK(w.units[1].parameters[4].name == "model.layers.0.mlp.gate.weight");
  CHECK(w.units[1].parameters[4].shape == std::vector<std::int64_t>{4, 256});  // of all experts
  CHECK_FALSE(w.units[1].parameters[4].expert_parallel);
  const Unit& experts = w.units[2];
  CHECK(experts.name == "model.layers.0.mlp.experts");
  REQUIRE(experts.parameters.size() == 2);
  CHECK(experts.parameters[0].shape == std::vector<std::int64_t>{2, 1024, 256});
  CHECK(experts.parameters[1].shape == std::vector<std::int64_t>{2, 256, 512});
  CHECK(experts.parameters[1].expert_parallel);
  CHECK(w.process_groups == std::vector<ProcessGroup>{{"mesh_ep", 2, 1}});
  REQUIRE(w.parameters_order.size() == parameter_count(w));  // model.parameters(): as without, block by block
  std::vector<std::string> names;
  for (const Unit& unit : w.units)
    for (const Parameter& p : unit.parameters) names.push_back(p.name);
  CHECK(names[w.parameters_order[6].value] == "model.layers.0.mlp.experts.gate_up_proj");
  CHECK(names[w.parameters_order[8].value] == "model.layers.0.input_layernorm.weight");
}

TEST_CASE("expert parallel: where a unit may have meshes by parameter, the experts are its second group") {
  Settings settings = parallel(2);
  settings.pytorch = "2.13";
  const Workload w = generated(small_config(ModelFamily::hf_mixtral), settings);
  check_step(w, w.steps[1]);
  REQUIRE(w.units.size() == 3);
  CHECK(w.units[1].groups == std::vector<std::uint32_t>{7, 2});
  CHECK(w.units[1].parameters[6].name == "model.layers.0.post_attention_layernorm.weight");
  CHECK(w.units[1].parameters[7].name == "model.layers.0.mlp.experts.gate_up_proj");
  CHECK(w.units[1].parameters[7].expert_parallel);
  std::set<std::uint32_t> groups;
  for (const SectionCost& section : w.sections)
    if (section.unit == UnitId{1} && section.section == Section::all_gather) groups.insert(section.group);
  CHECK(groups == std::set<std::uint32_t>{0, 1});
  settings.pytorch = "2.13~groups-per-mesh";
  CHECK(generated(small_config(ModelFamily::hf_mixtral), settings).units.size() == 5);
}

TEST_CASE("expert parallel: each parameter gets one gradient, and the experts' hooks stand inside their block's") {
  const Workload w = generated(small_config(ModelFamily::hf_mixtral), parallel(2));
  const Account a = account(w, w.steps[1]);
  CHECK(a.gradients.size() == parameter_count(w));
  for (const auto& [parameter, times] : a.gradients) CHECK(times == 1);
  using enum Hook;
  const std::vector<std::pair<Hook, std::uint32_t>> wanted{
      {pre_forward, 0},  {pre_forward, 1},  {pre_forward, 2},   {post_forward, 2},  {post_forward, 1},
      {pre_forward, 3},  {pre_forward, 4},  {post_forward, 4},  {post_forward, 3},  {post_forward, 0},
      {pre_backward, 0}, {pre_backward, 3}, {pre_backward, 4},  {post_backward, 4}, {post_backward, 3},
      {pre_backward, 1}, {pre_backward, 2}, {post_backward, 2}, {post_backward, 1}};
  CHECK(hooks_of(w.steps[1]) == wanted);
}

TEST_CASE("expert parallel: counts, rows there and rows back in forward, gradients twice in backward") {
  const Workload w = generated(small_config(ModelFamily::hf_mixtral), parallel(4));
  const Bytes counts = 4 * itemsize(DType::int64);
  const Exchange rows{false, kRows * kRowBytes};
  const Exchange back{true, kRows * kRowBytes};
  CHECK(exchanges(w.steps[1]) ==
        std::vector<Exchange>{{false, counts}, rows, rows, {false, counts}, rows, rows, back, back, back, back});
  const Workload whole = generated(small_config(ModelFamily::hf_mixtral), small_settings());
  CHECK(exchanges(whole.steps[1]).empty());
  // The host reads the splits once a block, in forward alone.
  CHECK(account(w, w.steps[1]).synchronisations == account(whole, whole.steps[1]).synchronisations + 2);
}

TEST_CASE("expert parallel: the rank with most tokens receives, multiplies and keeps more") {
  Settings settings = parallel(2);
  const auto products = [](const Workload& w) {
    std::uint64_t out = 0;
    for (const Op& op : w.steps[1].ops)
      if (op.kind == OpKind::kernel && w.labels.text(op.kernel.label) == "aten::_grouped_mm")
        out += op.kernel.math.batch * op.kernel.math.m * op.kernel.math.n * op.kernel.math.k;
    return out;
  };
  const Workload even = generated(small_config(ModelFamily::hf_mixtral), settings);
  settings.router_imbalance = 1.5;
  const Workload most = generated(small_config(ModelFamily::hf_mixtral), settings);
  CHECK(products(most) == products(even) * 3 / 2);
  CHECK(account(most, most.steps[1]).peak > account(even, even.steps[1]).peak);
  CHECK(exchanges(most.steps[1])[1] == Exchange{false, kRows * 3 / 2 * kRowBytes});
  const Workload whole = generated(small_config(ModelFamily::hf_mixtral), small_settings());
  CHECK(products(even) == products(whole));
}

TEST_CASE("expert parallel: over one rank experts are cast, copied, divided and copied, and nothing is gathered") {
  const Workload w = generated(small_config(ModelFamily::hf_mixtral), parallel(small_settings().gpus));
  constexpr Bytes kExperts = 1024 * 256 + 256 * 512;  // elements of this rank's one expert
  std::map<std::pair<Section, SectionRole>, Bytes> moved;
  for (const SectionCost& section : w.sections)
    if (section.unit == UnitId{2} && (section.section == Section::reduce || section.pass == Pass::backward))
      for (const SectionItem& item : section.items) moved[{section.section, item.role}] += item.bytes;
  using enum SectionRole;
  CHECK(moved[{Section::copy_out, cast}] == kExperts * (4 + 2));
  CHECK(moved[{Section::copy_out, split}] == kExperts * (2 + 2));
  CHECK(moved[{Section::reduce, copy_reduced}] == kExperts * (4 + 4) * 2);
  CHECK_FALSE(moved.contains({Section::copy_out, metadata_copy}));
  CHECK_FALSE(moved.contains({Section::reduce, collective}));
}

TEST_CASE("expert parallel: recomputation exchanges again") {
  Settings settings = parallel(2);
  settings.checkpoint = Checkpoint::blocks;
  const Workload w = generated(small_config(ModelFamily::hf_mixtral), settings);
  const Account a = account(w, w.steps[1]);
  CHECK(a.gradients.size() == parameter_count(w));
  std::uint32_t backward = 0;
  for (const Exchange& one : exchanges(w.steps[1])) backward += one.backward ? 1 : 0;
  CHECK(backward == 2 * (3 + 2));
}

TEST_CASE("expert parallel: what is refused") {
  Settings settings = parallel(2);
  CHECK(refused(small_config(ModelFamily::hf_qwen3), settings) == "small has no experts to split");
  ModelConfig odd = small_config(ModelFamily::hf_mixtral);
  odd.experts = 5;
  CHECK(refused(odd, settings) == "expert_parallel 2 does not divide small's 5 experts");
  settings.units_per_group = 2;
  CHECK(refused(small_config(ModelFamily::hf_mixtral), settings).starts_with("several blocks a unit"));
}

TEST_CASE("qwen3_moe: normalised heads, blocks with and without experts") {
  ModelConfig c = small_config(ModelFamily::hf_qwen3_moe);
  c.layers = 4;
  c.dense_ffn = 640;
  c.sparse_step = 2;     // 1 and 3, …
  c.dense_layers = {3};  // … but not 3
  const Workload w = generated(c, small_settings());
  check_step(w, w.steps[1]);
  const auto has = [&](std::size_t unit, std::string_view end) {
    return std::any_of(w.units[unit].parameters.begin(), w.units[unit].parameters.end(),
                       [&](const Parameter& p) { return p.name.ends_with(end); });
  };
  CHECK(has(1, "self_attn.q_norm.weight"));
  CHECK(has(1, "mlp.gate_proj.weight"));
  CHECK(has(2, "mlp.experts.gate_up_proj"));
  CHECK_FALSE(has(2, "mlp.gate_proj.weight"));
  CHECK(has(3, "mlp.gate_proj.weight"));
  CHECK(has(4, "mlp.gate_proj.weight"));
  CHECK(w.units[1].parameters[6].shape == std::vector<std::int64_t>{640, 256});
  const Workload split = generated(c, parallel(2));
  REQUIRE(split.units.size() == 6);
  CHECK(split.units[3].name == "model.layers.1.mlp.experts");
  CHECK(account(split, split.steps[1]).gradients.size() == parameter_count(split));
}

TEST_CASE("qwen3_moe: parameters are counted as the library counts them") {
  ModelConfig c = small_config(ModelFamily::hf_qwen3_moe);  // Qwen3-30B-A3B: 30.5 billion
  c.layers = 48;
  c.dim = 2048;
  c.ffn = 768;
  c.dense_ffn = 6144;
  c.heads = 32;
  c.kv_heads = 4;
  c.head_dim = 128;
  c.vocab = 151936;
  c.experts = 128;
  c.experts_per_token = 8;
  CHECK(parameter_elements(generated(c, small_settings())) == 30'532'122'624);
}

}  // namespace
}  // namespace foreshard::model::testing
