// Single kernels: times by name and bytes, and factors on the model's times of GEMMs and attentions by shape.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/median.hpp"
#include "core/workload/workload_names.hpp"
#include "sim/calibrate/fit_parts.hpp"
#include "sim/compute/measured.hpp"
#include "sim/compute/price_kernel.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

/// Samples whose bytes differ by less than this are one point: half an octave.
constexpr double kOnePoint = 1.41;
/// Digits that a measured time has; more would only make files differ.
constexpr double kDigits = 1e4;

double rounded(double value) {
  const double scale = kDigits / std::pow(10, std::floor(std::log10(value)));
  return std::round(value * scale) / scale;
}

void add_residual(MachineFit& out, std::string what, const char* model, const std::vector<double>& errors) {
  if (errors.empty()) return;
  double sum = 0;
  for (const double error : errors) sum += error;
  out.residuals.push_back({std::move(what), model, errors.size(), sum / static_cast<double>(errors.size()),
                           *std::max_element(errors.begin(), errors.end())});
}

using Sample = const KernelSample*;

/// What kernels of one point lose while SMs are held, by idle CTAs and by ones that stream memory.
class Losses {
 public:
  void add(const KernelSample& sample) {
    if (sample.held_us <= 0) return;
    const double held = over_isolated(sample.held_us, sample);
    held_.push_back(held);
    if (sample.streamed_us > 0) streamed_.push_back(std::max(held, over_isolated(sample.streamed_us, sample)));
  }
  [[nodiscard]] compute::HeldFactors factors() const { return {factor(held_), factor(streamed_)}; }

 private:
  /// Less than nothing is scatter.
  static double over_isolated(double us, const KernelSample& sample) { return std::max(1.0, us / sample.us); }
  static double factor(const std::vector<double>& factors) { return factors.empty() ? 0 : rounded(median(factors)); }

  std::vector<double> held_;
  std::vector<double> streamed_;
};

/// A point of the profile, with those factors that were measured.
Json row(Json numbers, double held, double streamed) {
  for (const double factor : {held, streamed})
    if (factor > 0) numbers.push_back(factor);
  return numbers;
}

/// One family's curve: the samples of one point stand as the median of their rates at the middle of their bytes.
std::vector<KernelFamily::Point> curve(std::vector<Sample> samples) {
  std::stable_sort(samples.begin(), samples.end(), [](Sample a, Sample b) { return a->bytes < b->bytes; });
  std::vector<KernelFamily::Point> out;
  for (std::size_t first = 0; first < samples.size();) {
    std::vector<double> rates;
    Losses losses;
    double log_bytes = 0;
    std::size_t last = first;
    const double least = static_cast<double>(samples[first]->bytes);
    for (; last < samples.size() && static_cast<double>(samples[last]->bytes) < kOnePoint * least; ++last) {
      const double bytes = static_cast<double>(samples[last]->bytes);
      log_bytes += std::log(bytes);
      rates.push_back(bytes / samples[last]->us);
      losses.add(*samples[last]);
    }
    const double bytes = std::round(std::exp(log_bytes / static_cast<double>(last - first)));
    const compute::HeldFactors factors = losses.factors();
    out.push_back({bytes, rounded(bytes / median(rates)), factors.held, factors.streamed});
    first = last;
  }
  return out;
}

void fit_families(const Samples& samples, const std::string& source, MachineProfile& machine, Json& section,
                  MachineFit& out) {
  std::map<std::tuple<std::string, MemoryAccess, DType>, std::vector<Sample>> groups;
  for (const KernelSample& sample : samples.kernels)
    if (sample.math.kind == KernelMath::Kind::bytes && sample.bytes > 0)
      groups[{sample.label, sample.math.access, sample.math.dtype}].push_back(&sample);
  if (groups.empty()) return;
  machine.compute.families.clear();
  section["kernels"] = Json::array();
  std::vector<double> errors;
  for (const auto& [key, members] : groups) {
    const auto& [label, access, dtype] = key;
    machine.compute.families.push_back({label, access, dtype, curve(members)});
    Json points = Json::array();
    for (const KernelFamily::Point& point : machine.compute.families.back().points)
      points.push_back(row({point.bytes, point.us}, point.held, point.streamed));
    section["kernels"].push_back({{"label", label},
                                  {"access", name(access)},
                                  {"dtype", name(dtype)},
                                  {"points", points},
                                  {"source", fmt::format("{}: {} kernels", source, members.size())},
                                  {"fitted_on", Json::array({kOwnCalibration})}});
    for (const Sample sample : members) {
      const KernelWork work{KernelClass::memory_bound, {}, sample->bytes, 0, {}, sample->math};
      errors.push_back(std::abs(*compute::family_time(machine.compute, label, work) * 1e6 / sample->us - 1));
    }
  }
  add_residual(out, fmt::format("kernels of {} names", groups.size()), "curve through them", errors);
}

using Shape = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint32_t>;

/// How far each shape's factor lies from what the others say.
std::vector<double> errors_without_each(const ShapeFactors& shapes) {
  std::vector<double> errors;
  for (std::size_t i = 0; i < shapes.points.size() && shapes.points.size() > 1; ++i) {
    ComputeSpec rest;
    rest.shapes.push_back(shapes);
    auto& points = rest.shapes.front().points;
    const ShapeFactors::Point left_out = points[i];
    points.erase(points.begin() + static_cast<std::ptrdiff_t>(i));
    KernelMath math{shapes.kind, shapes.dtype, shapes.causal};
    math.m = static_cast<std::uint64_t>(left_out.m);
    math.n = static_cast<std::uint64_t>(left_out.n);
    math.k = static_cast<std::uint64_t>(left_out.k);
    math.batch = static_cast<std::uint32_t>(left_out.batch);
    errors.push_back(std::abs(compute::shape_factor(rest, math) / left_out.factor - 1));
  }
  return errors;
}

void fit_shapes(const Samples& samples, const std::string& source, MachineProfile& machine, Json& section,
                MachineFit& out) {
  using Key = std::tuple<KernelMath::Kind, DType, bool>;
  struct Ratios {
    std::vector<double> factors;
    Losses losses;
  };
  std::map<Key, std::map<Shape, Ratios>> groups;
  machine.compute.shapes.clear();
  for (const KernelSample& sample : samples.kernels) {
    const KernelMath& math = sample.math;
    if (math.kind == KernelMath::Kind::bytes) continue;
    const double modelled = price_kernel(machine, {KernelClass::gemm, {}, sample.bytes, 0, {}, math}).time.us();
    if (modelled <= 0) continue;
    Ratios& ratios = groups[{math.kind, math.dtype, math.causal}][{math.m, math.n, math.k, math.batch}];
    ratios.factors.push_back(sample.us / modelled);
    ratios.losses.add(sample);
  }
  if (groups.empty()) return;
  section["shapes"] = Json::array();
  for (const auto& [key, shapes] : groups) {
    const auto& [kind, dtype, causal] = key;
    ShapeFactors fitted{kind, dtype, causal, {}};
    Json points = Json::array();
    for (const auto& [shape, ratios] : shapes) {
      const auto& [m, n, k, batch] = shape;
      const double factor = rounded(median(ratios.factors));
      const auto [held, streamed] = ratios.losses.factors();
      fitted.points.push_back({static_cast<double>(m), static_cast<double>(n), static_cast<double>(k),
                               static_cast<double>(batch), factor, held, streamed});
      points.push_back(row({m, n, k, batch, factor}, held, streamed));
    }
    section["shapes"].push_back({{"kind", name(kind)},
                                 {"dtype", name(dtype)},
                                 {"causal", causal},
                                 {"points", points},
                                 {"source", fmt::format("{}: {} shapes", source, shapes.size())},
                                 {"fitted_on", Json::array({kOwnCalibration})}});
    add_residual(out, fmt::format("{}, {}", name(kind), name(dtype)), "the other shapes", errors_without_each(fitted));
    machine.compute.shapes.push_back(std::move(fitted));
  }
}

}  // namespace

Json fit_kernels(const Samples& samples, const std::string& source, MachineProfile& machine, MachineFit& out) {
  Json section = Json::object();
  if (!machine.compute.known) return section;
  fit_families(samples, source, machine, section, out);
  const bool keeps = std::none_of(samples.kernels.begin(), samples.kernels.end(), [](const KernelSample& sample) {
    return sample.math.kind != KernelMath::Kind::bytes;
  });
  if (!keeps) fit_shapes(samples, source, machine, section, out);
  return section;
}

}  // namespace foreshard::sim
