#include "cli/gpu/probe_report.hpp"

#include <nlohmann/json.hpp>

#include "core/device/collective_names.hpp"
#include "core/settings/settings_table.hpp"
#include "core/workload/workload_names.hpp"

namespace foreshard::cli {
namespace {

sim::Measurements samples_of(const gpu::ProbeResult& probed, std::uint32_t ranks) {
  sim::Measurements samples;
  samples.gpu = probed.gpu;
  for (const gpu::ProbedCollective& one : probed.collectives)
    samples.collectives.push_back({one.kind, one.transport, ranks, ranks, one.bytes, one.us, one.upcasts, one.dtype});
  for (const gpu::ProbedContention& one : probed.contention)
    samples.contention.push_back({one.kernel, one.kernel_class, one.kind, one.transport, ranks, one.bytes,
                                  one.kernel_isolated_us, one.kernel_concurrent_us, one.collective_isolated_us,
                                  one.collective_concurrent_us, one.upcasts});
  for (const gpu::ProbedKernel& one : probed.kernels)
    samples.kernels.push_back({one.label, one.math, one.bytes, one.us, one.held_us, one.streamed_us});
  using What = sim::RateSample::What;
  samples.rates.push_back({What::hbm_copy, 0, probed.hbm_copy});
  if (probed.peer_copy > 0) samples.rates.push_back({What::peer_copy, 256 * kMiB, probed.peer_copy});
  samples.rates.push_back({What::gemm_bfloat16, 8192, probed.gemm_bf16});
  samples.rates.push_back({What::gemm_float32, 4096, probed.gemm_fp32});
  return samples;
}

}  // namespace

sim::ProbeMeasurements measurements_of(const gpu::ProbeResult& probed, std::uint32_t ranks, const std::string& date) {
  sim::ProbeMeasurements out;
  out.samples = samples_of(probed, ranks);
  out.ranks = ranks;
  out.cuda_driver = probed.driver;
  out.nccl = probed.nccl;
  out.date = date;
  out.memory_total = probed.memory_total;
  out.memory_other = probed.memory_other;
  out.pcie = probed.pcie;
  out.held_sms = gpu::kHeldSms;
  out.streamed_bandwidth = probed.streamed_bandwidth;
  const gpu::ProbedLatencies& l = probed.latencies;
  out.latencies = {.kernel_gap = l.kernel_gap,
                   .long_kernel = l.long_kernel,
                   .long_kernel_from = gpu::kLongKernel.us(),
                   .all_gather_gap = l.gather_gap,
                   .copy_gap = l.copy_gap,
                   .event_wait = l.event_wait,
                   .communicator_gap = l.communicator_gap,
                   .synchronize = l.synchronize};
  const gpu::ProbedHost& h = probed.host;
  out.host = {.kernel = h.kernel,
              .gemm = h.gemm,
              .collective = h.collective,
              .symm_mem_collective = h.symm_mem_collective,
              .event = h.event,
              .wait = h.wait,
              .section_step = h.step,
              .kernel_step = h.kernel_step};
  out.side_copy = {.slowdown = probed.side.side, .compute_lost = probed.side.lost, .gemm_lost = probed.side.gemm_lost};
  return out;
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
                     {"own_collective", h.symm_mem_collective},
                     {"event", h.event},
                     {"wait", h.wait},
                     {"step", h.step},
                     {"kernel_step", h.kernel_step}};
  json["side_copy"] = {
      {"slowdown", probed.side.side}, {"compute_lost", probed.side.lost}, {"product_lost", probed.side.gemm_lost}};
  json["collectives"] = Json::array();
  for (const gpu::ProbedCollective& one : probed.collectives)
    json["collectives"].push_back({{"kind", dashed_name(one.kind)},
                                   {"transport", name(one.transport)},
                                   {"bytes", one.bytes},
                                   {"us", one.us},
                                   {"upcasts", one.upcasts},
                                   {"dtype", name(one.dtype)}});
  json["contention"] = Json::array();
  for (const gpu::ProbedContention& one : probed.contention)
    json["contention"].push_back({{"kernel", one.kernel},
                                  {"kind", dashed_name(one.kind)},
                                  {"transport", name(one.transport)},
                                  {"bytes", one.bytes},
                                  {"kernel_slowdown", one.kernel_concurrent_us / one.kernel_isolated_us},
                                  {"collective_slowdown", one.collective_concurrent_us / one.collective_isolated_us},
                                  {"kernel_isolated_us", one.kernel_isolated_us},
                                  {"collective_isolated_us", one.collective_isolated_us},
                                  {"upcasts", one.upcasts}});
  json["streamed_gb_per_s"] = probed.streamed_bandwidth;
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
                               {"held_us", one.held_us},
                               {"streamed_us", one.streamed_us}});
  }
  json["notes"] = probed.notes;
  return json;
}

}  // namespace foreshard::cli
