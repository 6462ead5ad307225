// What one run left behind: the one form in which simulated, executed and imported runs are kept,
// compared and drawn. core/step fills it for a plan, traces/pytorch for a PyTorch recording;
// traces/store writes and reads it.
//
// Plain data. Vectors are in the order in which things happened (host order for host-side records,
// issue order for device ops); every result that is derived from them keeps that order.
//
// Clocks. A planned run has one clock, 0 at process start. An import has two, because the snapshot and
// the profiler trace record different steps: allocator events, blocks, annotations and the steps of
// Recording::snapshot are on the first; host ops, device ops and the steps of Recording::trace on the
// second. Each is in nanoseconds from its recording's first entry.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/allocator/allocator_event.hpp"
#include "core/allocator/call_stacks.hpp"
#include "core/allocator/snapshot.hpp"
#include "core/allocator/statistics.hpp"
#include "core/base/labels.hpp"
#include "core/base/quantity.hpp"
#include "core/device/device.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/unit.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

enum class RunKind : std::uint8_t { imported = 0, planned = 1, executed = 2 };
enum class Recording : std::uint8_t { run = 0, snapshot = 1, trace = 2 };

struct InputFile {
  std::string role;  ///< "snapshot", "trace", "about", "source"
  std::string path;
  Bytes bytes = 0;
  std::string digest;  ///< "xxh3:" and 16 hex digits of the file as given
};

struct RunInfo {
  RunKind kind = RunKind::planned;
  std::string name;
  std::string foreshard_version;
  std::string torch;  ///< "2.11.0+cu130"
  std::string nccl;
  std::string gpu;
  std::uint32_t sm_count = 0;
  std::string machine;  ///< name of the machine profile
  std::vector<InputFile> inputs;
  bool valid = true;  ///< false: outside what the model was calibrated on, or a fallback was used
  std::vector<std::string> warnings;
};

struct StreamRecord {
  StreamId id;
  std::string name;
  std::uint64_t handle = 0;  ///< raw handle or profiler stream id; 0 where there is none
  int priority = 0;
};

/// A span of host time: a runtime call, a cpu op, an annotation, or simulated host work.
struct HostOpRecord {
  enum class Kind : std::uint8_t { runtime = 0, cpu_op = 1, annotation = 2, work = 3 };
  Kind kind = Kind::runtime;
  std::uint32_t thread = 0;  ///< 0: the main thread; 1: autograd's; in order of appearance
  LabelId label;
  Nanoseconds start;
  Nanoseconds end;
  std::uint64_t correlation = 0;  ///< links a runtime call to its device op; 0: none
};

struct DeviceOpRecord {
  enum class Kind : std::uint8_t { kernel = 0, copy = 1, memset = 2, collective = 3 };
  Kind kind = Kind::kernel;
  StreamId stream;
  LabelId label;
  Nanoseconds issue;  ///< the host's call; equals start where unknown
  Nanoseconds start;
  Nanoseconds end;
  Bytes bytes = 0;  ///< of copies and collectives
  std::uint64_t correlation = 0;
  UnitId unit;  ///< the FSDP unit it belongs to, where known
  KernelClass kernel_class = KernelClass::memory_bound;
  CollectiveKind collective = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  CommunicatorId communicator;
  std::array<std::uint32_t, 3> grid{};  ///< kernels of a trace; 0 where unknown
  std::array<std::uint32_t, 3> block{};
};

/// cudaEventRecord and cudaStreamWaitEvent, in host order.
struct EventRecord {
  enum class Kind : std::uint8_t { record = 0, wait = 1, host_wait = 2 };
  Kind kind = Kind::record;
  EventId event;
  StreamId stream;   ///< invalid for a host wait
  Nanoseconds time;  ///< host time of the call
};

/// One allocation from malloc to free.
struct BlockRecord {
  Address address = 0;
  Bytes requested = 0;
  Bytes size = 0;  ///< what allocated_bytes counts; 0 where not known (import without replay)
  StreamId stream;
  PoolId pool = kDefaultPool;
  MemoryCategory category = MemoryCategory::other;
  UnitId unit;
  ParameterId parameter;
  LabelId label;           ///< what allocated it: the innermost range of a recording, the op of a plan
  std::int32_t step = -1;  ///< step of its allocation; −1: before the first
  LabelId op = {};         ///< PyTorch's operator, "aten::mm"; of a recording without stacks "near" a kernel
  LabelId module = {};     ///< the module whose forward or backward made it; the text of the root's is empty
  StackId stack = {};      ///< where it was allocated, as recorded
};

/// One change of the allocator's state, with the block it concerns.
struct AllocatorRecord {
  AllocatorAction action = AllocatorAction::alloc;
  Address address = 0;
  Bytes size = 0;
  StreamId stream;
  Nanoseconds time;
  BlockId block;  ///< of alloc and free_*; invalid for segments and for blocks never seen allocated
  StackId stack = {};
};

struct StepRecord {
  Recording recording = Recording::run;
  std::int32_t index = 0;
  Nanoseconds start;  ///< host time
  Nanoseconds end;
  std::optional<Nanoseconds> device_end;  ///< end of the last op on the compute stream
  MemoryPeaks peaks;                      ///< peaks reset at `start`
  Bytes reserved_current = 0;
  std::int64_t num_alloc_retries = 0;
};

struct PhaseRecord {
  std::int32_t step = 0;
  Recording recording = Recording::run;
  std::string name;  ///< "forward", "backward", "optimizer", "zero_grad"
  Nanoseconds start;
  Nanoseconds end;
};

struct AnnotationRecord {
  LabelId label;
  Nanoseconds start;
  Nanoseconds end;
};

/// Odd but usable input: counted, never dropped silently.
struct ImportStat {
  enum class Severity : std::uint8_t { info = 0, data_loss = 1, error = 2 };
  std::string name;
  Severity severity = Severity::info;
  std::uint64_t count = 0;
  std::string text;  ///< one sentence for the user
};

/// A rank whose profiler trace is part of an import of several ranks.
struct RankRecord {
  std::uint32_t rank = 0;
  Nanoseconds clock_offset;  ///< added to its times, beyond what its trace says of their origin
  Nanoseconds clock_error;   ///< the offset is wrong by no more than this (traces/import/clock_alignment.hpp)
};

/// A device op of one of the `ranks`, on the clock of the first.
struct RankOpRecord {
  std::uint32_t rank = 0;
  std::int32_t step = -1;      ///< of the trace's complete steps, by its issue; −1: of none
  LabelId phase;               ///< "forward", …, by its issue; invalid: between phases
  std::int32_t sequence = -1;  ///< of a collective: its place among its communicator's of the step, equal on every
                               ///< rank; −1: none
  DeviceOpRecord op;           ///< stream 0 is the rank's compute stream; communicators are numbered over all ranks
};

struct Run {
  RunInfo info;
  Settings settings;
  std::optional<Measured> measured;
  std::vector<Unit> units;
  Labels labels;
  CallStacks stacks;
  std::vector<StreamRecord> streams;
  std::vector<HostOpRecord> host_ops;
  std::vector<DeviceOpRecord> device_ops;
  std::vector<EventRecord> events;
  std::vector<BlockRecord> blocks;
  std::vector<AllocatorRecord> allocator;
  std::vector<SnapshotSegment> segments;  ///< the final state, by address
  std::vector<StepRecord> steps;
  std::vector<PhaseRecord> phases;
  std::vector<AnnotationRecord> annotations;
  std::vector<RankRecord> ranks;       ///< of an import of several: by rank; the first is that of all other records
  std::vector<RankOpRecord> rank_ops;  ///< of all `ranks`, the first's device_ops again; by rank, then by issue
  std::vector<ImportStat> import_stats;
  std::map<std::string, std::string> results;  ///< plan's answers by JSON key, each as JSON text
  std::string workload_json;                   ///< the workload this run came from (docs/workload.md); empty: none
};

}  // namespace foreshard
