#include "sim/calibrate/probe_fit.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/models/host_bound_steps.hpp"
#include "sim/calibrate/profile_draft.hpp"
#include "sim/predict/host_bound.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;
using Host = ProbeMeasurements::Host;

/// µs of what no probe times by itself, an allocation, a free, an op of the program between two calls, where no step
/// was timed: assumed; the profile says so next to each value. Timed steps hold it in the prices of their calls.
constexpr double kBookkeeping = 0.3;

/// Whose share of a step's host time a call's is: host_bound_steps.hpp has a step of many of each.
enum class Share : std::uint8_t { kernels, sections, none };

Share share_of(HostCall call) {
  switch (call) {
    case HostCall::gemm:
    case HostCall::backward_gemm:
    case HostCall::elementwise:
    case HostCall::reduction:
    case HostCall::attention:
    case HostCall::embedding:
    case HostCall::random:
    case HostCall::backward_elementwise:
    case HostCall::backward_reduction:
    case HostCall::backward_attention:
    case HostCall::optimizer_launch:
    case HostCall::accumulate:
      return Share::kernels;
    case HostCall::all_gather:
    case HostCall::copy_out:
    case HostCall::reduce:
    case HostCall::backward_final:
      return Share::sections;
    default:
      return Share::none;
  }
}

/// What issuing one thing of each kind costs foreshard's host where many of them follow one another: calls that end in
/// a kernel cost that call, sections of FSDP2 their launches, events and waits; Python's work is not there.
double call_us(HostCall call, const Host& host) {
  const double events = host.event + host.wait;
  switch (call) {
    case HostCall::gemm:
    case HostCall::backward_gemm:
      return host.gemm;
    case HostCall::all_gather:  // copy-in, collective; two events with their waits (fully_shard.hpp)
      return host.kernel + host.collective + 2 * events;
    case HostCall::copy_out:
      return host.kernel + events;
    case HostCall::reduce:  // copy-in, collective, and the events between three streams
      return host.kernel + host.collective + 3 * events;
    case HostCall::backward_final:
      return 2 * events;
    default:
      return host.kernel;
  }
}

/// What calls cost within a step over what they cost one after another. The queue takes a row of equal calls at another
/// speed than a step's, and a step has bookkeeping between them.
struct Factors {
  double kernels = 1;
  double sections = 1;
  bool measured = false;
};

/// Microseconds by HostCall.
std::array<double, kHostCalls> calls_us(const Host& host, const Factors& factors) {
  std::array<double, kHostCalls> us{};
  for (std::size_t i = 0; i < kHostCalls; ++i) {
    const auto call = static_cast<HostCall>(i);
    const Share share = share_of(call);
    const double factor = share == Share::kernels ? factors.kernels : factors.sections;
    us[i] = share != Share::none ? factor * call_us(call, host) : factors.measured ? 0 : kBookkeeping;
  }
  return us;
}

/// Host time in microseconds of each of the two steps, by HostBoundStep, on a host of these calls.
Result<std::array<double, 2>> steps_us(MachineProfile machine, const Host& host, const Factors& factors,
                                       std::uint32_t ranks) {
  const std::array<double, kHostCalls> us = calls_us(host, factors);
  for (std::size_t i = 0; i < kHostCalls; ++i)
    machine.host_calls.time[i] = Nanoseconds::from_double(us[i] * 1e3);  // as a profile's text is read
  machine.host_calls_known = true;
  std::array<double, 2> out{};
  for (const HostBoundStep step : {HostBoundStep::sections, HostBoundStep::kernels}) {
    const auto workload = host_bound_step(step, machine.host_calls, machine.gpu(), ranks);
    FORESHARD_TRY(workload);
    const auto bound = host_bound(*workload, workload->settings, machine, 1);
    FORESHARD_TRY(bound);
    out[static_cast<std::size_t>(step)] = bound->host_ms * 1e3;
  }
  return out;
}

/// The two factors at which both steps take on `machine` what they took. Host times add up, so that each step says one
/// sum of its kernels and its sections; where these cannot be told apart, one factor holds for both.
Result<Factors> factors_of(const Host& host, std::uint32_t ranks, const MachineProfile& machine) {
  // No process issues a call of a step at less than a fifth of the row's time, nor at five times of it.
  constexpr double kMin = 0.2;
  constexpr double kMax = 5;
  constexpr auto kSections = static_cast<std::size_t>(HostBoundStep::sections);
  constexpr auto kKernels = static_cast<std::size_t>(HostBoundStep::kernels);
  if (host.section_step <= 0 || host.kernel_step <= 0) return Factors{};
  const auto of_kernels = steps_us(machine, host, {1, 0, true}, ranks);
  FORESHARD_TRY(of_kernels);
  const auto of_sections = steps_us(machine, host, {0, 1, true}, ranks);
  FORESHARD_TRY(of_sections);
  // kernel_step = a × kernels + b × sections; section_step = c × kernels + d × sections.
  const double a = (*of_kernels)[kKernels];
  const double b = (*of_sections)[kKernels];
  const double c = (*of_kernels)[kSections];
  const double d = (*of_sections)[kSections];
  const double determinant = a * d - b * c;
  const Factors both{(host.kernel_step * d - host.section_step * b) / determinant,
                     (host.section_step * a - host.kernel_step * c) / determinant, true};
  const auto in_range = [](double factor) { return factor >= kMin && factor <= kMax; };
  if (determinant > 0 && in_range(both.kernels) && in_range(both.sections)) return both;
  const double all = a + b + c + d;
  if (all <= 0) return Factors{};
  const double one = std::clamp((host.kernel_step + host.section_step) / all, kMin, kMax);
  return Factors{one, one, true};
}

/// Puts constants into a profile's document, each with the probe as its source.
class Constants {
 public:
  Constants(Json& document, std::string source) : document_(document), source_(std::move(source)) {}

  /// Where it was measured: above 0.
  void set(const char* section, const char* key, double value, const char* unit, const char* remark = "") {
    if (value > 0)
      document_[section][key] = {
          {"value", value}, {"unit", unit}, {"source", source_ + remark}, {"fitted_on", measured()}};
  }
  void set_calls(const Host& host, const Factors& factors) {
    const std::array<double, kHostCalls> us = calls_us(host, factors);
    for (std::size_t i = 0; i < kHostCalls; ++i) {
      const auto call = static_cast<HostCall>(i);
      const std::string source = share_of(call) != Share::none
                                     ? source_ + ": of foreshard's own host program, not of PyTorch"
                                 : factors.measured ? source_ + ": in the prices of the kernels and sections around it"
                                                    : "assumed for foreshard's own host program; not measured";
      const bool assumed = share_of(call) == Share::none && !factors.measured;
      document_["host"]["calls"][std::string(name(call))] = {
          {"value", us[i]},
          {"unit", "us"},
          {"source", source},
          {"fitted_on", assumed ? Json("none: assumed") : measured()}};
    }
  }
  void set_program() {
    document_["host"]["program"] = {{"value", "foreshard"}, {"source", source_ + ": what `foreshard run` issues"}};
  }

 private:
  static Json measured() { return Json::array({kOwnCalibration}); }

  Json& document_;
  std::string source_;
};

/// Gaps between kernels. What an all-gather of NCCL's adds is the base's where none of it shows in the probe's row of
/// small kernels: in every recorded step it does.
void set_gaps(const ProbeMeasurements::Latencies& latencies, const Latencies& base, Constants& constants) {
  constexpr double kShows = 0.3;  // us
  if (latencies.kernel_gap <= 0) return;
  const bool shows = latencies.all_gather_gap >= kShows;
  const double concurrent = shows ? latencies.all_gather_gap : (base.kernel_gap_all_gather - base.kernel_gap).us();
  constants.set("latencies", "kernel_gap", latencies.kernel_gap, "us");
  constants.set("latencies", "kernel_gap_all_gather", latencies.kernel_gap + std::max(0.0, concurrent), "us",
                shows ? "" : "; but what an all-gather adds to kernel_gap is the base profile's");
  constants.set("latencies", "long_kernel", latencies.long_kernel, "us");
  constants.set("latencies", "long_kernel_from", latencies.long_kernel_from, "us");
}

void set_machine(const ProbeMeasurements& probed, const Latencies& base, Constants& constants) {
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); };
  constants.set("gpu", "memory_total", mib(probed.memory_total), "MiB");
  constants.set("gpu", "memory_other", mib(probed.memory_other), "MiB");
  constants.set("rates", "pcie", probed.pcie, "GB/s");
  set_gaps(probed.latencies, base, constants);
  constants.set("latencies", "copy_gap", probed.latencies.copy_gap, "us");
  constants.set("latencies", "event_wait", probed.latencies.event_wait, "us");
  constants.set("latencies", "communicator_gap", probed.latencies.communicator_gap, "us");
  constants.set("latencies", "synchronize", probed.latencies.synchronize, "us");
  if (probed.side_copy.slowdown > 0) {
    // A compute stream that stands still has no rate: it is taken for a twentieth.
    const auto slowdown = [](double lost) { return 1 / std::max(0.05, 1 - lost); };
    constants.set("contention", "side_kernel", std::max(1.0, probed.side_copy.slowdown), "ratio");
    constants.set("contention", "with_side_kernel", slowdown(probed.side_copy.compute_lost), "ratio");
    constants.set("contention", "persistent_side", slowdown(probed.side_copy.gemm_lost), "ratio");
  }
  if (!probed.samples.kernels.empty()) constants.set("contention", "held_sms", probed.held_sms, "count");
  if (probed.streamed_bandwidth > 0)
    constants.set("contention", "streamed_bandwidth", probed.streamed_bandwidth, "GB/s",
                  ": what CTAs built like pull-reduce's read and wrote");
  // A plan adds a copy's host time for each rank to that of NCCL's call: together they are our own call's.
  if (probed.host.symm_mem_collective > 0) {
    constexpr double kLeastCopyIssue = 0.01;  // us
    const double beyond = (probed.host.symm_mem_collective - probed.host.collective) / probed.ranks;
    constants.set("nccl", "copy_issue", std::max(kLeastCopyIssue, beyond), "us");
  }
}

}  // namespace

Result<MachineFit> fit_probe(const ProbeMeasurements& probed, const std::string& name, const std::string& base) {
  Measurements samples = probed.samples;
  samples.path = samples.format = "foreshard probe";
  auto draft = draft_profile(std::span(&samples, 1), {name, base, {}});
  FORESHARD_TRY(draft);
  const auto factors = factors_of(probed.host, probed.ranks, draft->machine);
  FORESHARD_TRY(factors);
  Constants constants(draft->document,
                      fmt::format("measured by foreshard probe, {}, {} x {}, CUDA driver {}, NCCL {}", probed.date,
                                  probed.ranks, samples.gpu, probed.cuda_driver, probed.nccl));
  set_machine(probed, draft->machine.latencies, constants);
  constants.set_program();
  constants.set_calls(probed.host, *factors);
  return finish(std::move(*draft), name);
}

}  // namespace foreshard::sim
