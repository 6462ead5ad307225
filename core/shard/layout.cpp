#include "core/shard/layout.hpp"

#include <algorithm>

#include "core/base/quantity.hpp"

namespace foreshard {
namespace {

std::uint64_t dim0(const Parameter& parameter) {
  return parameter.shape.empty() ? 1 : static_cast<std::uint64_t>(parameter.shape.front());
}

std::uint64_t rest(const Parameter& parameter) {
  std::uint64_t product = 1;
  for (std::size_t i = 1; i < parameter.shape.size(); ++i) product *= static_cast<std::uint64_t>(parameter.shape[i]);
  return product;
}

}  // namespace

std::uint64_t padded_rows(const Parameter& parameter, ShardGroup group) {
  return ceil_div(dim0(parameter), group.of(parameter).ranks);
}

std::uint64_t padded_shard_numel(const Parameter& parameter, ShardGroup group) {
  return padded_rows(parameter, group) * rest(parameter);
}

std::uint64_t local_shard_numel(const Parameter& parameter, ShardGroup group) {
  const std::uint64_t rows = padded_rows(parameter, group);
  const std::uint64_t begin = std::min(rows * group.of(parameter).rank, dim0(parameter));
  const std::uint64_t end = std::min(begin + rows, dim0(parameter));
  return (end - begin) * rest(parameter);
}

std::uint64_t unsharded_numel(const Parameter& parameter, ShardGroup group) {
  return padded_shard_numel(parameter, group) * group.of(parameter).ranks;
}

}  // namespace foreshard
