#include "cli/probe_profile.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

#include "core/schedule/settings_table.hpp"
#include "core/workload/model/host_costs.hpp"
#include "core/workload/names.hpp"
#include "gpu/probe/host_program.hpp"
#include "sim/machine/profile.hpp"
#include "sim/machine/words.hpp"
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

/// µs of what no probe times by itself: an allocation, a free, an op of the program between two calls. Where the host
/// program was not run either it is this, assumed; the profile says so beside each value.
constexpr double kBookkeeping = 0.3;

/// What issuing one thing of each kind costs foreshard's host: calls that end in a kernel cost that call, sections of
/// FSDP2 their launches, events and waits; Python's work between calls is not there. Nothing: not measured.
std::optional<double> host_call(HostCall call, const gpu::ProbedHost& host) {
  const double events = host.event + host.wait;
  switch (call) {
    case HostCall::gemm:
    case HostCall::backward_gemm:
      return host.gemm;
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
      return host.kernel;
    case HostCall::all_gather:  // copy-in, collective; two events with their waits (fully_shard.hpp)
      return host.kernel + host.collective + 2 * events;
    case HostCall::copy_out:
      return host.kernel + events;
    case HostCall::reduce:  // copy-in, collective, and the events between three streams
      return host.kernel + host.collective + 3 * events;
    case HostCall::backward_final:
      return 2 * events;
    default:
      return std::nullopt;
  }
}

struct Bookkeeping {
  double us = kBookkeeping;
  bool measured = false;
};

class Profile {
 public:
  Profile(nlohmann::ordered_json& json, std::string source) : json_(json), source_(std::move(source)) {}
  void set(const char* section, const char* key, double value, const char* unit) {
    if (value > 0) json_[section][key] = {{"value", value}, {"unit", unit}, {"source", source_}};
  }
  void set_call(HostCall call, std::optional<double> us, const Bookkeeping& bookkeeping) {
    const std::string source =
        us                     ? source_ + ": of foreshard's own host program, not of PyTorch"
        : bookkeeping.measured ? source_ + ": a step of many small kernels on foreshard's host, less its calls, evenly"
                               : "assumed for foreshard's own host program; not measured";
    json_["host"]["calls"][std::string(name(call))] = {
        {"value", us.value_or(bookkeeping.us)}, {"unit", "us"}, {"source", source}};
  }
  void set_calls(const gpu::ProbedHost& host, const Bookkeeping& bookkeeping) {
    for (std::size_t i = 0; i < kHostCalls; ++i)
      set_call(static_cast<HostCall>(i), host_call(static_cast<HostCall>(i), host), bookkeeping);
  }
  void set_program() {
    json_["host"]["program"] = {{"value", "foreshard"}, {"source", source_ + ": what `foreshard run` issues"}};
  }

 private:
  nlohmann::ordered_json& json_;
  std::string source_;
};

/// Host time of a step of host_program.hpp on the profile, in microseconds.
Result<double> host_step(const sim::MachineFit& fit, const std::string& name, std::uint32_t ranks) {
  const auto machine = sim::parse_profile(fit.profile.dump(), name);
  if (!machine) return tl::unexpected(machine.error());
  const auto workload = gpu::host_program(machine->host_calls, machine->gpu(), ranks);
  if (!workload) return tl::unexpected(workload.error());
  const auto bound = sim::host_bound(*workload, workload->settings, *machine, 1);
  if (!bound) return tl::unexpected(bound.error());
  return bound->host_ms * 1e3;
}

/// What is left of the measured step once its calls are taken off, for each thing that no probe times. Host times add
/// up, so that two prices of it tell how often it is paid.
Result<Bookkeeping> bookkeeping_of(const gpu::ProbedHost& host, const std::string& name, std::uint32_t ranks,
                                   Profile& profile, const sim::MachineFit& fit) {
  if (host.step <= 0) return Bookkeeping{};
  profile.set_calls(host, {0, true});
  const auto without = host_step(fit, name, ranks);
  if (!without) return tl::unexpected(without.error());
  profile.set_calls(host, {1, true});
  const auto with = host_step(fit, name, ranks);
  if (!with) return tl::unexpected(with.error());
  if (*with <= *without) return Bookkeeping{};
  return Bookkeeping{std::max(0.0, (host.step - *without) / (*with - *without)), true};
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
  profile.set("latencies", "kernel_gap", latencies.kernel_gap, "us");
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
  profile.set_program();
  const auto bookkeeping = bookkeeping_of(probed.host, name, ranks, profile, *fit);
  if (!bookkeeping) return tl::unexpected(bookkeeping.error());
  profile.set_calls(probed.host, *bookkeeping);
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
                          {"copy_gap", l.copy_gap},       {"event_wait", l.event_wait},
                          {"synchronize", l.synchronize}, {"communicator_gap", l.communicator_gap}};
  const gpu::ProbedHost& h = probed.host;
  json["host_us"] = {{"kernel", h.kernel},
                     {"gemm", h.gemm},
                     {"collective", h.collective},
                     {"own_collective", h.own_collective},
                     {"event", h.event},
                     {"wait", h.wait},
                     {"step", h.step}};
  json["side_copy"] = {
      {"slowdown", probed.side.side}, {"compute_lost", probed.side.lost}, {"product_lost", probed.side.product_lost}};
  json["collectives"] = Json::array();
  for (const gpu::ProbedCollective& one : probed.collectives)
    json["collectives"].push_back({{"kind", sim::word(one.kind)},
                                   {"transport", name(one.transport)},
                                   {"bytes", one.bytes},
                                   {"us", one.us},
                                   {"widens", one.widens}});
  json["contention"] = Json::array();
  for (const gpu::ProbedContention& one : probed.contention)
    json["contention"].push_back({{"kernel", one.kernel},
                                  {"kind", sim::word(one.kind)},
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
