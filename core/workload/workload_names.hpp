// The words under which the enumerations of a workload are kept in files and shown to people.
//
// Used by traces/store, traces/workload_file and viz. Enum values index the tables; a word that was once
// written to a file is never changed. EnumNames is specialised here for the workload's enumerations and in
// core/run/run_names.hpp for those of a run; Transport's words are those of `--all-gather` (settings_table.hpp).
#pragma once

#include <array>
#include <string_view>

#include "core/base/enum_names.hpp"
#include "core/device/collective_names.hpp"
#include "core/kernel/kernel_enum_names.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

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
  static constexpr std::array<std::string_view, 16> kNames{
      "zero_grad",       "microbatch_begin", "forward_begin", "pre_forward",    "post_forward", "forward_end",
      "backward_begin",  "pre_backward",     "post_backward", "backward_final", "backward_end", "microbatch_end",
      "optimizer_begin", "optimizer_step",   "optimizer_end", "outputs_cast"};
};
static_assert(names_end_with(Hook::outputs_cast));

template <>
struct EnumNames<AllocationSize::Kind> {
  static constexpr std::array<std::string_view, 3> kNames{"fixed", "local_shard", "padded_shard"};
};
static_assert(names_end_with(AllocationSize::Kind::padded_shard));

template <>
struct EnumNames<OpKind> {
  static constexpr std::array<std::string_view, 8> kNames{"alloc", "free",        "kernel",     "copy",
                                                          "hook",  "synchronize", "collective", "wait_stream"};
};
static_assert(names_end_with(OpKind::wait_stream));

template <>
struct EnumNames<Lowering> {
  static constexpr std::array<std::string_view, 2> kNames{"pytorch", "foreshard"};
};
static_assert(names_end_with(Lowering::foreshard));

template <>
struct EnumNames<Section> {
  static constexpr std::array<std::string_view, 8> kNames{"all_gather", "copy_out",  "accumulate", "reshard",
                                                          "reduce",     "optimizer", "zero_grad",  "float8_scales"};
};
static_assert(names_end_with(Section::float8_scales));

template <>
struct EnumNames<Pass> {
  static constexpr std::array<std::string_view, 2> kNames{"forward", "backward"};
};
static_assert(names_end_with(Pass::backward));

template <>
struct EnumNames<SectionRole> {
  static constexpr std::array<std::string_view, 16> kNames{
      "cast",         "copy_in", "collective",   "metadata_copy", "split", "chunk_cat", "cast_back", "gradient_cast",
      "gradient_add", "clone",   "offload_copy", "all_reduce",    "other", "amax",      "cat",       "copy_reduced"};
};
static_assert(names_end_with(SectionRole::copy_reduced));

}  // namespace foreshard
