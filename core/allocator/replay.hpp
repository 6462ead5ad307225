// Replays a recorded memory snapshot through the caching allocator: verify() holds every decision against
// the recording, what_if() asks what other options would have needed (caching allocator 10.1, 10.2).
//
// Who: cli's replay and import (true block sizes), traces/capture, the reference tests. Pure functions, no
// state. Deterministic. Cost: about 1 µs an entry.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/allocator/caching_allocator.hpp"
#include "core/allocator/snapshot.hpp"
#include "core/base/error.hpp"
#include "core/device/device_memory.hpp"
#include "core/settings/pytorch_version.hpp"

namespace foreshard {

/// What a snapshot does not say of a private pool (6.4).
struct ReplayPool {
  std::pair<std::uint64_t, std::uint64_t> pool_id{0, 0};
  PoolOptions options;
};

struct ReplayOptions {
  std::optional<AllocatorConfig> config;  ///< none: what the snapshot's settings say
  std::string pytorch{kCheckedPyTorch};   ///< the rules, where `config` is not given
  std::optional<double> memory_fraction;  ///< set_per_process_memory_fraction; none: found from the recording
  Bytes total_memory = 0;                 ///< of the device; needed with `memory_fraction` < 1
  std::vector<ReplayPool> pools;          ///< flags of private pools; those not named have none
  std::vector<std::size_t> step_starts;   ///< ascending indices into Snapshot::events; peaks are reset there
  std::optional<Bytes> what_if_limit;     ///< of what_if(): a memory limit; none: the config's fraction
  bool releases_are_retries = false;      ///< a release that nothing known forced was a malloc's retry, not empty_cache
};

/// No requested size: stale values of blocks that were free when recording began.
inline constexpr Bytes kUnknownRequestedSize = std::numeric_limits<Bytes>::max();

/// Limits of reserved memory, in bytes.
struct MemoryLimitRange {
  Bytes least = 0;
  Bytes below = 0;
};

struct ReplayReport {
  std::uint64_t events = 0;      ///< entries compared
  std::uint64_t mismatches = 0;  ///< entries, and segments and blocks of the final state, that differ
  std::string first_mismatch;    ///< where and what; empty without one
  AllocatorStatistics statistics;
  MemoryPeaks peaks;                       ///< since the last step start, or of the whole replay
  std::vector<AllocatorStatistics> steps;  ///< at the end of each step; its peaks are since the step's start
  std::vector<Bytes> block_size_of_alloc;  ///< what allocated_bytes counts, of the k-th alloc entry; 0: it failed
  std::vector<std::size_t> empty_caches;   ///< event indices at which empty_cache must have been called
  std::uint64_t unexplained_releases = 0;  ///< ambiguous ones, decided by `releases_are_retries`
  /// The limits that explain what the recording released, retried and refused, or the one that the options give: that
  /// of set_per_process_memory_fraction, or the driver's memory. None: nothing was refused for all that is known.
  std::optional<MemoryLimitRange> limit;
  bool limit_contradicts = false;                 ///< no limit explains all: it changed; `limit` is the last
  std::uint64_t ignored_events = 0;               ///< snapshot entries and unknown actions
  std::uint64_t adopted_segments = 0;             ///< there before recording began
  std::uint64_t adopted_blocks = 0;               ///< live or pending then
  std::uint64_t unknown_requested_sizes = 0;      ///< final blocks whose stale requested size cannot be known
  std::vector<SnapshotSegment> initial_segments;  ///< what was there before the first entry, by address
};

/// Fails where the snapshot contradicts itself (ErrorKind::input), its settings cannot be read, or a
/// fraction is given without the device's memory (ErrorKind::usage). Differences are not failures.
[[nodiscard]] Result<ReplayReport> verify(const Snapshot& snapshot, const ReplayOptions& options);

/// ReplayReport::initial_segments without the replay: what was there before the first entry, by address, with its
/// blocks. Fails where the snapshot contradicts itself.
[[nodiscard]] Result<std::vector<SnapshotSegment>> initial_segments(const Snapshot& snapshot,
                                                                    const AllocatorConfig& config);

/// An estimate: the program is taken to ask for the same blocks in the same order, and a block that was
/// used on another stream to complete after as many later mallocs as in the recording.
struct WhatIfReport {
  AllocatorStatistics statistics;
  MemoryPeaks peaks;
  std::vector<AllocatorStatistics> steps;
  std::uint64_t allocs = 0;
  std::uint64_t failed_allocs = 0;  ///< out of memory; their frees are left out
  std::optional<OutOfMemory> first_failure;
  std::size_t first_failure_event = 0;  ///< its index in Snapshot::events
};

/// `config` and `memory` are the what-if; of `options` only pools, pytorch, step_starts and what_if_limit count.
/// `empty_caches` are event indices at which the program calls empty_cache (ReplayReport has them).
[[nodiscard]] Result<WhatIfReport> what_if(const Snapshot& snapshot, const ReplayOptions& options,
                                           const AllocatorConfig& config, DeviceMemory& memory,
                                           const std::vector<std::size_t>& empty_caches);

/// The configuration that a snapshot's settings describe.
[[nodiscard]] Result<AllocatorConfig> recorded_config(const SnapshotSettings& settings, std::string_view pytorch);

/// For each START of the named annotation, the first event that is not earlier (10.2): step_starts of a
/// training run are those of "## zero grad ##".
[[nodiscard]] std::vector<std::size_t> annotation_starts(const Snapshot& snapshot, std::string_view name);

}  // namespace foreshard
