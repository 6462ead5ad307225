// Reads a profiler trace: Kineto's Chrome JSON as torch.profiler's export_chrome_trace() writes it (plain, .gz or
// .xz), streaming, so that memory grows with what is kept and not with the file (docs/formats.md).
//
// Who: cli's import; traces/capture/timing.hpp reads the Run. Thread safety: free functions, none needed.
// Determinism: the same file gives the same Run; records that start together keep the file's order.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/run/run.hpp"
#include "traces/pytorch/byte_source.hpp"

namespace foreshard::traces {

struct TraceOptions {
  bool keep_cpu_ops = false;            ///< also PyTorch's operators as host ops; they are counted either way
  std::optional<std::uint32_t> device;  ///< none: the device with the most GPU work
};

/// A row of `deviceProperties`.
struct TraceDevice {
  std::uint32_t id = 0;
  std::string name;
  Bytes memory = 0;
  std::uint32_t sm_count = 0;
};

/// A process group that collectives named, by CommunicatorId in the order of the file.
struct TraceCommunicator {
  std::string name;         ///< "0", or a hash for a mesh's group
  std::string description;  ///< "default_pg", "mesh_shard"
  std::string ranks;        ///< "[0, 1, 2, 3]" as written; PyTorch cuts long lists
  std::uint64_t size = 0;
};

/// What collectives of one kind, group and size say of their elements.
struct TraceCollective {
  CollectiveKind kind = CollectiveKind::all_gather;
  CommunicatorId communicator;  ///< invalid where the group is not named
  std::optional<DType> dtype;   ///< none where it is not said, or none of core/base/dtype.hpp
  Bytes bytes = 0;              ///< as DeviceOpRecord::bytes
  auto operator<=>(const TraceCollective&) const = default;
};

struct ProfilerTrace {
  /// host_ops: runtime and driver calls (INVALID ones too), annotations, cpu ops if asked for, by start.
  ///   Thread 0 is the process's main thread, then threads with annotations (autograd's) and the others, each by
  ///   first appearance; `threads` has their system ids.
  /// device_ops: kernels, copies, memsets and collectives of one device, by issue. A copy that belongs to a
  ///   record_param_comms op is a collective by copy engines; a collective's bytes are those of the whole buffer.
  /// streams: the one with the most kernels first (the compute stream, StreamId 0), then by first appearance.
  /// events: records and waits, where the profiler recorded synchronisation (cuda_sync).
  /// Times are relative to the first host or device op kept, which is `origin_ns` on the profiler's clock.
  Run run;
  std::int64_t origin_ns = 0;  ///< nanoseconds since 1970 where the trace says its base time, as it does
  std::uint32_t device = 0;
  std::optional<std::uint32_t> rank;  ///< of distributedInfo
  std::optional<std::uint32_t> world_size;
  std::vector<TraceDevice> devices;
  std::vector<TraceCommunicator> communicators;
  std::vector<TraceCollective> collectives;  ///< each once, in order of their fields
  std::vector<std::int64_t> threads;
  std::map<std::string, std::uint64_t> events_by_category;  ///< of the file; unknown ones under "other"
};

/// Fails with ErrorKind::input where the file is unreadable, cut short, foreign, or holds no GPU work.
[[nodiscard]] Result<ProfilerTrace> read_profiler_trace(const std::string& path, const TraceOptions& options = {});
[[nodiscard]] Result<ProfilerTrace> read_profiler_trace(ByteSource& source, const TraceOptions& options = {});

}  // namespace foreshard::traces
