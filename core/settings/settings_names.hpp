// The names of the settings' enumerations, as options, JSON and stores spell them.
#pragma once

#include "core/base/enum_names.hpp"
#include "core/device/collective_names.hpp"
#include "core/settings/settings.hpp"

namespace foreshard {

template <>
struct EnumNames<Release> {
  static constexpr std::array<std::string_view, 3> kNames{"auto", "stash", "record-stream"};
};
static_assert(names_end_with(Release::record_stream));

template <>
struct EnumNames<GatherAlloc> {
  static constexpr std::array<std::string_view, 2> kNames{"copy-in", "compute"};
};
static_assert(names_end_with(GatherAlloc::compute));

template <>
struct EnumNames<AllGatherLayout> {
  static constexpr std::array<std::string_view, 2> kNames{"rank-major", "parameter-contiguous"};
};
static_assert(names_end_with(AllGatherLayout::parameter_contiguous));

template <>
struct EnumNames<AllGatherInput> {
  static constexpr std::array<std::string_view, 2> kNames{"copy-in", "optimizer"};
};
static_assert(names_end_with(AllGatherInput::optimizer));

template <>
struct EnumNames<ReduceScatterInput> {
  static constexpr std::array<std::string_view, 2> kNames{"chunk-cat", "gradients"};
};
static_assert(names_end_with(ReduceScatterInput::gradients));

template <>
struct EnumNames<Checkpoint> {
  static constexpr std::array<std::string_view, 4> kNames{"none", "blocks", "selective-op", "selective-layer"};
};
static_assert(names_end_with(Checkpoint::selective_layer));

template <>
struct EnumNames<Kernels> {
  static constexpr std::array<std::string_view, 2> kNames{"eager", "fused"};
};
static_assert(names_end_with(Kernels::fused));

template <>
struct EnumNames<Float8> {
  static constexpr std::array<std::string_view, 2> kNames{"none", "tensorwise"};
};
static_assert(names_end_with(Float8::tensorwise));

template <>
struct EnumNames<OptimizerOverlap> {
  static constexpr std::array<std::string_view, 3> kNames{"none", "backward", "forward"};
};
static_assert(names_end_with(OptimizerOverlap::forward));

template <>
struct EnumNames<Optimizer> {
  static constexpr std::array<std::string_view, 4> kNames{"adam", "adam-fused", "adam-single", "sgd"};
};
static_assert(names_end_with(Optimizer::sgd));

}  // namespace foreshard
