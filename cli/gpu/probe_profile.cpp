#include "cli/gpu/probe_profile.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/device/collective_names.hpp"
#include "core/models/host_costs.hpp"
#include "core/settings/settings_table.hpp"
#include "core/workload/workload_names.hpp"
#include "gpu/probe/host_program.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/host_bound.hpp"

namespace foreshard::cli {
namespace {

sim::Measurements measurements_of(const gpu::ProbeResult& probed, std::uint32_t ranks) {
  sim::Measurements m;
  m.path = "foreshard probe";
  m.format = "foreshard probe";
  m.gpu = probed.gpu;
  for (const gpu::ProbedCollective& one : probed.collectives)
    m.collectives.push_back({one.kind, one.transport, ranks, ranks, one.bytes, one.us, one.widens});
  for (const gpu::ProbedContention& one : probed.contention)
    m.contention.push_back({one.kernel, one.kernel_class, one.kind, one.transport, ranks, one.bytes,
                            one.kernel_alone_us, one.kernel_beside_us, one.collective_alone_us,
                            one.collective_beside_us, one.widens});
  for (const gpu::ProbedKernel& one : probed.kernels)
    m.kernels.push_back({one.label, one.math, one.bytes, one.us, one.held_us});
  using What = sim::RateSample::What;
  m.rates.push_back({What::hbm_copy, 0, probed.hbm_copy});
  if (probed.peer_copy > 0) m.rates.push_back({What::peer_copy, 256 * kMiB, probed.peer_copy});
  m.rates.push_back({What::gemm_bfloat16, 8192, probed.gemm_bf16});
  m.rates.push_back({What::gemm_float32, 4096, probed.gemm_fp32});
  return m;
}

/// µs of what no probe times by itself, an allocation, a free, an op of the program between two calls, where no step
/// was timed: assumed; the profile says so beside each value. Timed steps hold it in the prices of their calls.
constexpr double kBookkeeping = 0.3;

/// Whose share of a step's host time a call's is: host_program.hpp has a step of many of each.
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
double host_call(HostCall call, const gpu::ProbedHost& host) {
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

class Profile {
 public:
  Profile(nlohmann::ordered_json& json, std::string source) : json_(json), source_(std::move(source)) {}
  void set(const char* section, const char* key, double value, const char* unit, const char* remark = "") {
    if (value > 0)
      json_[section][key] = {{"value", value}, {"unit", unit}, {"source", source_ + remark}, {"fitted_on", measured()}};
  }
  void set_calls(const gpu::ProbedHost& host, const Factors& factors) {
    for (std::size_t i = 0; i < kHostCalls; ++i) {
      const auto call = static_cast<HostCall>(i);
      const Share share = share_of(call);
      const double factor = share == Share::kernels ? factors.kernels : factors.sections;
      const double us = share != Share::none ? factor * host_call(call, host) : factors.measured ? 0 : kBookkeeping;
      const std::string source = share != Share::none ? source_ + ": of foreshard's own host program, not of PyTorch"
                                 : factors.measured ? source_ + ": in the prices of the kernels and sections around it"
                                                    : "assumed for foreshard's own host program; not measured";
      const bool assumed = share == Share::none && !factors.measured;
      json_["host"]["calls"][std::string(name(call))] = {
          {"value", us},
          {"unit", "us"},
          {"source", source},
          {"fitted_on", assumed ? nlohmann::ordered_json("none: assumed") : measured()}};
    }
  }
  void set_program() {
    json_["host"]["program"] = {{"value", "foreshard"}, {"source", source_ + ": what `foreshard run` issues"}};
  }

 private:
  static nlohmann::ordered_json measured() { return nlohmann::ordered_json::array({sim::kOwnCalibration}); }

  nlohmann::ordered_json& json_;
  std::string source_;
};

/// Host time of a step of host_program.hpp on the profile, in microseconds.
Result<double> host_step(const sim::MachineFit& fit, const std::string& name, gpu::HostPart part, std::uint32_t ranks) {
  const auto machine = sim::parse_profile(fit.profile.dump(), name);
  if (!machine) return tl::unexpected(machine.error());
  const auto workload = gpu::host_program(part, machine->host_calls, machine->gpu(), ranks);
  if (!workload) return tl::unexpected(workload.error());
  const auto bound = sim::host_bound(*workload, workload->settings, *machine, 1);
  if (!bound) return tl::unexpected(bound.error());
  return bound->host_ms * 1e3;
}

/// The two factors at which both programs take on the profile what they took. Host times add up, so that each program
/// says one sum of its kernels and its sections; where these cannot be told apart, one factor holds for both.
Result<Factors> factors_of(const gpu::ProbedHost& host, const std::string& name, std::uint32_t ranks, Profile& profile,
                           const sim::MachineFit& fit) {
  // No process issues a call of a step at less than a fifth of the row's time, nor at five times of it.
  constexpr double kLeast = 0.2;
  constexpr double kMost = 5;
  if (host.step <= 0 || host.kernel_step <= 0) return Factors{};
  std::array<std::array<double, 2>, 2> us{};  // by program, then of its kernels and of its sections
  for (const bool sections : {false, true}) {
    profile.set_calls(host, {sections ? 0.0 : 1.0, sections ? 1.0 : 0.0, true});
    for (const gpu::HostPart part : {gpu::HostPart::kernels, gpu::HostPart::sections}) {
      const auto time = host_step(fit, name, part, ranks);
      if (!time) return tl::unexpected(time.error());
      us[part == gpu::HostPart::kernels ? 0 : 1][sections ? 1 : 0] = *time;
    }
  }
  const auto in_range = [](double factor) { return factor >= kLeast && factor <= kMost; };
  const double determinant = us[0][0] * us[1][1] - us[0][1] * us[1][0];
  const Factors both{(host.kernel_step * us[1][1] - host.step * us[0][1]) / determinant,
                     (host.step * us[0][0] - host.kernel_step * us[1][0]) / determinant, true};
  if (determinant > 0 && in_range(both.kernels) && in_range(both.sections)) return both;
  const double all = us[0][0] + us[0][1] + us[1][0] + us[1][1];
  if (all <= 0) return Factors{};
  const double one = std::clamp((host.kernel_step + host.step) / all, kLeast, kMost);
  return Factors{one, one, true};
}

/// Gaps between kernels. What an all-gather of NCCL's adds is the base's where none of it shows in the probe's row of
/// small kernels: in every recorded step it does.
void set_gaps(const gpu::ProbedLatencies& latencies, const sim::Latencies& base, Profile& profile) {
  constexpr double kShows = 0.3;  // us
  if (latencies.kernel_gap <= 0) return;
  const bool shows = latencies.gather_gap >= kShows;
  const double beside = shows ? latencies.gather_gap : (base.kernel_gap_all_gather - base.kernel_gap).us();
  profile.set("latencies", "kernel_gap", latencies.kernel_gap, "us");
  profile.set("latencies", "kernel_gap_all_gather", latencies.kernel_gap + std::max(0.0, beside), "us",
              shows ? "" : "; but what a gather adds to kernel_gap is the base profile's");
  profile.set("latencies", "long_kernel", latencies.long_kernel, "us");
  profile.set("latencies", "long_kernel_from", gpu::kLongKernel.us(), "us");
}

}  // namespace

Result<sim::MachineFit> profile_of(const gpu::ProbeResult& probed, std::uint32_t ranks, const std::string& name,
                                   const std::string& base, const std::string& when) {
  const sim::Measurements measured = measurements_of(probed, ranks);
  auto fit = sim::fit_machine(std::span(&measured, 1), {name, base, {}, sim::HostProgram::foreshard});
  if (!fit) return fit;
  Profile profile(fit->profile, fmt::format("measured by foreshard probe, {}, {} x {}, CUDA driver {}, NCCL {}", when,
                                            ranks, probed.gpu, probed.driver, probed.nccl));
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(kMiB); };
  profile.set("gpu", "memory_total", mib(probed.memory_total), "MiB");
  profile.set("gpu", "memory_other", mib(probed.memory_other), "MiB");
  profile.set("rates", "pcie", probed.pcie, "GB/s");
  const gpu::ProbedLatencies& latencies = probed.latencies;
  // launch stays the base's: under CUPTI a launch on an idle stream takes longer than without.
  const auto fitted = sim::parse_profile(fit->profile.dump(), name);
  if (!fitted) return tl::unexpected(fitted.error());
  set_gaps(latencies, fitted->latencies, profile);
  profile.set("latencies", "copy_gap", latencies.copy_gap, "us");
  profile.set("latencies", "event_wait", latencies.event_wait, "us");
  profile.set("latencies", "communicator_gap", latencies.communicator_gap, "us");
  profile.set("latencies", "synchronize", latencies.synchronize, "us");
  if (probed.side.side > 0) {
    // A compute stream that stands still has no rate: it is taken for a twentieth.
    profile.set("contention", "side_kernel", std::max(1.0, probed.side.side), "ratio");
    profile.set("contention", "beside_side", 1 / std::max(0.05, 1 - probed.side.lost), "ratio");
    profile.set("contention", "resident_side", 1 / std::max(0.05, 1 - probed.side.product_lost), "ratio");
  }
  // A plan adds a copy's host time for each rank to that of NCCL's call: together they are our own call's.
  if (probed.host.own_collective > 0) {
    constexpr double kLeastCopyIssue = 0.01;
    const double beyond = (probed.host.own_collective - probed.host.collective) / ranks;
    profile.set("nccl", "copy_issue", std::max(kLeastCopyIssue, beyond), "us");
  }
  if (!probed.kernels.empty()) profile.set("contention", "held_sms", gpu::kHeldSms, "count");
  profile.set_program();
  const auto factors = factors_of(probed.host, name, ranks, profile, *fit);
  if (!factors) return tl::unexpected(factors.error());
  profile.set_calls(probed.host, *factors);
  const auto read = sim::parse_profile(fit->profile.dump(), name);
  if (!read) return tl::unexpected(read.error());
  return fit;
}

Json probe_json(const gpu::ProbeResult& probed) {
  Json json = json_result("probe");
  json["gpu"] = probed.gpu;
  json["nccl"] = probed.nccl;
  json["cuda_driver"] = probed.driver;
  json["hbm_copy_gb_per_s"] = probed.hbm_copy;
  json["peer_copy_gb_per_s"] = probed.peer_copy;
  json["pcie_gb_per_s"] = probed.pcie;
  json["gemm_bf16_tflops"] = probed.gemm_bf16;
  json["gemm_fp32_tflops"] = probed.gemm_fp32;
  const gpu::ProbedLatencies& l = probed.latencies;
  json["latencies_us"] = {{"launch", l.launch},           {"kernel_gap", l.kernel_gap},
                          {"long_kernel", l.long_kernel}, {"gather_gap", l.gather_gap},
                          {"copy_gap", l.copy_gap},       {"event_wait", l.event_wait},
                          {"synchronize", l.synchronize}, {"communicator_gap", l.communicator_gap}};
  const gpu::ProbedHost& h = probed.host;
  json["host_us"] = {{"kernel", h.kernel},
                     {"gemm", h.gemm},
                     {"collective", h.collective},
                     {"own_collective", h.own_collective},
                     {"event", h.event},
                     {"wait", h.wait},
                     {"step", h.step},
                     {"kernel_step", h.kernel_step}};
  json["side_copy"] = {
      {"slowdown", probed.side.side}, {"compute_lost", probed.side.lost}, {"product_lost", probed.side.product_lost}};
  json["collectives"] = Json::array();
  for (const gpu::ProbedCollective& one : probed.collectives)
    json["collectives"].push_back({{"kind", dashed_name(one.kind)},
                                   {"transport", name(one.transport)},
                                   {"bytes", one.bytes},
                                   {"us", one.us},
                                   {"widens", one.widens}});
  json["contention"] = Json::array();
  for (const gpu::ProbedContention& one : probed.contention)
    json["contention"].push_back({{"kernel", one.kernel},
                                  {"kind", dashed_name(one.kind)},
                                  {"transport", name(one.transport)},
                                  {"bytes", one.bytes},
                                  {"kernel_slowdown", one.kernel_beside_us / one.kernel_alone_us},
                                  {"collective_slowdown", one.collective_beside_us / one.collective_alone_us},
                                  {"kernel_alone_us", one.kernel_alone_us},
                                  {"collective_alone_us", one.collective_alone_us},
                                  {"widens", one.widens}});
  json["kernels"] = Json::array();
  for (const gpu::ProbedKernel& one : probed.kernels) {
    const KernelMath& math = one.math;
    json["kernels"].push_back({{"label", one.label},
                               {"kind", foreshard::name(math.kind)},
                               {"access", foreshard::name(math.access)},
                               {"dtype", foreshard::name(math.dtype)},
                               {"shape", {math.m, math.n, math.k, math.batch}},
                               {"causal", math.causal},
                               {"bytes", one.bytes},
                               {"us", one.us},
                               {"held_us", one.held_us}});
  }
  json["notes"] = probed.notes;
  return json;
}

}  // namespace foreshard::cli
