#include "core/settings/version_rules.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

#include "core/base/check.hpp"
#include "core/settings/pytorch_version.hpp"

namespace foreshard {
namespace {

constexpr VersionRule allocator(RuleId id, std::string_view name, int since, RuleEffect moves, RulePlanned planned,
                                std::string_view what, std::string_view before, std::string_view source) {
  return {id, name, RuleArea::allocator, since, moves, planned, what, before, source};
}
constexpr VersionRule fsdp(RuleId id, std::string_view name, int since, RuleEffect moves, RulePlanned planned,
                           std::string_view what, std::string_view before, std::string_view source) {
  return {id, name, RuleArea::fsdp2, since, moves, planned, what, before, source};
}
constexpr VersionRule library(RuleId id, std::string_view name, int since, std::string_view what,
                              std::string_view before, std::string_view source) {
  return {id, name, RuleArea::libraries, since, RuleEffect::bytes, RulePlanned::yes, what, before, source};
}
constexpr VersionRule by_setting(VersionRule rule, std::string_view key) {
  rule.planned = RulePlanned::setting;
  rule.setting = key;
  return rule;
}
constexpr VersionRule unsettled(VersionRule rule, std::string_view what, int maybe_since = 0) {
  rule.unsettled = what;
  rule.maybe_since = maybe_since;
  return rule;
}

using Moves = RuleEffect;
using Planned = RulePlanned;
using Id = RuleId;
constexpr int kMain = kMainMinor;

// Paths are in PyTorch's repository; _fully_shard/ is torch/distributed/fsdp/_fully_shard/.
constexpr std::array<VersionRule, kVersionRules> kRules{
    unsettled(allocator(Id::expandable_private_pools, "expandable-private-pools", 5, Moves::bytes, Planned::yes,
                        "Private pools without a custom allocator use expandable segments.",
                        "Private pools never use expandable segments.", "c10/cuda/CUDACachingAllocator.cpp"),
              "absent from 2.4, present in 2.11; the release between them was not read", 5),
    unsettled(allocator(Id::split_by_request, "split-by-request", 5, Moves::bytes, Planned::yes,
                        "A block is split as expandable if this request may grow an expandable segment.",
                        "A block is split as expandable wherever the option is on.",
                        "c10/cuda/CUDACachingAllocator.cpp, should_split"),
              "absent from 2.4, present in 2.11; the release between them was not read", 5),
    unsettled(allocator(Id::use_on_oom, "use-on-oom", 5, Moves::bytes, Planned::yes,
                        "Pools flagged use_on_oom are searched before cached memory is released.",
                        "No pool serves the requests of another.", "c10/cuda/CUDACachingAllocator.cpp"),
              "absent from 2.4, present in 2.11; the release between them was not read", 5),
    allocator(Id::shared_parser, "shared-parser", 10, Moves::nothing, Planned::yes,
              "PYTORCH_ALLOC_CONF, large_segment_size_mb, max_non_split_rounding_mb, per_process_memory_fraction.",
              "PYTORCH_CUDA_ALLOC_CONF alone, without these keys.", "c10/core/AllocatorConfig.h"),
    allocator(Id::preemptive_oom, "preemptive-oom", 12, Moves::bytes, Planned::yes,
              "throw_on_cudamalloc_oom: what exceeds the memory fraction fails before anything is released.",
              "The key is unknown; caches are released first.", "pytorch#179473; release notes of 2.12"),
    unsettled(allocator(Id::custom_pool_ties, "custom-pool-ties", 13, Moves::nothing, Planned::not_met,
                        "Pools of a custom allocator (NCCL's) order free blocks of one size by creation.",
                        "They order them by address.", "pytorch#178362, #182929, #183489"),
              "#178362 may be in 2.12, for every pool; a plan of 2.12 orders by address", 12),
    unsettled(
        allocator(Id::ties_by_creation, "ties-by-creation", 13, Moves::bytes, Planned::yes,
                  "Of free blocks of one size the one whose segment was made first is taken; splits inherit "
                  "the segment's rank; within a segment by address.",
                  "Of free blocks of one size the one with the lowest address is taken.",
                  "pytorch#183591 (2026-05-13), BlockComparatorSizeCounterAddress"),
        "that 2.13 has it is inferred from its date: no release notes that were read name it. A snapshot does not "
        "say in which order the segments older than it were made: by address"),
    allocator(Id::capture_alone_suspends, "capture-alone-suspends", 13, Moves::bytes, Planned::yes,
              "Only a graph capture suspends event polling and the release of caches.",
              "So does every allocation that use_mem_pool routes to a pool.", "c10/cuda/CUDACachingAllocator.cpp"),
    allocator(Id::symmetric_pool_registration, "symmetric-pool-registration", 14, Moves::time, Planned::no,
              "A segment that a symmetric pool gets after register_mem_pool stays outside the window until the pool "
              "is registered again.",
              "It is registered as it is made.", "pytorch#192112"),
    allocator(Id::reserve_by_stream, "reserve-by-stream", kMain, Moves::nothing, Planned::not_met,
              "The address range that an expandable segment reserves can be set by stream.",
              "It is 9/8 of the GPU's memory.", "pytorch#192269"),

    fsdp(Id::root_reshards, "root-reshards", 8, Moves::both, Planned::yes,
         "fully_shard(root, reshard_after_forward=True) is honoured.", "The root keeps its parameters after forward.",
         "pytorch#154704, #155319"),
    unsettled(by_setting(fsdp(Id::groups_per_mesh, "groups-per-mesh", 12, Moves::both, Planned::setting,
                              "shard_placement_fn may give parameters meshes of their own: one group each in a unit, "
                              "gathered in order, reduced in reverse; ranges end in [pg=N].",
                              "One group a unit: experts are a unit inside their block's.",
                              "pytorch#173509; _fully_shard/_fsdp_param_group.py, _fsdp_state.py"),
                         "expert_parallel"),
              "no recording has groups over different numbers of ranks"),
    fsdp(Id::reduce_inputs_listed, "reduce-inputs-listed", 12, Moves::both, Planned::yes,
         "A group waits for and frees the reduce-scatter inputs before it even where it has no gradients itself, in "
         "FSDP::post_backward_rs_wait.",
         "Only a group that reduces frees the input before it.", "pytorch#177319, FSDPParamGroup.post_backward"),
    unsettled(
        fsdp(Id::symmetric_memory_call, "symmetric-memory-call", 12, Moves::nothing, Planned::yes,
             "FSDPModule.set_symm_mem_for_comm() moves FSDP2's collectives to symmetric memory.",
             "The same needs a custom all-gather.", "pytorch#176613"),
        "that 2.12 has it is inferred from its number: no release notes that were read name it, and a program that "
        "calls it (UniRL#467) asks for 2.13"),
    by_setting(fsdp(Id::reduce_input_cap, "reduce-input-cap", 13, Moves::both, Planned::setting,
                    "set_reduce_scatter_max_input_buffers(K): up to K inputs stay in flight; the oldest is waited for "
                    "and freed before the next. The largest K of the root's tree counts.",
                    "One input stays in flight.", "pytorch#186000"),
               "reduce_scatter_max_input_buffers"),
    by_setting(fsdp(Id::separate_reduce_group, "separate-reduce-group", 13, Moves::time, Planned::setting,
                    "set_separate_reduce_scatter_group(True): reduce-scatters have a communicator of their own.",
                    "They share the all-gathers'.", "pytorch#186335"),
               "separate_reduce_scatter_group"),
    fsdp(Id::one_wait_a_stream, "one-wait-a-stream", 13, Moves::time, Planned::yes,
         "The end of backward waits once for each stream that reduced, on the last event there.",
         "It waits once for each group, and under HSDP once more for its all-reduce.", "pytorch#183983"),
    fsdp(Id::partial_units_completed, "partial-units-completed", 13, Moves::both, Planned::not_met,
         "The root's post-forward reshards a list unit of which only some modules ran forward, and backward gathers it "
         "again.",
         "It keeps its parameters from forward to its post-backward.",
         "pytorch#180428, FSDPState._force_complete_incomplete_states"),
    fsdp(Id::partial_group_wait, "partial-group-wait", 13, Moves::time, Planned::not_met,
         "Where only some modules of a list unit ran forward, the compute stream waits for each reduction at once.",
         "It does not.", "pytorch#180428"),
    unsettled(
        fsdp(Id::unused_gradients, "unused-gradients", 13, Moves::bytes, Planned::no,
             "set_reduce_scatter_unused_params(True): zeros are made for parameters without a gradient, and "
             "reduced (opt-in).",
             "Parameters without a gradient are left out.", "documentation of 2.13; _fully_shard/_fsdp_param_group.py"),
        "2.12 may have it already; its documentation was not read", 12),
    fsdp(Id::recompute_casts_inputs, "recompute-casts-inputs", 13, Moves::both, Planned::no,
         "Recomputation that goes through a unit's hooks (a checkpoint around it) casts its forward inputs as forward "
         "did. The usual checkpoint lies inside the unit, where nothing changes.",
         "It takes them as they come.", "pytorch#182580"),
    fsdp(Id::offload_hooks_block, "offload-hooks-block", 13, Moves::time, Planned::not_met,
         "Under CPU offload, gradients with post-accumulate hooks are copied with the host waiting.",
         "They are copied without it.", "pytorch#180666"),
    fsdp(Id::symmetric_reduce_sums, "symmetric-reduce-sums", 13, Moves::nothing, Planned::yes,
         "Reduce-scatters in symmetric memory need set_force_sum_reduction_for_comms(True) and K = 1.",
         "There is no K.", "_fully_shard/_fsdp_param_group.py"),
    fsdp(Id::gather_freed_first, "gather-freed-first", kMain, Moves::bytes, Planned::yes,
         "Forward frees the previous all-gather's block before it copies the next one out: two unsharded copies at "
         "once and the new one's block.",
         "The block lives until the next copy-out is done: three copies at once.",
         "_fully_shard/_fsdp_param_group.py, release_all_gather_state_for_comm_reuse (953e270b)"),
    unsettled(
        fsdp(Id::partial_forward_released, "partial-forward-released", kMain, Moves::both, Planned::yes,
             "The end of backward frees the all-gather's block that a forward behind the root's left: that of experts "
             "in a checkpointed block, which run forward again in backward, or of a part of a list unit.",
             "The block stays until the next forward.",
             "pytorch#196460; FSDPCommContext.release_all_gather_state_on_current_stream (953e270b)"),
        "at which place of the root's post-backward callback was not read: a plan has it at the end"),
    unsettled(
        fsdp(Id::gradients_freed_first, "gradients-freed-first", kMain, Moves::bytes, Planned::yes,
             "All gradients of a group are freed before the reduce-scatter's output is allocated.",
             "The last one lives until the reduction is issued.",
             "_fully_shard/_fsdp_collectives.py, _default_reduce_scatter_input_fn (953e270b)"),
        "behind #183983, which is in 2.13, the loop was still in foreach_reduce (c079255a); when it moved was not "
        "read: that 2.14 does as before is inferred",
        14),
    fsdp(Id::all_gather_layouts, "all-gather-layouts", kMain, Moves::both, Planned::no,
         "set_all_gather_layout: gathers into buffers that parameters are views of (experimental, opt-in).",
         "Gathers are copied out.", "pytorch#188276, #186601; _fully_shard/_all_gather_layout.py"),
    fsdp(Id::hook_keeps_reduced, "hook-keeps-reduced", kMain, Moves::bytes, Planned::not_met,
         "An all-reduce hook keeps the reduce-scatter's output to the end of backward, as HSDP with a cast does.",
         "Only HSDP with a cast does.", "_fully_shard/_fsdp_param_group.py, AllReduceState (953e270b)"),

    unsettled(library(Id::cublas_blackwell, "cublas-workspace-blackwell", 12,
                      "cuBLAS workspaces are 32 MiB on compute capability 10 and 12, as on 9.",
                      "They are 8.1 MiB there.", "pytorch#175344, CublasHandlePool.cpp"),
              "its revert, #182669, was closed in favour of #183923, which was not read; a recording keeps the "
              "workspaces that it has"),
    library(Id::cublas_thor, "cublas-workspace-thor", 14, "cuBLAS workspaces are 32 MiB on compute capability 11.",
            "They are 8.1 MiB there.", "pytorch#189312"),
};

constexpr bool in_order() {
  for (std::size_t i = 0; i < kRules.size(); ++i)
    if (kRules[i].id != static_cast<RuleId>(i)) return false;
  return true;
}
static_assert(in_order(), "a rule's place is its id");

/// Whether the text names the rule behind a "~".
bool left_out(std::string_view name, std::string_view pytorch) {
  for (std::size_t at = pytorch.find('~'); at != std::string_view::npos; at = pytorch.find('~')) {
    pytorch.remove_prefix(at + 1);
    if (pytorch.substr(0, pytorch.find('~')) == name) return true;
  }
  return false;
}

int minor_of(std::string_view pytorch) {
  const auto minor = pytorch_minor(pytorch);
  return minor ? *minor : pytorch_minor(kCheckedPyTorch).value_or(0);
}

}  // namespace

std::span<const VersionRule> version_rules() {
  return kRules;
}

const VersionRule& version_rule(RuleId id) {
  const auto place = static_cast<std::size_t>(id);
  FORESHARD_CHECK(place < kRules.size(), "every rule is in the table");
  return kRules[place];
}

const VersionRule* find_rule(std::string_view name) {
  for (const VersionRule& rule : kRules)
    if (rule.name == name) return &rule;
  return nullptr;
}

std::string without_rule(std::string_view pytorch, const VersionRule& rule) {
  return std::string(pytorch).append("~").append(rule.name);
}

bool holds(RuleId id, std::string_view pytorch) {
  const VersionRule& rule = version_rule(id);
  return minor_of(pytorch) >= rule.since && !left_out(rule.name, pytorch);
}

std::vector<const VersionRule*> differing_rules(std::string_view pytorch, std::string_view other) {
  std::vector<const VersionRule*> out;
  for (const VersionRule& rule : kRules)
    if (holds(rule.id, pytorch) != holds(rule.id, other)) out.push_back(&rule);
  return out;
}

std::vector<const VersionRule*> unsettled_rules(std::string_view pytorch) {
  std::vector<const VersionRule*> out;
  for (const VersionRule& rule : kRules)
    if (rule.maybe_since > 0 && minor_of(pytorch) >= rule.maybe_since && minor_of(pytorch) < rule.since)
      out.push_back(&rule);
  return out;
}

bool fsdp_rules_recorded(std::string_view pytorch) {
  constexpr std::array<int, 3> kRecorded{11, 13, kMain};
  return std::find(kRecorded.begin(), kRecorded.end(), minor_of(pytorch)) != kRecorded.end();
}

}  // namespace foreshard
