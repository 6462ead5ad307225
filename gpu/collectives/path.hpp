// Which way a collective goes: what was asked for, what can serve it and why not, and what was seen to run.
//
// Who: communicator.hpp; a run stores the reports. Pure: no CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/device/transport_traits.hpp"

namespace foreshard::gpu {

/// What decides which transport serves a call. The same on all ranks of the group.
struct PathFacts {
  std::uint32_t ranks = 1;
  bool one_host = true;     ///< all ranks of the group are on one host
  bool peer_memory = true;  ///< … and its GPUs share memory (SymmetricHeap could be made)
  bool registered = true;   ///< the buffers that this transport wants registered or symmetric are
  bool whole_words = true;  ///< a rank's slice is a multiple of 4 bytes
  bool summable = true;     ///< the own reduction knows the dtype
};

struct PathSelection {
  Transport transport = Transport::nccl;
  std::string reason;  ///< why not the one asked for; empty: it is
};

/// Rules: NCCL 2.28.9 has no copy-engine reduce-scatter or all-reduce (ce_coll.cc), and windows, copy engines and peer
/// memory end at the host; all-reduces have no own transport. NCCL 2.28.9's symmetric kernels return wrong elements for
/// slices of 4 n + 2 bytes (bfloat16 and float16 of odd counts; ours, 4 × H200, NVLink multicast off), so those go the
/// plain way.
[[nodiscard]] PathSelection choose_path(CollectiveKind kind, Transport asked, const PathFacts& facts);

/// What one call put on the device, read off a capture of it.
struct CallTrace {
  std::vector<std::string> kernels;  ///< names
  std::uint32_t copies = 0;
  std::uint32_t flag_batches = 0;  ///< stream memory operations, by call
  std::string failed;              ///< why nothing could be read; empty: it could
};

/// The transport that leaves such a trace. NCCL 2.28.9's symmetric kernels are named ncclSymkDevKernel_…, its others
/// ncclDevKernel_…; copy engines leave copies and no kernel. Nothing: the trace says nothing (`asked` is returned).
[[nodiscard]] Transport transport_of(const CallTrace& trace, Transport asked);

/// One line of a run's account of its collectives.
struct PathReport {
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport asked = Transport::nccl;
  Transport ran = Transport::nccl;
  std::string reason;  ///< why not the one asked for
  std::string seen;    ///< how it is known: "kernel ncclDevKernel_…", "3 copies, no kernel", "own: staged"
  std::uint64_t calls = 0;
};

/// "all_gather: copy_engine (3 copies, no kernel), 128 calls"
[[nodiscard]] std::string text(const PathReport& report);
/// CallTrace in a few words.
[[nodiscard]] std::string text(const CallTrace& trace);

}  // namespace foreshard::gpu
