// What a probe measured becomes a profile of foreshard's own program.
#include "sim/calibrate/probe_fit.hpp"

#include <algorithm>
#include <array>
#include <set>

#include "core/kernel/own_kernels.hpp"
#include "core/models/host_bound_steps.hpp"
#include "sim/compute/price_kernel.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

ProbeMeasurements probed() {
  using What = RateSample::What;
  ProbeMeasurements out;
  out.samples.gpu = "NVIDIA H200";
  out.samples.rates = {{What::hbm_copy, 0, 4200}, {What::gemm_bfloat16, 8192, 780}, {What::gemm_float32, 4096, 50}};
  KernelMath rows;
  rows.access = MemoryAccess::row;
  out.samples.kernels = {{"foreshard::rms_norm", rows, 64 * kMiB, 77},
                         {"aten::mm", {KernelMath::Kind::gemm, DType::bfloat16, false, 1, 512, 512, 512}, 0, 6}};
  out.ranks = 2;
  out.nccl = "2.28.9";
  out.cuda_driver = "13.0";
  out.date = "2026-11-21";
  out.memory_total = 141 * kGiB;
  out.memory_other = 2 * kGiB;
  out.pcie = 55;
  out.latencies.kernel_gap = 1.1;
  out.latencies.copy_gap = 5.4;
  out.latencies.event_wait = 1.2;
  out.latencies.communicator_gap = 1.2;
  out.latencies.synchronize = 4.2;
  out.host = {.kernel = 4, .gemm = 8, .collective = 15, .symm_mem_collective = 12, .event = 2, .wait = 0.5};
  return out;
}

MachineFit fitted(const ProbeMeasurements& result) {
  auto fit = fit_probe(result, "mine", "h200");
  if (!fit) FAIL(fit.error().text());
  return *fit;
}

MachineProfile profile(const ProbeMeasurements& result) {
  return fitted(result).machine;
}

double host_us(const MachineProfile& machine, HostBoundStep step) {
  const auto workload = host_bound_step(step, machine.host_calls, machine.gpu(), 2);
  REQUIRE(workload);
  const auto bound = host_bound(*workload, workload->settings, machine, 1);
  REQUIRE(bound);
  return bound->host_ms * 1e3;
}

TEST_CASE("a probed profile has the times of foreshard's kernels") {
  const MachineProfile machine = profile(probed());
  CHECK(machine.nccl.copy_issue == Approx(0.01));  // the own collective's 12 us are less than NCCL's 15
  KernelWork norm{KernelClass::memory_bound, {}, 64 * kMiB, 0, {}};
  norm.math.access = MemoryAccess::row;
  CHECK(price_kernel(machine, norm, "foreshard::rms_norm").time.us() == Approx(77));
  KernelWork gemm{KernelClass::gemm, {}, 0, 0, {}};
  gemm.math = {KernelMath::Kind::gemm, DType::bfloat16, false, 1, 512, 512, 512};
  CHECK(price_kernel(machine, gemm).time.us() == Approx(6).epsilon(0.01));
}

TEST_CASE("calls cost what both timed steps take together, kernels and sections each at a factor of their own") {
  ProbeMeasurements result = probed();
  const MachineProfile assumed = profile(result);
  CHECK(assumed.host_calls[HostCall::module].us() == Approx(0.3));
  CHECK(assumed.host_calls[HostCall::gemm].us() == Approx(result.host.gemm));
  result.host.section_step = 0.8 * host_us(assumed, HostBoundStep::sections);
  result.host.kernel_step = 0.5 * host_us(assumed, HostBoundStep::kernels);
  const MachineProfile measured = profile(result);
  CHECK(host_us(measured, HostBoundStep::sections) == Approx(result.host.section_step).epsilon(0.01));
  CHECK(host_us(measured, HostBoundStep::kernels) == Approx(result.host.kernel_step).epsilon(0.01));
  CHECK(measured.host_calls[HostCall::module].count == 0);
  const double kernels = measured.host_calls[HostCall::gemm].us() / result.host.gemm;
  CHECK(measured.host_calls[HostCall::elementwise].us() == Approx(kernels * result.host.kernel).epsilon(0.01));
  CHECK(kernels < 0.7);
  CHECK(measured.host_calls[HostCall::all_gather].us() >
        kernels * assumed.host_calls[HostCall::all_gather].us());  // sections cost more of theirs
}

TEST_CASE("steps that no two factors explain leave one for all calls") {
  ProbeMeasurements result = probed();
  const MachineProfile assumed = profile(result);
  result.host.section_step = host_us(assumed, HostBoundStep::sections);
  result.host.kernel_step = 1;  // kernels for nothing
  const MachineProfile machine = profile(result);
  const double factor = machine.host_calls[HostCall::gemm].us() / result.host.gemm;
  CHECK(factor > 0.2);
  CHECK(factor < 1);
  CHECK(machine.host_calls[HostCall::reduce].us() ==
        Approx(factor * assumed.host_calls[HostCall::reduce].us()).epsilon(0.01));
  result.host.kernel_step = 0;  // not measured: the calls' own times
  CHECK(profile(result).host_calls.time == assumed.host_calls.time);
}

TEST_CASE("an all-gather lengthens the probed gap by what was measured, else by what it does on the base") {
  ProbeMeasurements result = probed();
  result.latencies.kernel_gap = 1.3;
  const Latencies base = builtin_profile("h200")->latencies;
  CHECK(profile(result).latencies.kernel_gap_all_gather.us() ==
        Approx(1.3 + (base.kernel_gap_all_gather - base.kernel_gap).us()).epsilon(0.001));
  CHECK(profile(result).latencies.long_kernel.count == 0);
  result.latencies.all_gather_gap = 0.2;  // nothing to be seen
  CHECK(profile(result).latencies.kernel_gap_all_gather.us() == Approx(2.75));
  result.latencies.all_gather_gap = 2.1;
  result.latencies.long_kernel = 0.6;
  const Latencies gaps = profile(result).latencies;
  CHECK(gaps.kernel_gap.us() == Approx(1.3));
  CHECK(gaps.kernel_gap_all_gather.us() == Approx(3.4));
  CHECK(gaps.long_kernel.us() == Approx(0.6));
}

TEST_CASE("copies beside the compute stream take from it what was measured") {
  const MachineProfile base = profile(probed());
  CHECK(base.contention.side_kernel == builtin_profile("h200")->contention.side_kernel);
  ProbeMeasurements result = probed();
  result.side_copy = {1.25, 0.75};
  const MachineProfile machine = profile(result);
  CHECK(machine.contention.side_kernel == Approx(1.25));
  CHECK(machine.contention.with_side_kernel == Approx(4));
  result.side_copy = {0.98, 1};
  CHECK(profile(result).contention.side_kernel == 1);
  CHECK(profile(result).contention.with_side_kernel == Approx(20));
}

TEST_CASE("what runs concurrently with reductions into a wider dtype is kept apart from the others") {
  ProbeMeasurements result = probed();
  const auto add = [&](KernelClass kernel, bool upcasts, double concurrent_collective) {
    ContentionSample row{"a kernel", kernel, CollectiveKind::reduce_scatter, Transport::pull_reduce, 2, 512 * kMiB};
    row.kernel_isolated_us = 250;
    row.kernel_concurrent_us = 285;
    row.collective_isolated_us = 900;
    row.collective_concurrent_us = concurrent_collective;
    row.upcasts = upcasts;
    result.samples.contention.push_back(row);
  };
  for (const bool upcasts : {false, true}) {
    add(KernelClass::memory_bound, upcasts, 1900);
    add(KernelClass::gemm, upcasts, 1200);
  }
  const MachineFit fit = fitted(result);
  const auto points = [&](std::string_view what) {
    for (const Residual& residual : fit.residuals)
      if (residual.what == what) return residual.points;
    return std::size_t{0};
  };
  CHECK(points("slowdowns beside a memory-bound kernel, symmetric") == 2);
  CHECK(points("slowdowns beside a memory-bound kernel, symmetric, into a wider dtype") == 2);
  // Foreshard's own kernel was measured, not PyTorch's copies, whatever the base is.
  const CollectivePath path = profile(result).contention.symmetric;
  CHECK(path.reduce_latency == Approx(1000. / 900).epsilon(0.1));
  CHECK(path.persistent_pressure == Approx(300. / 900 / path.reduce_latency).epsilon(0.1));
}

Workload fused_llama(const Settings& settings, const MachineProfile& machine, bool grouped = false) {
  auto model = preset("llama-tiny", {.dim = {}, .layers = 1});
  REQUIRE(model);
  if (!grouped) model->kv_heads = model->heads;  // else float32 has an attention of its own
  const auto workload = generate(*model, settings, machine.host_calls, machine.gpu(), true);
  REQUIRE(workload);
  return *workload;
}

TEST_CASE("fused kernels are no estimate once each of them was measured in their dtype") {
  Settings settings;
  settings.gpus = 2;
  settings.batch = 1;
  settings.seq = 128;
  settings.param_dtype = DType::bfloat16;
  settings.kernels = Kernels::fused;
  const auto estimated = [&](const ProbeMeasurements& result, bool grouped = false) {
    const MachineProfile machine = profile(result);
    PredictRequest request;
    request.settings = settings;
    const auto prediction = predict(fused_llama(settings, machine, grouped), machine, request);
    REQUIRE(prediction);
    const auto& warnings = prediction->warnings;
    return std::find(warnings.begin(), warnings.end(), kOwnKernelsEstimate) != warnings.end();
  };
  ProbeMeasurements result = probed();
  std::array<std::set<std::string>, 2> labels;
  const auto measure = [&](std::set<std::string>& seen, bool grouped = false) {
    const Workload workload = fused_llama(settings, profile(result), grouped);
    for (const Program& program : workload.steps)
      for (const Op& op : program.ops) {
        const std::string& label = workload.labels.text(op.kernel.label);
        if (op.kind != OpKind::kernel || !own_kernel(label)) continue;
        result.samples.kernels.push_back({label, op.kernel.math, op.kernel.bytes, 5});
        seen.insert(label);
      }
  };
  CHECK(estimated(result));
  measure(labels[0]);
  CHECK_FALSE(estimated(result));
  settings.param_dtype.reset();  // float32: the same labels, none of them measured
  CHECK(estimated(result));
  measure(labels[1]);
  CHECK(labels[0] == labels[1]);
  CHECK_FALSE(estimated(result));
  CHECK(estimated(result, true));  // foreshard::attention, of shapes
  measure(labels[1], true);
  CHECK_FALSE(estimated(result, true));
}

TEST_CASE("a plan in float8 is not valid until a GEMM of each float8 dtype was measured") {
  Settings settings;
  settings.gpus = 2;
  settings.batch = 1;
  settings.seq = 128;
  settings.param_dtype = DType::bfloat16;
  settings.kernels = Kernels::fused;
  settings.float8 = Float8::tensorwise;
  ProbeMeasurements result = probed();
  const auto estimated = [&] {
    const MachineProfile machine = profile(result);
    Workload workload = fused_llama(settings, machine, true);
    workload.lowering = Lowering::foreshard;
    PredictRequest request;
    request.settings = settings;
    const auto prediction = predict(workload, machine, request);
    REQUIRE(prediction);
    const auto& warnings = prediction->warnings;
    const bool outside = std::any_of(warnings.begin(), warnings.end(), [](const std::string& warning) {
      return warning.find("GEMMs in float8") != std::string::npos;
    });
    const auto& why = prediction->not_valid;
    const bool priced_alike = std::any_of(why.begin(), why.end(), [](const std::string& one) {
      return one.starts_with("float8 GEMMs are priced as bfloat16's");
    });
    CHECK(outside == priced_alike);
    return priced_alike;
  };
  const auto measure = [&](DType dtype) {
    result.samples.kernels.push_back(
        {"aten::_scaled_mm", {KernelMath::Kind::gemm, dtype, false, 1, 128, 1024, 1024}, 1024 * 1024, 5});
  };
  CHECK(estimated());
  measure(DType::float8_e4m3fn);
  CHECK(estimated());
  measure(DType::float8_e5m2);
  CHECK_FALSE(estimated());
}

TEST_CASE("a workload that does not say what its kernels compute is planned as run --emulate, and says so") {
  Settings settings;
  settings.gpus = 2;
  settings.batch = 1;
  settings.seq = 128;
  const auto emulated = [&](const MachineProfile& machine, Lowering lowering, bool kernels) {
    Workload workload = fused_llama(settings, machine);
    workload.lowering = lowering;
    if (!kernels)
      for (Program& program : workload.steps) program.kernels.clear();
    PredictRequest request;
    request.settings = settings;
    const auto prediction = predict(workload, machine, request);
    REQUIRE(prediction);
    const auto& warnings = prediction->warnings;
    return std::any_of(warnings.begin(), warnings.end(),
                       [](const std::string& w) { return w.find("run --emulate") != std::string::npos; });
  };
  CHECK_FALSE(emulated(profile(probed()), Lowering::foreshard, true));
  CHECK(emulated(profile(probed()), Lowering::foreshard, false));
  CHECK_FALSE(emulated(*builtin_profile("h200"), Lowering::pytorch, false));
}

TEST_CASE("the file says what the fitted machine is, each constant with the probe as its source") {
  ProbeMeasurements result = probed();
  result.host.section_step = 700;
  result.host.kernel_step = 1500;
  const MachineFit fit = fitted(result);
  const auto read = parse_profile(fit.json, "mine.json");
  if (!read) FAIL(read.error().text());
  CHECK(read->sources == fit.machine.sources);
  CHECK(read->host_calls.time == fit.machine.host_calls.time);
  CHECK(read->latencies.kernel_gap == fit.machine.latencies.kernel_gap);
  const auto source = std::find_if(read->sources.begin(), read->sources.end(),
                                   [](const auto& entry) { return entry.first == "/latencies/event_wait"; });
  REQUIRE(source != read->sources.end());
  CHECK(source->second == "measured by foreshard probe, 2026-11-21, 2 x NVIDIA H200, CUDA driver 13.0, NCCL 2.28.9");
  result.samples.gpu = "a name that is not UTF-8: \xff";
  CHECK(parse_profile(fitted(result).json, "mine.json"));
}

TEST_CASE("a number that no machine has is refused with its place") {
  ProbeMeasurements result = probed();
  result.latencies.event_wait = 1e9;
  const auto fit = fit_probe(result, "mine", "h200");
  REQUIRE_FALSE(fit);
  CHECK(fit.error().where == "mine /latencies/event_wait/value");
}

}  // namespace
}  // namespace foreshard::sim
