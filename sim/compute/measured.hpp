// Looks up a kernel that is to be priced in a machine profile's measurements of single kernels.
// Used by price_kernel() and, to make the factors, by sim/calibrate. Pure.
#pragma once

#include <optional>
#include <string_view>

#include "sim/machine/profile.hpp"

namespace foreshard::sim::compute {

/// Seconds of a kernel of Kind::bytes from the family of its label, access and dtype; where the label was measured
/// with the same access and another dtype of the same size, from that. Nothing where no family is its.
[[nodiscard]] std::optional<double> family_time(const ComputeSpec& spec, std::string_view label,
                                                const KernelWork& work);

/// Whether a kernel's price rests on a measurement: a kernel of bytes has its family, GEMMs and attention some shape
/// of their kind and dtype.
[[nodiscard]] bool measured(const ComputeSpec& spec, std::string_view label, const KernelWork& work);

/// Measured over modelled time of a GEMM or attention of this shape: the mean of the measured shapes' logarithms,
/// weighed by 1 / distance², distance in octaves of each extent. One point of factor 1, /compute/rules/far_octaves
/// away, stands for the model, so that shapes far from all that was measured keep its price. 1 where nothing was
/// measured.
[[nodiscard]] double shape_factor(const ComputeSpec& spec, const KernelMath& math);

/// Time of a kernel while ContentionSpec::held_sms are held, over its isolated time. 0: not measured.
struct HeldFactors {
  double held = 0;      ///< by CTAs that do nothing
  double streamed = 0;  ///< by CTAs that stream memory
};

/// Of a kernel of bytes those of the nearest size of its family, of others the measured shapes' means as above, without
/// the model's point.
[[nodiscard]] HeldFactors held_factors(const ComputeSpec& spec, std::string_view label, const KernelWork& work);

}  // namespace foreshard::sim::compute
