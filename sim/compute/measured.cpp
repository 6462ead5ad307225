#include "sim/compute/measured.hpp"

#include <algorithm>
#include <cmath>

namespace foreshard::sim::compute {
namespace {

/// A shape that was measured itself is as near as this, in octaves²: the next one is as a rule an octave away.
constexpr double kNearest = 1e-4;

double square(double value) {
  return value * value;
}

const KernelFamily* family_of(const ComputeSpec& spec, std::string_view label, const KernelMath& math) {
  const KernelFamily* near = nullptr;
  for (const KernelFamily& family : spec.families) {
    if (family.label != label || family.access != math.access) continue;
    if (family.dtype == math.dtype) return &family;
    if (near == nullptr && itemsize(family.dtype) == itemsize(math.dtype)) near = &family;
  }
  return near;
}

double microseconds(const std::vector<KernelFamily::Point>& points, double bytes, double launch) {
  const auto above = std::find_if(points.begin(), points.end(),
                                  [&](const KernelFamily::Point& point) { return point.bytes >= bytes; });
  if (above == points.begin()) {
    const double least = std::min(launch, above->us);
    return least + (above->us - least) * bytes / above->bytes;
  }
  if (above == points.end()) return points.back().us * bytes / points.back().bytes;
  const auto below = above - 1;
  const double part = std::log(bytes / below->bytes) / std::log(above->bytes / below->bytes);
  return below->us * std::pow(above->us / below->us, part);
}

/// Gives each measured shape of the same kind and dtype, and its weight.
template <class Take>
void for_each_shape(const ComputeSpec& spec, const KernelMath& math, const Take& take) {
  for (const ShapeFactors& shapes : spec.shapes) {
    if (shapes.kind != math.kind || shapes.dtype != math.dtype || shapes.causal != math.causal) continue;
    for (const ShapeFactors::Point& point : shapes.points) {
      const auto octaves = [](double a, std::uint64_t b) {
        return std::log2(a / static_cast<double>(std::max<std::uint64_t>(1, b)));
      };
      const double distance = square(octaves(point.m, math.m)) + square(octaves(point.n, math.n)) +
                              square(octaves(point.k, math.k)) + square(octaves(point.batch, math.batch));
      take(point, 1 / (kNearest + distance));
    }
  }
}

/// The mean of the logarithms of those that were measured; 0 where none was.
class MeanFactor {
 public:
  void add(double factor, double weight) {
    if (factor <= 0) return;
    weights_ += weight;
    sum_ += weight * std::log(factor);
  }
  [[nodiscard]] double value() const { return weights_ > 0 ? std::exp(sum_ / weights_) : 0; }

 private:
  double weights_ = 0;
  double sum_ = 0;
};

}  // namespace

std::optional<double> family_time(const ComputeSpec& spec, std::string_view label, const KernelWork& work) {
  if (spec.families.empty() || label.empty() || work.bytes == 0) return std::nullopt;
  const KernelFamily* family = family_of(spec, label, work.math);
  if (family == nullptr) return std::nullopt;
  const AccessSpec& access = spec.memory[static_cast<std::size_t>(family->access)];
  return microseconds(family->points, static_cast<double>(work.bytes), access.launch_us) * 1e-6;
}

bool measured(const ComputeSpec& spec, std::string_view label, const KernelWork& work) {
  if (work.math.kind == KernelMath::Kind::bytes) return family_time(spec, label, work).has_value();
  bool found = false;
  for_each_shape(spec, work.math, [&](const ShapeFactors::Point&, double) { found = true; });
  return found;
}

double shape_factor(const ComputeSpec& spec, const KernelMath& math) {
  double weights = 1 / square(spec.rules.far_octaves);
  double sum = 0;
  for_each_shape(spec, math, [&](const ShapeFactors::Point& point, double weight) {
    weights += weight;
    sum += weight * std::log(point.factor);
  });
  return std::exp(sum / weights);
}

HeldFactors held_factors(const ComputeSpec& spec, std::string_view label, const KernelWork& work) {
  if (work.math.kind == KernelMath::Kind::bytes) {
    const KernelFamily* family = label.empty() ? nullptr : family_of(spec, label, work.math);
    if (family == nullptr || work.bytes == 0) return {};
    const auto distance = [&](const KernelFamily::Point& point) {
      return std::abs(std::log(point.bytes / static_cast<double>(work.bytes)));
    };
    const auto nearest = std::min_element(family->points.begin(), family->points.end(),
                                          [&](const auto& a, const auto& b) { return distance(a) < distance(b); });
    return {nearest->held, nearest->streamed};
  }
  if (work.math.ragged != RaggedExtent::none) return {};  // shapes are cuBLAS's, grouped products CUTLASS's
  MeanFactor held;
  MeanFactor streamed;
  for_each_shape(spec, work.math, [&](const ShapeFactors::Point& point, double weight) {
    held.add(point.held, weight);
    streamed.add(point.streamed, weight);
  });
  return {held.value(), streamed.value()};
}

}  // namespace foreshard::sim::compute
