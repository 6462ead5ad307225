// The words under which the enumerations of a workload are kept in files and shown to people.
//
// Used by traces/store, traces/workload_file and viz. Enum values index the tables; a word that was once
// written to a file is never changed. EnumNames is specialised here for the workload's enumerations and in
// core/run/names.hpp for those of a run; Transport's words are those of `--all-gather` (settings_table.hpp).
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "core/workload/workload.hpp"

namespace foreshard {

/// The words of one enumeration, in the order of its values.
template <class E>
struct EnumNames;

/// Whether E's words are in an EnumNames table.
template <class E>
concept NamedEnum = requires {
  EnumNames<E>::kNames.size();
};

/// The word of a value; "?" for a value outside the enumeration.
template <NamedEnum E>
[[nodiscard]] constexpr std::string_view name(E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < EnumNames<E>::kNames.size() ? EnumNames<E>::kNames[index] : std::string_view("?");
}

/// The value of a word; nothing where the enumeration has no such word.
template <NamedEnum E>
[[nodiscard]] constexpr std::optional<E> parse_name(std::string_view text) {
  for (std::size_t i = 0; i < EnumNames<E>::kNames.size(); ++i)
    if (EnumNames<E>::kNames[i] == text) return static_cast<E>(i);
  return std::nullopt;
}

/// For static_assert: the table ends with the enumeration's last value.
template <NamedEnum E>
[[nodiscard]] consteval bool names_end_with(E last) {
  return static_cast<std::size_t>(last) + 1 == EnumNames<E>::kNames.size();
}

template <>
struct EnumNames<MemoryCategory> {
  static constexpr std::array<std::string_view, 14> kNames{"parameters",      "unsharded_parameters",
                                                           "gather_buffers",  "gradients",
                                                           "reduce_buffers",  "sharded_gradients",
                                                           "optimizer_state", "optimizer_temporaries",
                                                           "activations",     "temporaries",
                                                           "inputs",          "workspaces",
                                                           "metadata",        "other"};
};
static_assert(names_end_with(MemoryCategory::other));

template <>
struct EnumNames<Hook> {
  static constexpr std::array<std::string_view, 15> kNames{
      "zero_grad",    "microbatch_begin", "forward_begin",   "pre_forward",    "post_forward",
      "forward_end",  "backward_begin",   "pre_backward",    "post_backward",  "backward_final",
      "backward_end", "microbatch_end",   "optimizer_begin", "optimizer_step", "optimizer_end"};
};
static_assert(names_end_with(Hook::optimizer_end));

template <>
struct EnumNames<AllocationSize::Kind> {
  static constexpr std::array<std::string_view, 3> kNames{"fixed", "local_shard", "padded_shard"};
};
static_assert(names_end_with(AllocationSize::Kind::padded_shard));

template <>
struct EnumNames<OpKind> {
  static constexpr std::array<std::string_view, 6> kNames{"alloc", "free", "kernel", "copy", "hook", "synchronize"};
};
static_assert(names_end_with(OpKind::synchronize));

template <>
struct EnumNames<Section> {
  static constexpr std::array<std::string_view, 6> kNames{"all_gather", "copy_out", "accumulate",
                                                          "reshard",    "reduce",   "optimizer"};
};
static_assert(names_end_with(Section::optimizer));

template <>
struct EnumNames<Pass> {
  static constexpr std::array<std::string_view, 2> kNames{"forward", "backward"};
};
static_assert(names_end_with(Pass::backward));

template <>
struct EnumNames<SectionRole> {
  static constexpr std::array<std::string_view, 13> kNames{
      "cast",          "copy_in",      "collective", "metadata_copy", "split",      "chunk_cat", "cast_back",
      "gradient_cast", "gradient_add", "clone",      "offload_copy",  "all_reduce", "other"};
};
static_assert(names_end_with(SectionRole::other));

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
struct EnumNames<CollectiveKind> {
  static constexpr std::array<std::string_view, 3> kNames{"all_gather", "reduce_scatter", "all_reduce"};
};
static_assert(names_end_with(CollectiveKind::all_reduce));

}  // namespace foreshard
