#include "sim/collectives/fallback.hpp"

namespace foreshard::sim {
namespace {

/// src/symmetric_sched.cc: bus bytes below 64 GiB.
constexpr double kSymmetricMost = 64.0 * static_cast<double>(kGiB);

bool needs_peers(Transport transport) {
  return transport == Transport::symmetric || transport == Transport::copy_engine ||
         transport == Transport::low_contention || transport == Transport::pull_reduce;
}

std::string why_not_across_nodes(const CollectiveRequest& request) {
  const bool gathers = request.kind == CollectiveKind::all_gather;
  if (request.transport == Transport::copy_engine && gathers)
    return "a copy-engine all-gather does not cross nodes (NCCL 2.28)";
  if (request.transport == Transport::low_contention)
    return "low-contention copies reach only GPUs of the same node (pytorch#130583)";
  if (request.transport == Transport::pull_reduce) return "pull-reduce reads only GPUs of the same node";
  return "symmetric kernels do not cross nodes (NCCL 2.28)";
}

}  // namespace

Route route(const CollectiveRequest& request, const Group& group) {
  if (!needs_peers(request.transport)) return {request.transport, {}};
  if (request.kind == CollectiveKind::all_reduce)
    return {Transport::nccl, "FSDP2 all-reduces ordinary buffers, which are in no symmetric window"};
  if (!group.one_node()) return {Transport::nccl, why_not_across_nodes(request)};
  if (request.transport == Transport::low_contention) return {Transport::low_contention, {}};
  if (request.transport == Transport::pull_reduce) {
    if (request.kind == CollectiveKind::all_gather) return {Transport::nccl, "pull-reduce gathers nothing"};
    return {Transport::pull_reduce, {}};
  }
  if (group.wire() >= kSymmetricMost) return {Transport::nccl, "symmetric windows stop at 64 GiB (NCCL 2.28)"};
  if (request.kind == CollectiveKind::all_gather) return {request.transport, {}};
  if (!request.sum)
    return {Transport::nccl,
            "NCCL's symmetric kernels support ncclSum only, and this reduction averages "
            "(set_force_sum_reduction_for_comms)"};
  if (request.transport == Transport::copy_engine)
    return {Transport::symmetric, "NCCL has no copy-engine reduce-scatter, copy engines cannot add"};
  return {Transport::symmetric, {}};
}

}  // namespace foreshard::sim
