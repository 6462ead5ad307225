// A collective of a run as it is priced.
//
// Who: link_loads.cpp, link_fit.cpp. Pure.
#pragma once

#include "core/run/run.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/link_load/run_groups.hpp"

namespace foreshard::sim {

/// Of the group of `group`'s shape that `rank` is in.
[[nodiscard]] inline CollectiveRequest request_of(const Run& run, CollectiveKind kind, Transport transport, Bytes bytes,
                                                  const RunGroup& group, std::uint32_t rank) {
  const Settings& settings = run.settings;
  const DType computed = settings.param_dtype.value_or(DType::float32);
  CollectiveRequest out{kind, transport, bytes, group.options.ranks, group.options.ranks_per_node};
  out.reduction = Reduction::average;
  out.dtype = kind == CollectiveKind::all_gather ? computed : settings.reduce_dtype.value_or(computed);
  out.lowering = run.info.kind == RunKind::executed ? Lowering::foreshard : Lowering::pytorch;
  out.node_stride = group.options.node_stride;
  out.all_nodes = group.options.all_nodes;
  out.first_rank = group.first(rank);
  out.rank_stride = group.rank_stride;
  out.node_ranks = settings.gpus;
  return out;
}

}  // namespace foreshard::sim
