// What a probe measured, as the fit takes it and as --json shows it.
#include "cli/gpu/probe_report.hpp"

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"

namespace foreshard::cli {
namespace {

gpu::ProbeResult probed() {
  gpu::ProbeResult out;
  out.gpu = "NVIDIA H200";
  out.nccl = "2.28.9";
  out.driver = "13.0";
  out.memory_total = 141 * kGiB;
  out.memory_other = 2 * kGiB;
  out.hbm_copy = 4200;
  out.gemm_bf16 = 780;
  out.gemm_fp32 = 50;
  out.pcie = 55;
  out.latencies = {9, 1.1, 5.4, 1.2, 1.3, 4.2, 0.6, 2.1};
  out.host = {4, 8, 15, 12, 2, 0.5, 700, 1500};
  out.side = {1.25, 0.75, 0.3};
  KernelMath rows;
  rows.access = MemoryAccess::row;
  out.kernels = {{"foreshard::rms_norm", rows, 64 * kMiB, 77, 80, 95},
                 {"aten::mm", {KernelMath::Kind::gemm, DType::bfloat16, false, 1, 512, 512, 512}, 0, 6}};
  out.collectives = {{CollectiveKind::all_gather, Transport::nccl, 128 * kMiB, 400, false}};
  for (const bool upcasts : {false, true})
    out.contention.push_back({"a kernel", KernelClass::memory_bound, CollectiveKind::reduce_scatter,
                              Transport::low_contention, 512 * kMiB, 250, 285, 900, 1900, upcasts});
  return out;
}

TEST_CASE("the fit gets every number of the probe under its name") {
  const sim::ProbeMeasurements m = measurements_of(probed(), 4, "2026-11-21");
  CHECK(m.ranks == 4);
  CHECK(m.nccl == "2.28.9");
  CHECK(m.cuda_driver == "13.0");
  CHECK(m.date == "2026-11-21");
  CHECK(m.memory_total == 141 * kGiB);
  CHECK(m.memory_other == 2 * kGiB);
  CHECK(m.pcie == 55);
  CHECK(m.latencies.kernel_gap == 1.1);
  CHECK(m.latencies.copy_gap == 5.4);
  CHECK(m.latencies.event_wait == 1.2);
  CHECK(m.latencies.communicator_gap == 1.3);
  CHECK(m.latencies.synchronize == 4.2);
  CHECK(m.latencies.long_kernel == 0.6);
  CHECK(m.latencies.all_gather_gap == 2.1);
  CHECK(m.host.kernel == 4);
  CHECK(m.host.gemm == 8);
  CHECK(m.host.collective == 15);
  CHECK(m.host.symm_mem_collective == 12);
  CHECK(m.host.event == 2);
  CHECK(m.host.wait == 0.5);
  CHECK(m.host.section_step == 700);
  CHECK(m.host.kernel_step == 1500);
  CHECK(m.side_copy.slowdown == 1.25);
  CHECK(m.side_copy.compute_lost == 0.75);
  CHECK(m.side_copy.gemm_lost == 0.3);
}

TEST_CASE("the fit gets collectives, kernels and rates as samples of one node") {
  const sim::Measurements samples = measurements_of(probed(), 4, "2026-11-21").samples;
  CHECK(samples.gpu == "NVIDIA H200");
  REQUIRE(samples.rates.size() == 3);  // no peer copy was measured
  CHECK(samples.rates[0].rate == 4200);
  REQUIRE(samples.collectives.size() == 1);
  CHECK(samples.collectives[0].ranks == 4);
  CHECK(samples.collectives[0].ranks_per_node == 4);
  CHECK(samples.collectives[0].bus_gb_per_s() == Approx(128 * 1.048576 * 0.75 / 0.4));
  REQUIRE(samples.contention.size() == 2);
  CHECK(samples.contention[1].upcasts);
  CHECK(samples.contention[1].kernel_concurrent_us == 285);
  CHECK(samples.contention[1].collective_concurrent_us == 1900);
  REQUIRE(samples.kernels.size() == 2);
  CHECK(samples.kernels[0].held_us == 80);
  CHECK(samples.kernels[0].streamed_us == 95);
  CHECK(samples.kernels[1].math.m == 512);
}

TEST_CASE("every measured kernel stands in probe's JSON") {
  const Json json = probe_json(probed());
  REQUIRE(json["kernels"].size() == 2);
  CHECK(json["kernels"][0]["label"] == "foreshard::rms_norm");
  CHECK(json["kernels"][0]["access"] == "row");
  CHECK(json["kernels"][0]["streamed_us"] == 95);
  CHECK(json["kernels"][1]["kind"] == "gemm");
  CHECK(json["kernels"][1]["shape"] == Json({512, 512, 512, 1}));
  REQUIRE(json["collectives"].size() == 1);
  CHECK(json["collectives"][0]["dtype"] == "bfloat16");
  REQUIRE(json["contention"].size() == 2);
  for (std::size_t i = 0; i < 2; ++i) CHECK(json["contention"][i]["upcasts"] == (i == 1));
}

}  // namespace
}  // namespace foreshard::cli
