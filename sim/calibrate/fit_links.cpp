#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/calibrate/fit_parts.hpp"
#include "sim/collectives/modelled_collectives.hpp"

namespace foreshard::sim {
namespace {

/// Smaller collectives cost NCCL's latencies, which the base has from its source.
constexpr Bytes kLeastBytes = 16 * kMiB;
constexpr std::size_t kLeastSamples = 3;
/// A constant may move by this factor from the base's; further, the base is of another machine.
constexpr double kMaxFactor = 4;

struct Knob {
  const char* place;
  const char* unit;
  double* value;
};

/// Samples that decide a few constants together.
struct SampleGroup {
  std::vector<std::pair<CollectiveRequest, double>> samples;  ///< and microseconds
  std::vector<Knob> knobs;
};

double misfit(const MachineProfile& machine, const SampleGroup& group) {
  const ModelledCollectives model(machine);
  double sum = 0;
  for (const auto& [request, us] : group.samples) {
    const double error = std::log(model.price(request).period.us() / us);
    sum += error * error;
  }
  return sum;
}

/// Golden-section search for the factor on a knob, over the logarithm of [1/most, most].
void turn(const MachineProfile& machine, const SampleGroup& group, const Knob& knob, double base) {
  constexpr double kGolden = 0.618033988749895;
  double low = -std::log(kMaxFactor), high = std::log(kMaxFactor);
  const auto at = [&](double log_factor) {
    *knob.value = base * std::exp(log_factor);
    return misfit(machine, group);
  };
  double left = high - kGolden * (high - low), right = low + kGolden * (high - low);
  double at_left = at(left), at_right = at(right);
  for (int i = 0; i < 40; ++i) {  // 0.618^40: the interval is 1e-8 of the first
    if (at_left <= at_right) {
      high = right;
      right = left;
      at_right = at_left;
      left = high - kGolden * (high - low);
      at_left = at(left);
    } else {
      low = left;
      left = right;
      at_left = at_right;
      right = low + kGolden * (high - low);
      at_right = at(right);
    }
  }
  *knob.value = base * std::exp((low + high) / 2);
}

double four_digits(double value) {
  const double unit = std::pow(10.0, std::floor(std::log10(value)) - 3);
  return std::round(value / unit) * unit;
}

void fit(MachineProfile& machine, SampleGroup& group, MachineFit& out) {
  std::vector<double> base;
  for (const Knob& knob : group.knobs) base.push_back(*knob.value);
  // Without tables, so that the mechanisms alone are fitted.
  std::vector<CollectiveTable> tables;
  std::swap(tables, machine.collectives);
  const double before = misfit(machine, group);
  for (int round = 0; round < (group.knobs.size() > 1 ? 6 : 1); ++round)
    for (std::size_t k = 0; k < group.knobs.size(); ++k) turn(machine, group, group.knobs[k], base[k]);
  for (const Knob& knob : group.knobs) *knob.value = four_digits(*knob.value);
  const bool better = misfit(machine, group) < before;
  std::swap(tables, machine.collectives);
  for (std::size_t k = 0; k < group.knobs.size(); ++k) {
    const Knob& knob = group.knobs[k];
    const double factor = *knob.value / base[k];
    const bool edge = factor > kMaxFactor * 0.99 || factor < 1.01 / kMaxFactor;
    if (edge)
      out.notes.push_back(fmt::format("{} would leave a quarter to four times its base's value: kept at {:.4g} {}",
                                      knob.place, base[k], knob.unit));
    if (edge || !better) {
      *knob.value = base[k];
      continue;
    }
    out.constants.push_back(
        {knob.place, knob.unit, base[k], *knob.value, group.samples.size(),
         fmt::format("fitted by foreshard calibrate to {} collectives of at least 16 MiB", group.samples.size())});
  }
}

SampleGroup samples_of(const Samples& samples, Transport transport, bool one_node, std::optional<CollectiveKind> only,
                       std::vector<Knob> knobs) {
  SampleGroup group;
  group.knobs = std::move(knobs);
  for (const auto& [key, times] : samples.collectives) {
    const auto& [kind, other, ranks, per_node, upcasts, dtype, bytes] = key;
    if (upcasts || other != transport || bytes < kLeastBytes) continue;
    const bool rings = kind == CollectiveKind::all_gather || kind == CollectiveKind::reduce_scatter;
    if ((per_node >= ranks) != one_node || (only ? kind != *only : !rings)) continue;
    CollectiveRequest request{kind, transport, bytes, ranks, per_node};
    request.dtype = dtype;
    group.samples.push_back({request, times[times.size() / 2].us});
  }
  return group;
}

}  // namespace

void fit_links(const Samples& samples, MachineProfile& machine, MachineFit& out) {
  Links& links = machine.links;
  const auto try_fit = [&](SampleGroup group) {
    if (group.samples.size() >= kLeastSamples) fit(machine, group, out);
  };
  const auto has = [&](CollectiveKind kind) {
    return samples_of(samples, Transport::nccl, true, kind, {}).samples.size() >= kLeastSamples;
  };
  std::vector<Knob> ring;
  if (has(CollectiveKind::all_gather)) ring.push_back({"/links/gather_channel", "GB/s", &links.gather_channel});
  if (has(CollectiveKind::reduce_scatter)) ring.push_back({"/links/reduce_channel", "GB/s", &links.reduce_channel});
  // What one of them tells of a channel is the other's too, but for the ratio that only both tell.
  const auto sums = [&](bool of_float32) {
    const SampleGroup group = samples_of(samples, Transport::nccl, true, CollectiveKind::reduce_scatter, {});
    return static_cast<std::size_t>(std::count_if(group.samples.begin(), group.samples.end(), [&](const auto& sample) {
      return (sample.first.dtype == DType::float32) == of_float32;
    }));
  };
  if (sums(true) >= kLeastSamples && sums(false) >= kLeastSamples)
    ring.push_back({"/links/float32_sums", "ratio", &links.float32_sums});
  if (!ring.empty() && links.ring_drift > 0) ring.push_back({"/links/ring_drift", "MiB", &links.ring_drift});
  if (!ring.empty()) try_fit(samples_of(samples, Transport::nccl, true, std::nullopt, ring));
  SampleGroup p2p = samples_of(samples, Transport::nccl, true, CollectiveKind::send_recv,
                               {{"/links/p2p_channel", "GB/s", &links.p2p_channel}});
  for (const auto& sample : samples_of(samples, Transport::nccl, true, CollectiveKind::all_to_all, {}).samples)
    p2p.samples.push_back(sample);
  try_fit(std::move(p2p));
  try_fit(samples_of(samples, Transport::symmetric, true, CollectiveKind::all_gather,
                     {{"/links/symmetric_store", "GB/s", &links.symmetric_store}}));
  try_fit(samples_of(samples, Transport::symmetric, true, CollectiveKind::reduce_scatter,
                     {{"/links/symmetric_load", "GB/s", &links.symmetric_load}}));
  try_fit(samples_of(samples, Transport::copy_engine, true, CollectiveKind::all_gather,
                     {{"/links/push", "GB/s", &links.push}}));
  try_fit(samples_of(samples, Transport::nccl, false, std::nullopt,
                     {{"/network/efficiency", "ratio", &machine.network.efficiency},
                      {"/network/lengthening_simple", "ratio", &machine.network.lengthening_simple}}));
}

}  // namespace foreshard::sim
