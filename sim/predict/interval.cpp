#include "sim/predict/interval.hpp"

#include <algorithm>
#include <cmath>

namespace foreshard::sim {

double Interval::half_width(double step_ms) const {
  return step_ms > 0 ? std::max(high_ms / step_ms - 1, 1 - low_ms / step_ms) : 0;
}

std::string_view words_of(Basis basis) {
  constexpr std::array<std::string_view, kEnumSize<Basis>> kWords{
      "kernels and collectives of the recording",
      "recorded kernels, rearranged for other checkpointing, accumulation or units",
      "kernels and collectives as the machine profile prices them",
      "the speed of the recorded process's host, in another process",
      "the speed of a host that nothing was measured of",
      "a machine, a scale or kernels that nothing was measured on",
      "collectives whose prices rest on no measurement of these ranks or links",
      "recorded settings that simulate otherwise than they were measured",
      "recorded steps that differ",
      "what allocation retries take: the GPU waited for, cudaFree and cudaMalloc"};
  return kWords[static_cast<std::size_t>(basis)];
}

void close_interval(double step_ms, Interval& interval) {
  double below = 0;
  double above = 0;
  for (const RestsOn& part : interval.rests_on) {
    below += part.below * part.below;
    above += part.above * part.above;
  }
  interval.low_ms = step_ms * std::exp(-std::sqrt(below));
  interval.high_ms = step_ms * std::exp(std::sqrt(above));
}

double difference_width(double gpu, double host, double moved) {
  return std::hypot(gpu, host * moved);
}

}  // namespace foreshard::sim
