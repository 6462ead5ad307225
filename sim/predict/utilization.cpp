#include "sim/predict/utilization.hpp"

#include <utility>

#include "sim/predict/model_flops.hpp"
#include "sim/predict/predict.hpp"
#include "sim/predict/recorded_flops.hpp"

namespace foreshard::sim {
namespace {

double dense_rate(const GpuPeaks& peaks, DType dtype) {
  if (dtype == DType::float32) return peaks.vector_float32;
  return peaks.matrix(dtype);
}

double mean_flops(const Workload& workload, Settings settings, const std::vector<StepShape>& ranks) {
  double sum = 0;
  for (const StepShape& shape : ranks) {
    settings.batch = shape.batch;
    settings.seq = shape.seq;
    sum += recorded_flops(workload, settings).flops;
  }
  return sum / static_cast<double>(ranks.size());
}

}  // namespace

Utilization model_flops_utilization(const Workload& workload, const Settings& settings, const GpuPeaks& peaks,
                                    double step_ms, const std::vector<StepShape>& ranks) {
  Utilization out;
  if (step_ms <= 0) return out;
  const auto over = [&](double flops, DType dtype) {
    const double rate = dense_rate(peaks, dtype);
    return rate > 0 ? flops / (step_ms * 1e-3) / rate : 0;
  };
  if (settings.router_imbalance > 1) {
    out.unknown = "the planned rank's experts compute more than a rank does on average";
  } else if (const double flops = model_flops(workload); flops > 0) {
    out.value = over(flops, model_flops_dtype(workload));
    out.rests_on = settings.float8 == Float8::none
                       ? "the matrix products and attentions of its own kernels"
                       : "the matrix products and attentions of its own kernels, in float8 too over bfloat16's peak";
  } else if (from_model(workload)) {
    out.unknown = workload.settings.checkpoint == Checkpoint::none
                      ? "its kernels say nothing of matrix products"
                      : "a checkpoint's second forward cannot be told from frozen parameters' gradients";
  } else {
    RecordedFlops found = recorded_flops(workload, settings);
    if (found.flops > 0 && !ranks.empty()) found.flops = mean_flops(workload, settings, ranks);
    out.value = over(found.flops, found.dtype);
    out.rests_on = std::move(found.rests_on);
    out.unknown = std::move(found.unknown);
  }
  if (out.value <= 0) out.rests_on.clear();
  return out;
}

}  // namespace foreshard::sim
