// Contention taken out of device times, and kernel classes.
#include "sim/calibrate/contention_out.hpp"

#include "core/kernel/kernel_name.hpp"
#include "tests/catch.hpp"
#include "tests/traces/capture/trace_run.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

const char* const kRing = "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL";

sim::MachineProfile machine() {
  sim::MachineProfile out;
  out.sm_count = 132;
  // 132 SMs, a ring holds 24 of them: a GEMM takes 132 / 108 of its time.
  sim::ContentionSpec& spec = out.contention;
  spec.memory_bandwidth = 1e12;
  spec.ring.sms = 24;
  spec.copy_engine.link_bandwidth = 1e12 / 0.9;
  spec.copy_engine.memory_per_byte = 0.375;  // of the memory bandwidth at 0.9 of the link: GEMMs 1.6 times slower
  spec.side_kernel = 2;
  spec.with_side_kernel = 1.25;
  spec.full_rate_sms = 0.8;
  spec.busy_link = 0.75;
  spec.usual_link = spec.most_traffic = 0.9;
  spec.cluster = 2;
  spec.one_wave = 1.5;
  spec.least_loss = 0.02;
  sim::KernelUse& gemm = spec.classes[static_cast<std::size_t>(KernelClass::gemm)];
  gemm.sms = 1;
  gemm.memory = 1;
  return out;
}

std::vector<FreedOp> freed(const TraceRun& trace, std::vector<ContendedOp> ops = {}) {
  ops.resize(trace.run.device_ops.size());
  return free_of_contention(trace.run, ops, StreamId{0}, machine());
}

KernelClass class_of(std::string_view name, std::uint32_t x, std::uint32_t y) {
  return kernel_class({name, {x, y, 1}, 132});
}

}  // namespace

TEST_CASE("a kernel beside a ring loses the class's share of the overlap") {
  TraceRun trace;
  trace.launch("nvjet_big", 0, 1, 100, 100);  // 50 us of it beside a ring
  trace.launch(kRing, 1, 2, 150, 100, 2);
  CHECK(freed(trace)[0].work.us() == Approx(100 - 50 * 24.0 / 132).epsilon(1e-4));
  CHECK(freed(trace)[1].work.us() == Approx(100).epsilon(1e-4));
}

TEST_CASE("rings count by the SMs that they hold together") {
  TraceRun trace;
  trace.launch("nvjet_big", 0, 1, 0, 100);
  trace.launch(kRing, 1, 2, 0, 100, 2);
  trace.run.device_ops[1].grid = {12, 1, 1};
  CHECK(freed(trace)[0].work.us() == Approx(100 / (132.0 / 120)).epsilon(1e-4));
  trace.run.device_ops[1].grid = {24, 1, 1};
  trace.launch(kRing, 2, 3, 0, 100, 3);
  trace.run.device_ops[2].grid = {24, 1, 1};
  CHECK(freed(trace)[0].work.us() == Approx(100 / (132.0 / 84)).epsilon(1e-4));
}

TEST_CASE("copies and kernels on other streams") {
  TraceRun trace;
  trace.launch("nvjet_big", 0, 1, 0, 100);
  trace.launch("cast", 1, 2, 80, 40, 1);  // half of it beside the GEMM
  CHECK(freed(trace)[0].work.us() == Approx(96).epsilon(1e-4));
  CHECK(freed(trace)[1].work.us() == Approx(30).epsilon(1e-4));

  TraceRun copy;
  copy.launch("nvjet_big", 0, 1, 0, 100);
  copy.launch("Memcpy PtoP (Device -> Device)", 1, 2, 0, 40, 1);
  CHECK(freed(copy)[0].work.us() == Approx(85).epsilon(1e-4));
}

TEST_CASE("six clean and six covered instances give a kernel its own slowdown") {
  TraceRun trace;
  for (int i = 0; i < 12; ++i) {
    const double t = 1000.0 * i;
    trace.launch("nvjet_big", t, t + 1, t + 10, i < 6 ? 100 : 150);
    if (i >= 6) trace.launch(kRing, t + 2, t + 3, t, 500, 2);
  }
  std::vector<ContendedOp> ops(trace.run.device_ops.size(), ContendedOp{{}, 7});
  auto result = freed(trace, ops);
  CHECK(result[0].ring_slowdown == Approx(1.5));
  CHECK(result[0].work.us() == Approx(100).epsilon(1e-4));
  CHECK(result[6].work.us() == Approx(100).epsilon(1e-4));

  ops[0].signature = 8;  // five clean ones are too few
  result = freed(trace, ops);
  CHECK(result[1].ring_slowdown == 0);
  CHECK(result[6].work.us() == Approx(150 * 108.0 / 132).epsilon(1e-4));

  ops[0].signature = 7;  // clean ones that spread by more than a quarter
  trace.run.device_ops[0].end = trace.run.device_ops[0].start + Nanoseconds::from_us(140);
  trace.run.device_ops[1].end = trace.run.device_ops[1].start + Nanoseconds::from_us(140);
  CHECK(freed(trace, ops)[2].ring_slowdown == 0);
}

TEST_CASE("kernel classes by name and grid") {
  CHECK(class_of("nvjet_sm90_tst_128x256_64x4_2x1_v_bz_coopA_NTN", 2, 66) == KernelClass::gemm);
  CHECK(class_of("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_TNT", 2, 64) == KernelClass::gemm_single_wave);
  CHECK(class_of("nvjet_sm90_tst_64x48_64x15_2x4_h_bz_TNT", 8, 12) == KernelClass::gemm_single_wave);
  CHECK(class_of("void cutlass::Kernel2<cutlass_80_simt_sgemm_256x128_8x4_nt_align1>(…)", 256, 2) == KernelClass::gemm);
  CHECK(class_of("sm80_xmma_gemm_f32f32_f32f32_f32_tn_n_tilesize256x64x8", 64, 4) == KernelClass::gemm);
  CHECK(class_of("sm80_xmma_gemm_f32f32_f32f32_f32_nt_n_tilesize128x32x8", 80, 320) == KernelClass::gemm_streaming);
  CHECK(class_of("void gemmSN_NN_kernel<float, 256, 4, 2, 8, 4, 4>", 160, 1) == KernelClass::gemm_streaming);
  CHECK(class_of("void sgemm_largek_lds64<true, false, 6, 3, 4, 5, 2>", 160, 1) == KernelClass::gemm_streaming);
  CHECK(class_of("void cublasLt::splitKreduce_kernel<32, 16>", 64, 8) == KernelClass::memory_bound);
  CHECK(class_of("cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma", 64, 4) == KernelClass::attention);
  CHECK(class_of("fmha_cutlassF_f32_aligned_32x128_gmem_sm80", 64, 4) == KernelClass::attention);
  CHECK(class_of("void pytorch_flash::flash_bwd_dot_do_o_kernel<…>", 64, 4) == KernelClass::memory_bound);
  CHECK(class_of("void cudnn::fusion::convert_dq_to_16bits<true>", 64, 4) == KernelClass::memory_bound);
  CHECK(class_of("void at::native::vectorized_elementwise_kernel<8>", 64, 4) == KernelClass::memory_bound);
}
