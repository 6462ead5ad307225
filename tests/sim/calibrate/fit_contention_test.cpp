// Rows that a machine with known constants would have measured: the fit has to find those constants again.
#include <algorithm>

#include "sim/collectives/modelled_collectives.hpp"
#include "sim/engine/contention.hpp"
#include "tests/sim/calibrate/fits.hpp"

namespace foreshard::sim {
namespace {

/// So few SMs that a kernel which moves bytes lacks some where a collective holds 12, and none where it holds 8.
constexpr const char* kFewSms = R"({"schema": 2, "name": "few", "extends": "h200",
  "gpu": {"sm_count": {"value": 50, "unit": "count", "source": "a test"}}})";

MachineProfile few_sms() {
  auto machine = parse_profile(kFewSms, "few");
  REQUIRE(machine);
  return *machine;
}

/// What a probe measures of both while neither ends, on a machine whose simulation is the truth.
ContentionSample measured_on(const MachineProfile& machine, KernelClass kernel, CollectiveRequest request) {
  const CollectivePrice price = ModelledCollectives(machine).price(request);
  KernelPrice copy;
  copy.kernel_class = kernel;
  copy.memory_share = 1;
  const std::array running{RunningOp{RunningOp::Role::main_kernel, kernel_demand(machine, {}, copy), {}},
                           RunningOp{RunningOp::Role::collective, {}, collective_demand(machine, request, price)}};
  constexpr Share kForEver{std::int64_t{1} << 60, std::int64_t{1} << 60, 0};
  std::array<std::int64_t, 2> rates{};
  fill_rates(machine, running, std::array{kForEver, kForEver}, rates);
  const auto slowdown = [&](std::size_t i) { return static_cast<double>(kFullRate) / static_cast<double>(rates[i]); };
  ContentionSample out;
  out.kernel = kernel == KernelClass::gemm ? "gemm8192" : "copy512MB";
  out.kernel_class = kernel;
  out.kind = request.kind;
  out.transport = request.transport;
  out.ranks = request.ranks;
  out.bytes = request.bytes;
  out.upcasts = request.upcasts;
  out.kernel_isolated_us = 100;
  out.kernel_concurrent_us = 100 * slowdown(0);
  out.collective_isolated_us = price.time.us();
  out.collective_concurrent_us = price.time.us() * slowdown(1);
  return out;
}

CollectiveRequest scatter(Transport transport, bool upcasts = false) {
  CollectiveRequest request{CollectiveKind::reduce_scatter, transport, 512 * kMiB, 4, 4};
  request.upcasts = upcasts;
  return request;
}

MachineFit fitted(std::vector<ContentionSample> samples) {
  Measurements measured;
  measured.format = "probe file";
  measured.contention = std::move(samples);
  return fit_of(std::move(measured), {"mine", "few", kFewSms});
}

TEST_CASE("what made the rows of foreshard's reduce-scatter comes back, wider results or not") {
  MachineProfile truth = few_sms();
  truth.contention.symmetric.reduce_latency = 0.9;
  truth.contention.symmetric.memory_per_byte = 3;
  truth.contention.symmetric.persistent_pressure = 0.6;
  for (const bool upcasts : {false, true}) {
    INFO("widens " << upcasts);
    const MachineFit fit =
        fitted({measured_on(truth, KernelClass::memory_bound, scatter(Transport::pull_reduce, upcasts)),
                measured_on(truth, KernelClass::gemm, scatter(Transport::pull_reduce, upcasts))});
    const CollectivePath path = read(fit).contention.symmetric;
    CHECK(path.reduce_latency == Approx(0.9).margin(0.006));  // rounded to 0.01
    CHECK(path.memory_per_byte == Approx(3).margin(0.006));
    CHECK(path.persistent_pressure == Approx(0.6).margin(0.006));
    REQUIRE(fit.residuals.size() == 1);
    CHECK(fit.residuals[0].worst < 0.01);
  }
}

TEST_CASE("what a GEMM delays a reduction by is the least of its rows: others have waits for the GEMM's end") {
  MachineProfile truth = few_sms();
  truth.contention.symmetric.persistent_pressure = 0.6;
  ContentionSample waited = measured_on(truth, KernelClass::gemm, scatter(Transport::pull_reduce, true));
  waited.collective_concurrent_us *= 1.5;
  const ContentionSample copy = measured_on(truth, KernelClass::memory_bound, scatter(Transport::pull_reduce));
  const ContentionSample gemm = measured_on(truth, KernelClass::gemm, scatter(Transport::pull_reduce));
  for (const std::vector<ContentionSample>& rows : {std::vector{copy, gemm, waited}, std::vector{copy, waited, gemm}})
    CHECK(read(fitted(rows)).contention.symmetric.persistent_pressure == Approx(0.6).margin(0.006));
}

TEST_CASE("a pressure beyond that of any copy is no row of contention, one below nothing is none") {
  const MachineProfile truth = few_sms();
  const ContentionSample copy = measured_on(truth, KernelClass::memory_bound, scatter(Transport::pull_reduce));
  ContentionSample gemm = measured_on(truth, KernelClass::gemm, scatter(Transport::pull_reduce));
  const auto pressure = [&](double slowdown) {
    gemm.collective_concurrent_us = gemm.collective_isolated_us * slowdown;
    return read(fitted({copy, gemm})).contention.symmetric.persistent_pressure;
  };
  CHECK(pressure(100) == 5);
  CHECK(pressure(0.95) == 0);
}

TEST_CASE("rows whose results are wider are held against the constants by themselves") {
  MachineProfile truth = few_sms();
  ContentionSample wide = measured_on(truth, KernelClass::memory_bound, scatter(Transport::pull_reduce, true));
  wide.collective_concurrent_us *= 1.2;
  const MachineFit fit = fitted({measured_on(truth, KernelClass::memory_bound, scatter(Transport::pull_reduce)), wide});
  REQUIRE(fit.residuals.size() == 2);
  CHECK(fit.residuals[0].what == "slowdowns beside a memory-bound kernel, symmetric");
  CHECK(fit.residuals[1].what == "slowdowns beside a memory-bound kernel, symmetric, into a wider dtype");
  CHECK(fit.residuals[0].points == 2);
  CHECK(fit.residuals[1].points == 2);
  CHECK(fit.residuals[1].worst > 0.05);  // one latency for both lies between them
}

TEST_CASE("PyTorch's low-contention reduce-scatter tells about copy engines, as a simulation asks them of it") {
  MachineProfile truth = few_sms();
  truth.contention.copy_engine.reduce_latency = 0.3;
  const std::vector samples{measured_on(truth, KernelClass::memory_bound, scatter(Transport::low_contention)),
                            measured_on(truth, KernelClass::gemm, scatter(Transport::low_contention))};
  const MachineProfile machine = read(fitted(samples));
  CHECK(machine.contention.copy_engine.reduce_latency == Approx(0.3).margin(0.006));
  CHECK(machine.contention.symmetric.reduce_latency == truth.contention.symmetric.reduce_latency);
  CHECK(machine.contention.symmetric.persistent_pressure == 0);
}

TEST_CASE("an asked-for copy-engine reduce-scatter tells about the symmetric kernel that ran") {
  MachineProfile truth = few_sms();
  truth.contention.symmetric.reduce_latency = 0.7;
  const CollectiveRequest request = scatter(Transport::copy_engine);
  const MachineProfile machine = read(fitted({measured_on(truth, KernelClass::memory_bound, request)}));
  CHECK(machine.contention.symmetric.reduce_latency == Approx(0.7).margin(0.006));
  CHECK(machine.contention.copy_engine.reduce_latency == truth.contention.copy_engine.reduce_latency);
}

}  // namespace
}  // namespace foreshard::sim
