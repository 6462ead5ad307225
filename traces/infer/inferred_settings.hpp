// Settings of a recorded run, one rule each. Inner part of infer.cpp: every function sets fields of
// Inference::settings and adds the items that say so.
//
// Pure, deterministic, thread-safe.
#pragma once

#include <string>
#include <string_view>

#include "traces/infer/element_sizes.hpp"
#include "traces/infer/inference.hpp"

namespace foreshard::traces {

/// gpus, nodes and replicate, from the shard group, an all-reduce of gradient shards, and the trace's world size.
void infer_world(const InferInput& input, const ElementTypes& types, Inference& out);
/// param_dtype and reduce_dtype.
void infer_dtypes(const ElementTypes& types, Inference& out);
/// reshard_after_forward, reshard_of_unit, root_reshard_explicit.
void infer_reshard(Inference& out);
void infer_units_per_group(Inference& out);
/// forward_prefetch, backward_prefetch, prefetch_lists.
void infer_prefetch(const InferInput& input, Inference& out);
/// unshard_async, release, reduce_scatter_release, all_gather, reduce_scatter.
void infer_buffers(const InferInput& input, Inference& out);
/// separate_reduce_scatter_group, where the trace names another process group for reduce-scatters.
void infer_reduce_scatter_group(const InferInput& input, Inference& out);
/// accumulate, accumulate_with_sync. Trouble where no step is complete.
void infer_steps(const InferInput& input, Inference& out);
/// Of the GPU: the trace's, else the count under which the recorded copy-out metadata has its sizes.
void infer_sm_count(const InferInput& input, std::span<const std::uint32_t> known, const ElementTypes& types,
                    Inference& out);

/// A setting's value as JSON, by its key; empty: no such setting.
[[nodiscard]] std::string value_of(const Settings& settings, std::string_view key);

}  // namespace foreshard::traces
