// Reads a PyTorch memory snapshot: a pickle of torch.cuda.memory._snapshot() (protocol 2 to 5, plain, .gz or
// .xz), or the same structure as JSON. Written by torch.cuda.memory._dump_snapshot() or by PyTorch's C++
// torch::cuda::_memory_snapshot_pickled; fields as in docs/formats.md.
//
// Who: cli's import and replay. Thread safety: none needed, free function. Deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/run/run.hpp"
#include "traces/pytorch/byte_source.hpp"

namespace foreshard::traces {

struct SnapshotOptions {
  std::optional<std::uint32_t> device;  ///< none: the one device that recorded something
  Bytes limit = 16 * kGiB;              ///< of the unpacked file
};

struct SnapshotFile {
  Snapshot snapshot;
  int pickle_protocol = 0;             ///< 0 for JSON
  bool has_frames = false;             ///< at least one entry carries a stack (recorded with stacks=…)
  std::vector<std::uint32_t> devices;  ///< those with entries or segments, the chosen one included
  std::vector<ImportStat> stats;       ///< what was odd, in a fixed order; nothing with a count of 0
};

/// Fails with ErrorKind::input where the file is unreadable, cut short, holds objects or is something else than
/// a snapshot, and with ErrorKind::usage where a device must be chosen or the chosen one has nothing.
[[nodiscard]] Result<SnapshotFile> read_snapshot(const std::string& path, const SnapshotOptions& options = {});
/// The same from an open source.
[[nodiscard]] Result<SnapshotFile> read_snapshot(ByteSource& source, const SnapshotOptions& options = {});

}  // namespace foreshard::traces
