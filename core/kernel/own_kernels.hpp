// Kernels of foreshard's own that a generated program launches in place of PyTorch's (Kernels::fused).
//
// Who: core/models names its launches by them; sim/predict asks which launches of a program they are, because a machine
// profile prices them from measurements of its own. A label is the kernel's name wherever kernels are named: in
// programs, runs and "/compute/kernels". Pure.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "core/kernel/kernel.hpp"

namespace foreshard {

struct OwnKernel {
  KernelOp op;
  std::string_view label;
};
inline constexpr std::array<OwnKernel, 15> kOwnKernels{{
    {KernelOp::rms_norm, "foreshard::rms_norm"},
    {KernelOp::rms_norm_backward, "foreshard::rms_norm_backward"},
    {KernelOp::rms_norm_backward_weight, "foreshard::rms_norm_backward_weight"},
    {KernelOp::add_rms_norm, "foreshard::add_rms_norm"},
    {KernelOp::add_rms_norm_backward, "foreshard::add_rms_norm_backward"},
    {KernelOp::rope, "foreshard::rope"},
    {KernelOp::rope_backward, "foreshard::rope_backward"},
    {KernelOp::attention, "foreshard::attention"},
    {KernelOp::attention_backward, "foreshard::attention_backward"},
    {KernelOp::swiglu, "foreshard::swiglu"},
    {KernelOp::swiglu_backward, "foreshard::swiglu_backward"},
    {KernelOp::cross_entropy, "foreshard::cross_entropy"},
    {KernelOp::amax, "foreshard::amax"},
    {KernelOp::cast_float8, "foreshard::cast_float8"},
    {KernelOp::transpose_float8, "foreshard::transpose_float8"},
}};

/// Why a plan that launches them is an estimate on a machine where they were not measured.
inline constexpr std::string_view kOwnKernelsEstimate =
    "foreshard's own kernels are priced by their bytes, and issued at PyTorch's host costs";

/// The label of our own kernel for `op`; empty where there is none.
[[nodiscard]] constexpr std::string_view own_label(KernelOp op) {
  for (const OwnKernel& kernel : kOwnKernels)
    if (kernel.op == op) return kernel.label;
  return {};
}

/// Which of our own kernels a launch of this label is; nothing where it is none.
[[nodiscard]] constexpr std::optional<KernelOp> own_kernel(std::string_view label) {
  for (const OwnKernel& kernel : kOwnKernels)
    if (kernel.label == label) return kernel.op;
  return std::nullopt;
}

}  // namespace foreshard
