// The names in files of what describes a kernel.
#pragma once

#include "core/base/enum_names.hpp"
#include "core/kernel/kernel_work.hpp"

namespace foreshard {

template <>
struct EnumNames<KernelClass> {
  static constexpr std::array<std::string_view, 7> kNames{
      "gemm", "gemm_single_wave", "gemm_streaming", "attention", "memory_bound", "gather_copy", "memset"};
};
static_assert(names_end_with(KernelClass::memset));

template <>
struct EnumNames<CopyKind> {
  static constexpr std::array<std::string_view, 4> kNames{"host_to_device", "device_to_host", "device_to_device",
                                                          "peer_to_peer"};
};
static_assert(names_end_with(CopyKind::peer_to_peer));

template <>
struct EnumNames<KernelMath::Kind> {
  static constexpr std::array<std::string_view, 4> kNames{"bytes", "gemm", "attention_forward", "attention_backward"};
};
static_assert(names_end_with(KernelMath::Kind::attention_backward));

template <>
struct EnumNames<MemoryAccess> {
  static constexpr std::array<std::string_view, 9> kNames{"contiguous", "strided", "concatenate",  "row",  "column",
                                                          "gather",     "scatter", "multi_tensor", "mixed"};
};
static_assert(names_end_with(MemoryAccess::mixed));

template <>
struct EnumNames<RaggedExtent> {
  static constexpr std::array<std::string_view, 3> kNames{"none", "m", "k"};
};
static_assert(names_end_with(RaggedExtent::k));

}  // namespace foreshard
