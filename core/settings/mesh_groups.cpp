#include "core/settings/mesh_groups.hpp"

#include <algorithm>

namespace foreshard {

CommunicatorOptions shard_group(const Settings& settings) {
  const std::uint32_t ranks = settings.shard_ranks();
  return {"shard",
          ranks,
          std::min(ranks, outer_ranks_per_node(settings)),
          {},
          node_stride(settings, settings.tensor_parallel),
          settings.nodes};
}

CommunicatorOptions expert_shard_group(const Settings& settings) {
  const std::uint32_t ranks = settings.shard_ranks() / settings.expert_parallel;
  return {"expert shard",
          ranks,
          std::min(ranks, std::max(1U, outer_ranks_per_node(settings) / settings.expert_parallel)),
          {},
          node_stride(settings, settings.expert_parallel * settings.tensor_parallel),
          settings.nodes};
}

CommunicatorOptions replicate_group(const Settings& settings) {
  const std::uint32_t ranks = settings.shard_ranks();
  return {"replicate",
          settings.replicate,
          std::min(settings.replicate, std::max(1U, outer_ranks_per_node(settings) / ranks)),
          {},
          node_stride(settings, ranks * settings.tensor_parallel),
          settings.nodes};
}

CommunicatorOptions post_forward_group(const Settings& settings, std::uint32_t ranks) {
  return {"post-forward",
          ranks,
          std::min(ranks, outer_ranks_per_node(settings)),
          {},
          node_stride(settings, settings.tensor_parallel),
          settings.nodes};
}

std::uint32_t node_stride(const Settings& settings, std::uint32_t rank_stride) {
  return std::max(1U, rank_stride / settings.gpus);
}

std::uint32_t outer_ranks_per_node(const Settings& settings) {
  return std::max(1U, settings.gpus / settings.tensor_parallel);
}

}  // namespace foreshard
