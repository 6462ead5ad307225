// Recordings of one GPU, planned on another.
#include "sim/predict/reprice.hpp"

#include "sim/compute/prices.hpp"
#include "sim/predict/predict.hpp"
#include "tests/property/timed_workload.hpp"

namespace foreshard::sim {
namespace {

using test::four_gpus;
using test::timed_workload;

MachineProfile profile(std::string_view name) {
  return builtin_profile(name).value();
}

Workload recorded_on_h200() {
  Workload w = timed_workload(four_gpus(), 4);
  w.gpu = "NVIDIA H200";
  w.sm_count = 132;
  return w;
}

/// One kernel of the class that takes so long.
Workload one_kernel(KernelClass kernel_class, Nanoseconds work) {
  Workload w = recorded_on_h200();
  w.settings.param_dtype = DType::bfloat16;
  w.sections.clear();
  Op op;
  op.kernel.kernel_class = kernel_class;
  op.kernel.work = work;
  w.setup.ops.clear();
  w.steps = {Program{.ops = {op}}};
  return w;
}

Nanoseconds on(std::string_view machine, KernelClass kernel_class, Nanoseconds work) {
  Workload w = one_kernel(kernel_class, work);
  reprice(w, profile("h200"), profile(machine), w.settings.pytorch);
  return w.steps[0].ops[0].kernel.work;
}

TEST_CASE("times are of another machine where the GPU is another, whoever measured its profile") {
  const Workload w = recorded_on_h200();
  CHECK_FALSE(recorded_elsewhere(w, profile("h200")));
  MachineProfile probed = profile("h200");
  probed.name = "node17";
  probed.rates.memory_bound *= 0.9;
  CHECK_FALSE(recorded_elsewhere(w, probed));
  for (const char* other : {"h100", "a100", "b200"}) {
    const auto elsewhere = recorded_elsewhere(w, profile(other));
    REQUIRE(elsewhere);
    CHECK(elsewhere->profile->name == "h200");
  }
  Workload unknown = w;
  unknown.gpu = "NVIDIA L40S";
  unknown.sm_count = 142;
  REQUIRE(recorded_elsewhere(unknown, profile("h200")));
  CHECK_FALSE(recorded_elsewhere(unknown, profile("h200"))->profile);
  // Other SMs than the profile of that name, and a GPU of as many SMs that is another one.
  Workload pcie = w;
  pcie.gpu = "NVIDIA H100 PCIe";
  pcie.sm_count = 114;
  REQUIRE(recorded_elsewhere(pcie, profile("h100")));
  CHECK_FALSE(recorded_elsewhere(pcie, profile("h100"))->profile);
  Workload other = w;
  other.gpu = "NVIDIA H800";
  CHECK(recorded_elsewhere(other, profile("h100")));
  MachineProfile own = profile("h200");
  own.name = "node17";
  CHECK_FALSE(recorded_elsewhere(other, own));
  other.gpu.clear();
  CHECK_FALSE(recorded_elsewhere(other, profile("h200")));
  Workload untimed = w;
  untimed.has_timing = false;
  CHECK_FALSE(recorded_elsewhere(untimed, profile("a100")));
}

TEST_CASE("kernels of every class and length go by the two profiles' prices") {
  const auto classes = {KernelClass::gemm,      KernelClass::gemm_single_wave, KernelClass::gemm_streaming,
                        KernelClass::attention, KernelClass::memory_bound,     KernelClass::gather_copy,
                        KernelClass::memset};
  for (const KernelClass kernel_class : classes)
    for (const std::int64_t us : {1, 3, 40, 900, 20'000, 4'000'000}) {
      INFO(static_cast<int>(kernel_class) << ", " << us << " us");
      const Nanoseconds work = Nanoseconds::from_us(us);
      CHECK(on("h200", kernel_class, work) == work);
      CHECK(on("a100", kernel_class, work) > on("h100", kernel_class, work));
      CHECK(on("h100", kernel_class, work) >= work);
      if (us >= 40) CHECK(on("b200", kernel_class, work) < work);  // a launch's own time is no shorter there
    }
}

TEST_CASE("a kernel of bytes takes what the other profile asks for as many bytes") {
  KernelWork bytes;
  bytes.bytes = 777 * kMiB;
  const Nanoseconds here = price(profile("h200"), bytes);
  const Nanoseconds there = price(profile("a100"), bytes);
  CHECK(static_cast<double>(on("a100", KernelClass::memory_bound, here).count) ==
        Approx(static_cast<double>(there.count)).epsilon(0.01));
}

TEST_CASE("SMs and cuBLAS workspaces are the other GPU's, and what was recorded of this one alone is gone") {
  Workload w = one_kernel(KernelClass::gemm, Nanoseconds::from_us(50));
  w.steps[0].ops[0].kernel.ring_slowdown = 1.3;
  w.returns.frees = 3;
  for (const Bytes bytes : {32 * kMiB, 31 * kMiB}) {
    Op alloc;
    alloc.kind = OpKind::alloc;
    alloc.category = MemoryCategory::workspaces;
    alloc.size.bytes = bytes;
    w.steps[0].ops.push_back(alloc);
  }
  const auto sums = reprice(w, profile("h200"), profile("a100"), w.settings.pytorch);
  CHECK(w.sm_count == 108);
  CHECK(w.returns == RecordedReturns{});
  CHECK(w.steps[0].ops[0].kernel.ring_slowdown == 0);
  CHECK(w.steps[0].ops[1].size.bytes == 8'519'680);
  CHECK(w.steps[0].ops[2].size.bytes == 31 * kMiB);
  for (const auto& [pytorch, bytes] : {std::pair("2.11", 8 * kMiB + 128 * kKiB), std::pair("2.12", 32 * kMiB)}) {
    Workload other = recorded_on_h200();
    other.steps = {Program{.ops = {w.steps[0].ops[2]}}};
    other.steps[0].ops[0].size.bytes = 32 * kMiB;
    reprice(other, profile("h200"), profile("b200"), pytorch);  // of the planned version, not of the recorded one
    CHECK(other.steps[0].ops[0].size.bytes == bytes);
  }
  REQUIRE(sums.size() == 1);
  CHECK(sums[0].recorded == Nanoseconds::from_us(50));
  CHECK(sums[0].planned == w.steps[0].ops[0].kernel.work);
}

TEST_CASE("a plan on another GPU is calibrated on the recording's own, and says what it rests on") {
  const Workload w = [] {
    Workload made = recorded_on_h200();
    made.measured = Measured{std::vector<double>(12, 20.0), {}};
    return made;
  }();
  const auto here = predict(w, profile("h200"), {w.settings, {}, 4});
  const auto there = predict(w, profile("a100"), {w.settings, {}, 4});
  REQUIRE(here);
  REQUIRE(there);
  CHECK(here->recorded_on.empty());
  CHECK(there->recorded_on == "h200");
  CHECK(there->host == HostConfidence::elsewhere);
  CHECK(there->host_scale.anchor == here->host_scale.anchor);
  CHECK(there->step_ms > here->step_ms);
  CHECK(there->interval.half_width(there->step_ms) > here->interval.half_width(here->step_ms));
  CHECK_FALSE(there->repriced.empty());
  Workload unknown = w;
  unknown.gpu = "NVIDIA L40S";
  unknown.sm_count = 142;
  const auto guessed = predict(unknown, profile("a100"), {w.settings, {}, 4});
  REQUIRE(guessed);
  CHECK_FALSE(guessed->valid);
  CHECK(guessed->repriced.empty());
}

}  // namespace
}  // namespace foreshard::sim
