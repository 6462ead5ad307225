#include "core/shard/layout.hpp"

#include <algorithm>

#include "core/base/quantity.hpp"

namespace foreshard {
namespace {

std::uint64_t rest(const Parameter& parameter, ShardGroup group) {
  const std::uint32_t cut = shard_dim(parameter, group);
  std::uint64_t product = 1;
  for (std::size_t i = 0; i < parameter.shape.size(); ++i)
    if (i != cut) product *= static_cast<std::uint64_t>(parameter.shape[i]);
  return product;
}

}  // namespace

std::uint32_t shard_dim(const Parameter& parameter, ShardGroup group) {
  const bool splits_experts = parameter.expert_parallel && parameter.shard_dim == 0 && parameter.shape.size() > 1 &&
                              parameter.shape.front() < group.of(parameter).ranks;
  return splits_experts ? 1 : parameter.shard_dim;
}

std::uint64_t sharded_size(const Parameter& parameter, ShardGroup group) {
  return parameter.shape.empty() ? 1 : static_cast<std::uint64_t>(parameter.shape[shard_dim(parameter, group)]);
}

std::uint64_t padded_rows(const Parameter& parameter, ShardGroup group) {
  return ceil_div(sharded_size(parameter, group), group.of(parameter).ranks);
}

std::uint64_t padded_shard_numel(const Parameter& parameter, ShardGroup group) {
  return padded_rows(parameter, group) * rest(parameter, group);
}

std::uint64_t local_shard_numel(const Parameter& parameter, ShardGroup group) {
  const std::uint64_t rows = padded_rows(parameter, group);
  const std::uint64_t size = sharded_size(parameter, group);
  const std::uint64_t begin = std::min(rows * group.of(parameter).rank, size);
  const std::uint64_t end = std::min(begin + rows, size);
  return (end - begin) * rest(parameter, group);
}

std::uint64_t unsharded_numel(const Parameter& parameter, ShardGroup group) {
  return padded_shard_numel(parameter, group) * group.of(parameter).ranks;
}

}  // namespace foreshard
