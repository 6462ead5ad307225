// Programs that are rewritten for other settings go on computing what they computed.
#include "core/adapt/adapt.hpp"
#include "core/adapt/program_kernels.hpp"
#include "tests/core/models/kernels/host_program_runner.hpp"
#include "tests/core/models/kernels/small_models.hpp"

namespace foreshard {
namespace {

Settings with_kernels(Settings settings, Kernels kernels) {
  settings.kernels = kernels;
  return settings;
}

Workload adapted(const Workload& workload, Settings wanted) {
  wanted.seq = workload.settings.seq;
  auto out = adapt(workload, wanted);
  REQUIRE(out);
  for (const Program& step : out->workload.steps) CHECK(kernels_hold(step));
  return std::move(out->workload);
}

/// Loss and gradients of the last microbatch of each step are those of the program that `expected` is.
void check_computes_alike(const Workload& workload, const Workload& expected) {
  REQUIRE(computes(workload));
  for (std::size_t i = 0; i < workload.steps.size(); ++i) {
    INFO("step " << i);
    HostProgram a(workload, 0.3);
    HostProgram b(expected, 0.3);
    CHECK(workload.steps[i].loss.valid() == expected.steps[i].loss.valid());
    const double loss = a.run(workload.steps[i]);
    CHECK((loss != 0) == expected.steps[i].loss.valid());
    CHECK(loss == b.run(expected.steps[i]));
    for (std::uint32_t id = 0; id < a.parameters(); ++id)
      for (std::uint64_t k = 0; k < a.numel(id); ++k) REQUIRE(a.gradient(id, k) == b.gradient(id, k));
  }
}

constexpr std::string_view kNames[] = {"mlp", "llama-tiny", "torch-transformer"};
constexpr Kernels kKernels[] = {Kernels::eager, Kernels::fused};

TEST_CASE("checkpointing that is put into a program recomputes what its backward reads") {
  for (const std::string_view name : kNames)
    for (const Kernels kernels : kKernels) {
      INFO(name << ", " << static_cast<int>(kernels));
      const Settings plain = with_kernels(small_settings(), kernels);
      Settings wanted = plain;
      wanted.checkpoint = Checkpoint::blocks;
      const Workload w = computing(small_model(name), plain);
      const Workload checkpointed = adapted(w, wanted);
      if (kernels == Kernels::fused && name == "llama-tiny") {
        CHECK(!computes(checkpointed));  // a block's last addition is the next one's first: its input is gone
        continue;
      }
      CHECK(checkpointed.steps[1].ops.size() > w.steps[1].ops.size());
      check_computes_alike(checkpointed, w);
    }
}

TEST_CASE("microbatches that are put into a program compute on their own tensors") {
  for (const std::string_view name : kNames)
    for (const Kernels kernels : kKernels) {
      INFO(name << ", " << static_cast<int>(kernels));
      const bool mixed = name != "torch-transformer";  // which has no bf16
      Settings one = with_kernels(mixed ? small_mixed() : small_settings(), kernels);
      one.accumulate_with_sync = !mixed;
      Settings two = one;
      two.accumulate = 2;
      Settings three = one;
      three.accumulate = 3;
      const Workload w1 = computing(small_model(name), one);
      const Workload w2 = computing(small_model(name), two);
      check_computes_alike(adapted(w1, two), w2);
      check_computes_alike(adapted(w2, one), w1);
      check_computes_alike(adapted(w2, three), computing(small_model(name), three));
    }
}

TEST_CASE("gradients that autograd adds are not in a rewritten program: it computes nothing") {
  Settings two = small_settings();
  two.accumulate = 2;
  const Workload w = computing(small_model("llama-tiny"), small_settings());
  CHECK(!computes(adapted(w, two)));
  Workload generated = computing(small_model("llama-tiny"), two);
  CHECK(computes(adapted(generated, two)));
  Settings synchronized = two;
  synchronized.accumulate_with_sync = true;
  CHECK(!computes(adapted(generated, synchronized)));
  CHECK(computes(adapted(generated, small_settings())));
}

TEST_CASE("several blocks a unit compute what one a unit computes") {
  for (const std::string_view name : kNames) {
    INFO(name);
    const Workload w = computing(small_model(name), small_settings());
    Settings wanted = small_settings();
    wanted.units_per_group = 2;
    const Workload merged = adapted(w, wanted);
    CHECK(merged.units.size() < w.units.size());
    check_computes_alike(merged, w);
  }
}

TEST_CASE("a program whose operands are not there does not hold") {
  const Workload w = computing(small_model("mlp"), small_settings());
  Program step = w.steps[1];
  CHECK(kernels_hold(step));
  const auto writes = [&](const Op& op) { return op.kernel_index != kNoKernel; };
  const auto first = std::find_if(step.ops.begin(), step.ops.end(), writes);
  Program unwritten = step;
  unwritten.ops.erase(unwritten.ops.begin() + (first - step.ops.begin()));
  CHECK(!kernels_hold(unwritten));
  Program silent = step;
  silent.ops[static_cast<std::size_t>(first - step.ops.begin())].kernel_index = kNoKernel;
  CHECK(!kernels_hold(silent));
  Program gone = step;
  std::erase_if(gone.ops, [](const Op& op) { return op.kind == OpKind::alloc; });
  CHECK(!kernels_hold(gone));
  drop_kernels(step);
  CHECK(kernels_hold(step));
  CHECK(step.kernels.empty());
  CHECK(!step.loss.valid());
}

}  // namespace
}  // namespace foreshard
