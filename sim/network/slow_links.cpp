#include "sim/network/slow_links.hpp"

#include <fmt/format.h>

#include "sim/network/fabric.hpp"

namespace foreshard::sim {
namespace {

bool is_used(const UsedNodes& used, std::uint32_t adapter) {
  for (std::uint32_t rail = 0; rail < used.gpus; ++rail)
    if (adapter_of(used.network, used.node_gpus, rail) == adapter) return true;
  return false;
}

}  // namespace

Result<void> check_adapter(const UsedNodes& used, std::uint32_t node, std::uint32_t adapter, const char* option,
                           const char* example) {
  if (used.nodes < 2)
    return fail(ErrorKind::usage, "nothing of a job on one node goes over an adapter", option,
                "a slow NVLink is --slow-link");
  if (node >= used.nodes || adapter >= used.network.nics)
    return fail(ErrorKind::usage,
                fmt::format("there is no adapter {}.{}: nodes 0 to {} have adapters 0 to {}", node, adapter,
                            used.nodes - 1, used.network.nics - 1),
                option, example);
  if (!is_used(used, adapter) && used.network.nics > used.node_gpus)
    return fail(ErrorKind::usage,
                fmt::format("adapter {} is not the first of a GPU of the job: {} GPUs a node have several of {}",
                            adapter, used.gpus, used.network.nics),
                option, "name the first: a GPU is as slow with any of its own");
  if (!is_used(used, adapter))
    return fail(ErrorKind::usage,
                fmt::format("no GPU of the job uses adapter {}: {} GPUs a node keep to the nearest of {}", adapter,
                            used.gpus, used.network.nics),
                option);
  return {};
}

Result<void> check_slow_links(const UsedNodes& used, std::span<const SlowAdapter> adapters,
                              std::span<const SlowLink> links) {
  for (const SlowAdapter& slow : adapters)
    FORESHARD_TRY(check_adapter(used, slow.node, slow.adapter, "--slow-adapter", "as in 1.3=5.8: node 1, adapter 3"));
  for (const SlowLink& slow : links) FORESHARD_TRY(check_rank(slow.rank, used.gpus * used.nodes, "--slow-link"));
  return {};
}

Result<void> check_rank(std::uint32_t rank, std::uint32_t ranks, const char* option) {
  if (rank < ranks) return {};
  return fail(ErrorKind::usage, fmt::format("there is no rank {} in a job of {}", rank, ranks), option,
              fmt::format("ranks are numbered from 0 to {}", ranks - 1));
}

}  // namespace foreshard::sim
