// Fused attention, forward and backward: GEMMs over the pairs of queries and keys, and a cost of every query row.
#include <algorithm>
#include <cmath>

#include "sim/compute/parts.hpp"

namespace foreshard::sim::compute {
namespace {

constexpr double kQueryTile =
    128;  // queries of one block (cuDNN 9.19 on sm90, names "…_flash_fprop_wgmma_…_64x128x64")
constexpr double kForwardFlop = 4;    // for each pair and element of the head: QKᵀ and PV
constexpr double kBackwardFlop = 10;  // S and P again, dV, dP, dQ, dK

const AttentionSpec& spec_of(const ComputeSpec& spec, const KernelMath& math) {
  const bool wide = itemsize(math.dtype) >= 4;
  if (math.kind == KernelMath::Kind::attention_forward)
    return wide ? spec.attention_forward_float32 : spec.attention_forward;
  return wide ? spec.attention_backward_float32 : spec.attention_backward;
}

}  // namespace

Seconds attention(const MachineProfile& machine, const KernelMath& math) {
  const AttentionSpec& spec = spec_of(machine.compute, math);
  if (math.m == 0 || math.n == 0 || math.k == 0 || math.batch == 0) return {spec.launch_us * 1e-6};
  const double batch = math.batch;
  const double queries = static_cast<double>(math.m);
  const double keys = static_cast<double>(math.n);
  const double dimension = static_cast<double>(math.k);
  const double sms = machine.sm_count;
  double pairs = queries * keys;
  if (math.causal) pairs = std::min(pairs, queries * keys / 2 + queries * spec.causal_block / 2);
  const double flop =
      (math.kind == KernelMath::Kind::attention_forward ? kForwardFlop : kBackwardFlop) * batch * pairs * dimension;
  const double peak = itemsize(math.dtype) >= 4 ? machine.peaks.vector_float32 : machine.peaks.matrix_bfloat16;
  const double rows =
      batch * queries * (spec.row_clocks + spec.row_element_clocks * dimension) / (sms * machine.peaks.clock_hz);
  const double tiles = batch * std::ceil(queries / kQueryTile);
  const double waves = std::ceil(tiles / sms);
  const double idle = tiles < machine.compute.rules.level_waves * sms ? waves * sms / tiles : 1;
  const double gemms = flop / (at(spec.efficiency, dimension) * peak);
  return {spec.launch_us * 1e-6 + spec.sustained * idle * (gemms + rows), tiles, waves};
}

}  // namespace foreshard::sim::compute
