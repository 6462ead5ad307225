// Which way a collective went: what was asked for, what was chosen and why (transport_choice.hpp), what was seen to
// run.
//
// Who: communicator.hpp; a run stores the reports. Pure: no CUDA.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/device/collective_names.hpp"

namespace foreshard::gpu {

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
