// What generated programs compute, as data: complete where every op is known, the same ops with and without.
#include <algorithm>
#include <set>
#include <string_view>

#include "core/kernel/kernel_cost.hpp"
#include "tests/core/models/kernels/host_program_runner.hpp"
#include "tests/core/models/kernels/small_models.hpp"

namespace foreshard {
namespace {

void check_same(const Program& with, const Program& without) {
  REQUIRE(with.ops.size() == without.ops.size());
  CHECK(without.kernels.empty());
  for (std::size_t i = 0; i < with.ops.size(); ++i) {
    const Op& a = with.ops[i];
    const Op& b = without.ops[i];
    CHECK(b.kernel_index == kNoKernel);
    const bool same = a.kind == b.kind && a.user_stream == b.user_stream && a.host_before == b.host_before &&
                      a.tensor == b.tensor && a.steps_ago == b.steps_ago && a.from_setup == b.from_setup &&
                      a.size == b.size && a.category == b.category && a.gradient_of == b.gradient_of &&
                      a.kernel.math == b.kernel.math && a.kernel.bytes == b.kernel.bytes &&
                      a.kernel.kernel_class == b.kernel.kernel_class && a.copy.bytes == b.copy.bytes &&
                      a.hook == b.hook && a.unit == b.unit && a.label == b.label;
    CHECK(same);
  }
}

Settings with(Settings settings, Checkpoint checkpoint, std::uint32_t accumulate = 1) {
  settings.checkpoint = checkpoint;
  settings.accumulate = accumulate;
  return settings;
}

TEST_CASE("a program's ops are the same with and without what they compute") {
  const std::vector<Settings> all{small_settings(), small_mixed(), with(small_settings(), Checkpoint::blocks, 2),
                                  with(small_mixed(), Checkpoint::selective_op)};
  for (const std::string_view name : {"mlp", "llama-tiny", "torch-transformer", "mpt-760m"})
    for (const Settings& settings : all) {
      INFO(name);
      const ModelConfig model = small_model(name);
      HostCosts host;
      host.time.fill(Nanoseconds{17});
      const auto plain = generate(model, settings, host, 132);
      const auto computing = generate(model, settings, host, 132, true);
      REQUIRE(plain.has_value() == computing.has_value());
      if (!plain) continue;
      check_same(computing->setup, plain->setup);
      for (std::size_t i = 0; i < plain->steps.size(); ++i) check_same(computing->steps[i], plain->steps[i]);
    }
}

TEST_CASE("every launch of the plain families says what it computes") {
  for (const std::string_view name : {"mlp", "llama-tiny", "torch-transformer"}) {
    INFO(name);
    const Workload w = computing(small_model(name), small_settings());
    CHECK(computes(w));
    for (const Program& step : w.steps) {
      CHECK(!step.uncomputed.valid());
      CHECK(step.loss.valid());
      for (const Op& op : step.ops)
        CHECK((op.kernel_index != kNoKernel) == (op.kind == OpKind::kernel || op.kind == OpKind::copy));
    }
  }
}

/// Stored operands are expanded to the output's shape, where the cost counts a broadcast one by its own.
bool broadcasts(const Kernel& kernel) {
  return std::any_of(kernel.operands.begin(), kernel.operands.end(), [](const TensorView& view) {
    return std::find(view.strides.begin(), view.strides.end(), 0) != view.strides.end();
  });
}

TEST_CASE("what a kernel costs follows from what it computes, but where the program says otherwise") {
  // Those with a CostOverride.
  const std::set<std::string_view> priced{"aten::fill_", "aten::zero_", "aten::where", "aten::div", "aten::clone",
                                          "aten::add_",  "aten::copy_", "aten::sum",   "Memset",    "sum_and_scatter"};
  for (const std::string_view name : {"mlp", "llama-tiny", "torch-transformer"})
    for (const Settings& settings : {small_settings(), with(small_settings(), Checkpoint::none, 2)}) {
      const Workload w = computing(small_model(name), settings);
      for (const Program& step : w.steps)
        for (const Op& op : step.ops) {
          if (op.kind != OpKind::kernel) continue;
          const Kernel& kernel = step.kernels[op.kernel_index].kernel;
          if (kernel.op == KernelOp::fused || broadcasts(kernel)) continue;
          const KernelWork cost = kernel_cost(kernel);
          const bool same = cost.kernel_class == op.kernel.kernel_class && cost.bytes == op.kernel.bytes &&
                            cost.math == op.kernel.math;
          INFO(name << ": " << w.labels.text(op.label));
          CHECK((same || priced.contains(w.labels.text(op.label))));
        }
    }
}

TEST_CASE("a launch that nobody knows leaves a program without kernels") {
  CHECK(preset("torch-transformer")->dropout == 0.1);
  CHECK(preset("torch-transformer", {{}, {}, 0.0})->dropout == 0);
  CHECK(!preset("torch-transformer", {{}, {}, 1.0}));
  CHECK(!preset("llama-8b", {{}, {}, 0.1}));
  ModelConfig model = small_model("torch-transformer");
  model.dropout = 0.1;
  const Workload w = computing(model, small_settings());
  CHECK(!computes(w));
  for (const Program& step : w.steps) {
    CHECK(step.kernels.empty());
    CHECK(w.labels.text(step.uncomputed) == "aten::_scaled_dot_product_efficient_attention");
    for (const Op& op : step.ops) CHECK(op.kernel_index == kNoKernel);
  }
  CHECK(!computes(*generate(small_model("mlp"), settings_for(small_model("mlp"), small_settings()), {}, 132)));
  for (const ModelFamily family : {ModelFamily::hf_llama, ModelFamily::hf_qwen3, ModelFamily::mpt}) {
    ModelConfig other = small_model(family == ModelFamily::mpt ? "mpt-760m" : "llama-tiny");
    other.family = family;
    const auto unknown = generate(other, small_mixed(), {}, 132, true);
    REQUIRE(unknown);
    CHECK(!computes(*unknown));
    CHECK(unknown->steps[1].uncomputed.valid());
  }
}

/// Largest difference of two runs' gradients.
double difference(const HostProgram& a, const HostProgram& b) {
  double most = 0;
  for (std::uint32_t id = 0; id < a.parameters(); ++id)
    for (std::uint64_t i = 0; i < a.numel(id); ++i)
      most = std::max(most, std::abs(a.gradient(id, i) - b.gradient(id, i)));
  return most;
}

TEST_CASE("checkpointed programs compute the same") {
  for (const std::string_view name : {"mlp", "llama-tiny", "torch-transformer"})
    for (const Checkpoint checkpoint : {Checkpoint::blocks, Checkpoint::selective_op, Checkpoint::selective_layer}) {
      INFO(name << ", " << static_cast<int>(checkpoint));
      const Workload plain = computing(small_model(name), small_settings());
      const Workload checkpointed = computing(small_model(name), with(small_settings(), checkpoint));
      HostProgram a(plain, 0.3);
      HostProgram b(checkpointed, 0.3);
      CHECK(a.run(plain.steps[1]) == b.run(checkpointed.steps[1]));
      CHECK(difference(a, b) == 0);
    }
}

TEST_CASE("mixed precision, grouped heads and several blocks a unit compute too") {
  for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks, Checkpoint::selective_op}) {
    Settings settings = with(small_mixed(), checkpoint, 2);
    settings.units_per_group = 2;
    const Workload w = computing(small_model("llama-tiny", 1), settings);
    HostProgram host(w, 0.02);  // the mean over 10 rows of logits of deviation 0.08
    for (const Program& step : w.steps) CHECK(std::abs(host.run(step) - std::log(11.0)) < 0.1);
  }
  const Workload w = computing(small_model("mlp"), small_mixed());
  CHECK(!w.steps[0].loss.valid());  // the mean of bfloat16 is bfloat16
  HostProgram host(w, 0.3);
  host.run(w.steps[0]);
  const Workload wide = computing(small_model("mlp"), small_settings());
  HostProgram exact(wide, 0.3);
  exact.run(wide.steps[0]);
  CHECK(difference(host, exact) < 2e-3);  // of gradients up to 0.05
}

TEST_CASE("microbatches add into the gradient that autograd holds") {
  const Workload one = computing(small_model("mlp"), small_settings());
  const Workload two = computing(small_model("mlp"), with(small_settings(), Checkpoint::none, 2));
  constexpr std::int64_t kStream = 77;
  HostProgram first(one, 0.3);
  HostProgram second(one, 0.3);
  HostProgram both(two, 0.3);
  first.run(one.steps[1], kStream);
  second.run(one.steps[1], kStream + 1);
  both.run(two.steps[1], kStream);
  for (std::uint32_t id = 0; id < both.parameters(); ++id)
    for (std::uint64_t i = 0; i < both.numel(id); ++i)
      CHECK(both.gradient(id, i) == Approx(first.gradient(id, i) + second.gradient(id, i)).epsilon(1e-5).margin(1e-7));
}

}  // namespace
}  // namespace foreshard
