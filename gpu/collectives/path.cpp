#include "gpu/collectives/path.hpp"

#include <fmt/format.h>

#include "gpu/collectives/transfer_plan.hpp"

namespace foreshard::gpu {

PathSelection choose_path(CollectiveKind kind, Transport asked, const PathFacts& facts) {
  if (asked == Transport::nccl) return {Transport::nccl, {}};
  if (!facts.one_host && asked != Transport::nccl_registered)
    return {Transport::nccl, "the group's ranks are on several hosts"};
  if (outside_nccl(asked)) {
    if (asked == Transport::pull_reduce && kind == CollectiveKind::all_gather)
      return {Transport::nccl, "pull-reduce gathers nothing"};
    if (kind == CollectiveKind::all_reduce) return {Transport::nccl, "all-reduces have no own transport"};
    if (!facts.peer_memory) return {Transport::nccl, "the GPUs do not share memory"};
    if (facts.ranks > kMaxPeers) return {Transport::nccl, fmt::format("more than {} ranks", kMaxPeers)};
    if (kind == CollectiveKind::reduce_scatter && !facts.summable)
      return {Transport::nccl, "the own reduction sums float32, bfloat16 and float16 only"};
    // A reduce-scatter stages its input, wherever that lies. PyTorch's low-contention one is not built.
    if (kind == CollectiveKind::reduce_scatter)
      return {Transport::pull_reduce,
              asked == Transport::pull_reduce ? "" : "PyTorch's low-contention reduction is not built here"};
  }
  if (!facts.registered)
    return {Transport::nccl, fmt::format("a buffer is not in memory of the transport {}", name(asked))};
  if (asked == Transport::symmetric && !facts.whole_words)
    return {Transport::nccl, "NCCL's symmetric kernels need slices of whole 4-byte words"};
  if (asked == Transport::copy_engine && kind != CollectiveKind::all_gather)
    return {facts.whole_words ? Transport::symmetric : Transport::nccl, "NCCL's copy engines gather only"};
  return {asked, {}};
}

Transport transport_of(const CallTrace& trace, Transport asked) {
  if (!trace.failed.empty()) return asked;
  for (const std::string& kernel : trace.kernels) {
    if (kernel.find("ncclSym") != std::string::npos) return Transport::symmetric;
    if (kernel.find("ncclDevKernel") != std::string::npos)
      return asked == Transport::nccl_registered ? asked : Transport::nccl;
  }
  return trace.kernels.empty() && trace.copies != 0 && !outside_nccl(asked) ? Transport::copy_engine : asked;
}

std::string text(const CallTrace& trace) {
  if (!trace.failed.empty()) return "not read back: " + trace.failed;
  std::string out;
  for (const std::string& kernel : trace.kernels) out += (out.empty() ? "kernel " : ", ") + kernel;
  if (trace.kernels.empty()) out = "no kernel";
  if (trace.copies != 0) out += fmt::format(", {} copies", trace.copies);
  if (trace.flag_batches != 0) out += fmt::format(", {} flag batches", trace.flag_batches);
  return out;
}

std::string text(const PathReport& r) {
  std::string out = fmt::format("{}: {}", name(r.kind), name(r.ran));
  if (r.ran != r.asked) out += fmt::format(" instead of {}", name(r.asked));
  if (!r.reason.empty()) out += " because " + r.reason;
  return out + fmt::format(" ({}), {} calls", r.seen, r.calls);
}

}  // namespace foreshard::gpu
