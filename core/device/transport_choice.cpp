#include "core/device/transport_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "core/device/collective_names.hpp"

namespace foreshard {
namespace {

/// src/symmetric_sched.cc: bus bytes below 64 GiB. Copy engines have no such limit (src/ce_coll.cc).
constexpr double kSymmetricMost = 64.0 * static_cast<double>(kGiB);

/// Who carries out a transport that has no algorithm of its own for a kind of collective.
struct Substitute {
  CollectiveKind kind;
  Transport asked;
  Transport runs;
  std::string_view why;
  std::optional<Lowering> lowering = std::nullopt;  ///< none: in either
};

constexpr std::array kSubstitutes{
    // NCCL 2.28.9 src/ce_coll.cc: all-gather, all-to-all, scatter, gather.
    Substitute{CollectiveKind::reduce_scatter, Transport::copy_engine, Transport::symmetric,
               "NCCL has no copy-engine reduce-scatter, copy engines cannot add"},
    Substitute{CollectiveKind::all_reduce, Transport::copy_engine, Transport::symmetric,
               "NCCL has no copy-engine all-reduce, copy engines cannot add"},
    // pytorch#130583: _low_contention_all_gather and _low_contention_reduce_scatter. Of the two gpu/collectives has the
    // all-gather, by pushes (docs/gpu_collectives.md), and runs its pull_reduce by either name.
    Substitute{CollectiveKind::all_reduce, Transport::low_contention, Transport::nccl,
               "there is no low-contention all-reduce"},
    Substitute{CollectiveKind::reduce_scatter, Transport::low_contention, Transport::pull_reduce,
               "PyTorch's low-contention reduction is not built here", Lowering::foreshard},
    // gpu/collectives/reduce_kernel.hpp.
    Substitute{CollectiveKind::all_gather, Transport::pull_reduce, Transport::nccl, "pull-reduce gathers nothing"},
    Substitute{CollectiveKind::all_reduce, Transport::pull_reduce, Transport::nccl,
               "pull-reduce only scatters its sums"},
};

const Substitute* substitute_of(CollectiveKind kind, Transport asked, Lowering lowering) {
  const auto* found = std::find_if(kSubstitutes.begin(), kSubstitutes.end(), [&](const Substitute& one) {
    return one.kind == kind && one.asked == asked && one.lowering.value_or(lowering) == lowering;
  });
  return found == kSubstitutes.end() ? nullptr : found;
}

/// Windows, copy engines and peer memory end at the host.
std::string_view why_not_across_hosts(Transport transport) {
  switch (transport) {
    case Transport::symmetric:
      return "symmetric kernels do not cross nodes (NCCL 2.28)";
    case Transport::copy_engine:
      return "a copy-engine all-gather does not cross nodes (NCCL 2.28)";
    case Transport::low_contention:
      return "low-contention copies reach only GPUs of the same node (pytorch#130583)";
    case Transport::pull_reduce:
      return "pull-reduce reads only GPUs of the same node";
    case Transport::nccl:
    case Transport::nccl_registered:
      break;
  }
  return {};
}

std::string why_not_symmetric(const CollectiveWork& work, const TransportFacts& facts) {
  if (bus_bytes(work.kind, static_cast<double>(work.bytes), facts.ranks) >= kSymmetricMost)
    return "symmetric windows stop at 64 GiB (NCCL 2.28)";
  // NCCL takes such slices and returns wrong elements of them (2.28.9, bfloat16 and float16 of odd counts: 4 x H200,
  // NVLink multicast off; docs/gpu_collectives.md). PyTorch does not know; foreshard goes the plain way.
  const Bytes slice = work.kind == CollectiveKind::all_reduce ? work.bytes : work.bytes / facts.ranks;
  if (facts.lowering == Lowering::foreshard && slice % 4 != 0)
    return "NCCL's symmetric kernels need slices of whole 4-byte words";
  if (work.kind == CollectiveKind::all_gather) return {};
  // src/sym_kernels.cc: ncclSum, and no integers or float64.
  if (work.reduction != Reduction::sum)
    return "NCCL's symmetric kernels support ncclSum only, and this reduction averages "
           "(set_force_sum_reduction_for_comms)";
  if (!reducible(work.dtype)) return fmt::format("NCCL's symmetric kernels do not add {}", name(work.dtype));
  return {};
}

std::string why_not_outside_nccl(const CollectiveWork& work, Transport transport, const TransportFacts& facts) {
  if (!facts.peer_memory) return "the GPUs do not share memory";
  // PyTorch's pair serves as many ranks as a symmetric allocation has.
  const bool of_foreshard = transport == Transport::pull_reduce || facts.lowering == Lowering::foreshard;
  if (of_foreshard && facts.ranks > kMaxLowContentionRanks)
    return fmt::format("more than {} ranks", kMaxLowContentionRanks);
  if (transport != Transport::pull_reduce) return {};
  if (!reducible(work.dtype) || !reducible(work.output_dtype.value_or(work.dtype)))
    return "pull-reduce sums float32, bfloat16 and float16 only";
  return {};
}

/// Empty where `transport` can serve the call.
std::string why_not(const CollectiveWork& work, Transport transport, const TransportFacts& facts) {
  if (transport == Transport::nccl) return {};
  if (!facts.one_host && memory_of(transport) == MemoryKind::symmetric)
    return std::string(why_not_across_hosts(transport));
  if (outside_nccl(transport))
    if (std::string why = why_not_outside_nccl(work, transport, facts); !why.empty()) return why;
  // pull_reduce stages an input that lies elsewhere.
  if (!facts.registered && transport != Transport::pull_reduce) {
    if (work.kind == CollectiveKind::all_reduce)
      return "FSDP2 all-reduces ordinary buffers, which are in no symmetric window";
    return fmt::format("a buffer is not in memory of the transport {}", name(work.transport));
  }
  return transport == Transport::symmetric ? why_not_symmetric(work, facts) : std::string();
}

}  // namespace

TransportChoice choose_transport(const CollectiveWork& work, const TransportFacts& facts) {
  if (!of_fsdp(work.kind) && work.transport != Transport::nccl)
    return {Transport::nccl, fmt::format("{} is plain NCCL's alone here", dashed_name(work.kind))};
  const Substitute* other = substitute_of(work.kind, work.transport, facts.lowering);
  const Transport runs = other == nullptr ? work.transport : other->runs;
  if (std::string why = why_not(work, runs, facts); !why.empty()) return {Transport::nccl, std::move(why)};
  return {runs, other == nullptr ? std::string() : std::string(other->why)};
}

Transport algorithm_of(CollectiveKind kind, Transport asked, Lowering lowering) {
  if (!of_fsdp(kind)) return Transport::nccl;
  const Substitute* other = substitute_of(kind, asked, lowering);
  return other == nullptr ? asked : other->runs;
}

}  // namespace foreshard
