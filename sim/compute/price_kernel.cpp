#include "sim/compute/price_kernel.hpp"

#include <algorithm>
#include <cmath>

#include "core/kernel/kernel_cost.hpp"
#include "sim/compute/measured.hpp"
#include "sim/compute/parts.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace compute {

double at(const Curve& curve, double place) {
  const auto& points = curve.points;
  if (points.empty()) return 1;
  const auto above = std::find_if(points.begin(), points.end(), [&](const Curve::Point& p) { return p.at >= place; });
  if (above == points.begin()) return above->value;
  if (above == points.end()) return points.back().value;
  const auto below = above - 1;
  return below->value + (above->value - below->value) * (place - below->at) / (above->at - below->at);
}

double least_bytes(const KernelMath& math) {
  const double m = static_cast<double>(math.m);
  const double n = static_cast<double>(math.n);
  const double k = static_cast<double>(math.k);
  const double each = math.kind == KernelMath::Kind::gemm ? m * k + k * n + m * n : 2 * (m + n) * k;
  return each * math.batch * static_cast<double>(itemsize(math.dtype));
}

}  // namespace compute

namespace {

/// Where the profile has no section "compute": GEMMs at the rates measured for large ones, attention at a share of
/// them.
double by_flop(const MachineProfile& machine, const KernelMath& math) {
  return static_cast<double>(machine.rates.kernel_overhead.count) * 1e-9 + flops(math) / large_rate(machine, math);
}

KernelClass class_of(const MachineProfile& machine, const KernelWork& work, const compute::Seconds& price) {
  if (work.math.kind != KernelMath::Kind::gemm) return work.kernel_class;
  if (!machine.compute.known || price.tiles == 0) return work.kernel_class;
  if (price.memory > machine.compute.rules.streaming_share * price.time) return KernelClass::gemm_streaming;
  return price.waves <= 1 ? KernelClass::gemm_single_wave : KernelClass::gemm;
}

compute::Seconds seconds_of(const MachineProfile& machine, const KernelWork& work, std::string_view label) {
  const KernelMath& math = work.math;
  if (math.kind == KernelMath::Kind::bytes) {
    if (const auto measured = compute::family_time(machine.compute, label, work)) return {*measured};
    return compute::memory_bound(machine, work);
  }
  if (!machine.compute.known) return {by_flop(machine, math)};
  const bool gemm = math.kind == KernelMath::Kind::gemm;
  compute::Seconds out = gemm ? compute::gemm(machine, math) : compute::attention(machine, math);
  // What was measured of a machine's GEMMs is cuBLAS's, grouped products are CUTLASS's.
  if (!machine.compute.shapes.empty() && math.ragged == RaggedExtent::none)
    out.time *= compute::shape_factor(machine.compute, math);
  return out;
}

std::uint64_t whole(double count) {
  constexpr double kMax = 1e18;
  return static_cast<std::uint64_t>(std::min(count, kMax));
}

}  // namespace

double large_rate(const MachineProfile& machine, const KernelMath& math) {
  double rate = itemsize(math.dtype) >= 4 ? machine.rates.gemm_fp32 : machine.rates.gemm_bf16;
  if (is_float8(math.dtype)) rate *= machine.peaks.matrix(math.dtype) / machine.peaks.matrix_bfloat16;
  return math.kind == KernelMath::Kind::gemm ? rate : machine.rates.attention_share * rate;
}

KernelPrice price_kernel(const MachineProfile& machine, const KernelWork& work, std::string_view label) {
  const compute::Seconds seconds = seconds_of(machine, work, label);
  const bool bytes_only = work.math.kind == KernelMath::Kind::bytes;
  const double bytes = bytes_only || work.bytes > 0 ? static_cast<double>(work.bytes) : compute::least_bytes(work.math);
  KernelPrice out;
  out.time = op_time(seconds.time * 1e9);
  out.kernel_class = class_of(machine, work, seconds);
  out.tiles = whole(seconds.tiles);
  out.waves = whole(seconds.waves);
  out.sms = out.tiles == 0 ? machine.sm_count
                           : static_cast<std::uint32_t>(std::min<std::uint64_t>(out.tiles, machine.sm_count));
  const double peak = seconds.time * machine.peaks.memory_bandwidth;
  out.memory_share = peak > 0 ? std::min(1.0, bytes / peak) : 0;
  const compute::HeldFactors factors = compute::held_factors(machine.compute, label, work);
  out.held = factors.held;
  out.streamed = factors.streamed;
  return out;
}

}  // namespace foreshard::sim
