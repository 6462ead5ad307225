// Why a run's memory is what it is: every reserved byte accounted for at every allocator event, what holds it, and
// which behaviour of PyTorch is the cause.
//
// Who: cli's explain, the page (viz), the store's `gap` table. Pure: a Run in, plain data out; deterministic. Cost:
// about 2 µs an allocator event. docs/explain.md defines every part for users.
//
// What is known of a run (caching allocator 1.2, 5.1, 9.2): segments, blocks, who asked, when a block was freed and
// when it came back. What is not recorded is which stream a pending block waits for: it follows from what the block
// is for (a gather buffer is used by the all-gather, a reduce-scatter input by the reduce-scatter: c10d's
// record_stream of PyTorch 2.7 and before, ProcessGroupNCCL::collective), and is said to be so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// Where each reserved byte is, at one moment; the parts are disjoint and leave no remainder.
///
///     requested + rounding                                    = allocated   (live blocks)
///     allocated + pending_free                                = active
///     active + hard + soft + stream + private_pool            = reserved
///
/// `requested` is of live blocks alone; torch's requested_bytes counts pending ones, too.
struct MemoryParts {
  Bytes requested = 0;     ///< what the program asked for, of live blocks
  Bytes rounding = 0;      ///< inside live blocks: up to 512 bytes, roundup_power2_divisions, leftovers not split off
  Bytes pending_free = 0;  ///< blocks that the program has freed and that wait for a stream's event (record_stream)
  Bytes hard = 0;          ///< free, but its segment (expandable: its page) holds a block in use
  Bytes soft = 0;          ///< segments (expandable: pages) wholly free, of the stream that asks; they cannot merge
  Bytes stream = 0;        ///< the same, of other streams: the stream that asks may not use them
  Bytes private_pool = 0;  ///< free in private pools (symmetric memory, MemPool): no other pool may use it

  [[nodiscard]] Bytes allocated() const { return requested + rounding; }
  [[nodiscard]] Bytes active() const { return allocated() + pending_free; }
  [[nodiscard]] Bytes gap() const { return pending_free + hard + soft + stream + private_pool; }
  [[nodiscard]] Bytes reserved() const { return allocated() + gap(); }
  bool operator==(const MemoryParts&) const = default;
};

/// The parts after one allocator event. The stream that asks is that of the last segment_alloc or segment_map.
struct GapPoint {
  std::size_t event = 0;  ///< index in Run::allocator
  Nanoseconds time;       ///< of the allocator's clock
  MemoryParts parts;
};

/// Bytes in use of one kind. `Key` is MemoryCategory, UnitId (invalid: no unit), or std::int32_t step.
template <class Key>
struct Share {
  Key key{};
  Bytes live = 0;
  Bytes pending = 0;         ///< freed, not back yet
  std::uint64_t blocks = 0;  ///< live and pending
  std::uint64_t units = 0;   ///< distinct FSDP units among them
};

/// One stream's, or one pool's, part of reserved memory.
struct Holding {
  std::string name;  ///< of the stream ("compute", "all-gather copy-in"), or of the pool ("default", "private 1")
  StreamId stream;   ///< invalid: a pool
  PoolId pool = kDefaultPool;
  Bytes live = 0;
  Bytes pending = 0;
  Bytes free = 0;
  std::uint64_t segments = 0;
  [[nodiscard]] Bytes reserved() const { return live + pending + free; }
};

/// One block in use, and if it is pending, what it waits for.
struct HeldBlock {
  BlockId block;  ///< invalid: older than the recording
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;
  std::optional<MemoryCategory> category;  ///< none: older than the recording
  UnitId unit;
  StreamId stream;
  StackId stack;                      ///< of its allocation, where recorded
  std::int32_t step = -1;             ///< of its allocation
  std::optional<Nanoseconds> made;    ///< none: older than the recording
  std::optional<Nanoseconds> freed;   ///< the program's free; none: not freed in this recording
  std::optional<Nanoseconds> back;    ///< when the allocator had it again: the first malloc after the GPU passed it
  StreamId waits_for;                 ///< pending: the stream whose event it waits for; invalid: not known by number
  std::string waits_for_name;         ///< "all-gather"; empty: not known
  std::string behind;                 ///< "all-gather of layers.1": the last op there when it was freed; may be empty
  std::optional<Nanoseconds> op_end;  ///< when that op ended, where the run has one clock
};

/// Everything about one moment.
struct Moment {
  GapPoint at;
  std::int32_t step = -1;                                        ///< −1: before the first
  std::string phase;                                             ///< "forward", …; empty between phases
  std::vector<Share<std::optional<MemoryCategory>>> categories;  ///< largest first; none: older than the recording
  std::vector<Share<UnitId>> units;                              ///< largest first
  std::vector<Share<std::int32_t>> steps;                        ///< by the step of allocation; −1: before the first
  std::vector<Holding> streams;                                  ///< by stream
  std::vector<Holding> pools;                                    ///< by pool
  std::vector<HeldBlock> pending;                                ///< all pending blocks, the longest held first
  std::vector<HeldBlock> largest;  ///< at most ExplainRequest::largest blocks in use, largest first
  Bytes largest_free = 0;          ///< the largest free block of any stream, default pool
};

enum class CauseKind : std::uint8_t {
  record_stream = 0,       ///< freed blocks wait for another stream's event
  stream_pools = 1,        ///< idle segments of one stream that another stream asks past
  reduce_input_held = 2,   ///< more reduce-scatter inputs alive than FSDP2 keeps (one until the next unit's)
  first_step_spike = 3,    ///< memory that only the first step, or what came before it, ever used
  hard_fragmentation = 4,  ///< free space between blocks in use
  soft_fragmentation = 5,  ///< whole free segments that are too small, or in another pool
  private_pool_idle = 6,   ///< free memory of private pools
};

/// One accusation with its evidence. Each has a threshold (causes.hpp).
struct Cause {
  CauseKind kind = CauseKind::record_stream;
  std::string text;  ///< one sentence in PyTorch's words
  Bytes bytes = 0;
  std::uint64_t blocks = 0;                         ///< blocks, or segments, that hold them
  MemoryCategory category = MemoryCategory::other;  ///< of most of them
  StreamId stream;                                  ///< that owns them
  StreamId waits_for;                               ///< whose event they wait for
  std::string advice;                               ///< what changes it, in general; the remedies are simulated apart
  std::optional<HeldBlock> example;                 ///< the largest
  std::optional<Nanoseconds> held_mean, held_longest;  /// of pending blocks: from free to back
};

/// A request that found no memory: a trace entry `oom`, or the end of a plan.
struct FailedRequest {
  std::size_t event = 0;  ///< index in Run::allocator of the last event before, or of the entry
  Nanoseconds time;
  std::int32_t step = -1;
  Bytes size = 0;     ///< rounded to the block it needs
  Bytes segment = 0;  ///< what was asked of the driver (caching allocator 2.3)
  StreamId stream;
  bool small_pool = false;
  std::optional<Bytes> device_free;  ///< the driver's free bytes then, where recorded
  MemoryParts parts;
  Bytes free_here = 0;                ///< free in the default pool of that size class on that stream
  Bytes largest_here = 0;             ///< its largest block
  Bytes free_elsewhere = 0;           ///< free on other streams
  std::vector<std::string> why;       ///< why nothing fitted, each a sentence with its numbers
  std::vector<std::string> remedies;  ///< what would have made it fit, each a sentence with its numbers
};

/// One step, or phase: the most that each part came to in it, and the parts at its peak of reserved memory.
struct PeriodParts {
  std::int32_t step = -1;
  std::string phase;  ///< empty: the whole step
  Nanoseconds start;
  Nanoseconds end;
  MemoryPeaks peaks;  ///< torch's four statistics
  Bytes pending_free_peak = 0;
  GapPoint peak;  ///< as Explanation::reserved_peak, within the period
};

inline constexpr std::size_t kMaxFailures = 16;

struct ExplainRequest {
  std::optional<std::int32_t> step = {};  ///< none: the last step, of steps that differ the largest
  bool whole_run = false;                 ///< all of it, whatever the steps
  std::optional<Nanoseconds> at = {};     ///< also explain this moment; after the step's begin (whole run: its begin)
  std::size_t largest = 10;               ///< blocks to name at each moment
};

struct Explanation {
  // What was looked at.
  std::optional<std::int32_t> step;  ///< none: the whole run
  std::size_t first_event = 0;       ///< of Run::allocator; the state before it counts as the first moment
  std::size_t end_event = 0;         ///< one past the last
  Nanoseconds start;
  std::uint64_t odd_events = 0;  ///< of the whole run: entries that contradict the state; they were passed over

  MemoryPeaks peaks;  ///< torch's statistics in what was looked at
  Bytes pending_free_peak = 0;
  Bytes gap_peak = 0;  ///< most of reserved − allocated

  /// Reserved memory at its peak: of the moments with that much, the one with the most active bytes, the first of them.
  Moment reserved_peak;
  Moment allocated_peak;        ///< the first with the most allocated bytes
  Moment pending_peak;          ///< the first with the most pending bytes; equal to reserved_peak without any
  std::optional<Moment> asked;  ///< ExplainRequest::at

  std::vector<GapPoint> series;         ///< one an event, from first_event − 1 (the state before) on
  MemoryPeaks before_steps;             ///< of what was recorded before the first step; of everything without steps
  std::vector<PeriodParts> steps;       ///< all steps of the allocator's recording; empty: it has none
  std::vector<PeriodParts> phases;      ///< of what was looked at
  std::vector<Cause> causes;            ///< most bytes first
  std::vector<FailedRequest> failures;  ///< the first kMaxFailures of the whole run
};

/// Fails (usage) where the run holds no memory record or not the step that is asked for, and (input) where
/// its events contradict its final segments so that there is no state to begin with.
[[nodiscard]] Result<Explanation> explain(const Run& run, const ExplainRequest& request);

/// Its reserved_peak alone, in half the time. Fails as explain(), but looks at no ExplainRequest::at.
[[nodiscard]] Result<Moment> explain_reserved_peak(const Run& run, const ExplainRequest& request);

/// The parts after each event of the whole run, in order, and nothing else: what the store's `gap` table keeps.
[[nodiscard]] Result<std::vector<MemoryParts>> gap_series(const Run& run);

/// At most `points` of `series`: of each of `points` equal stretches of events, the one with the most reserved bytes,
/// then active ones. All of them where there are no more.
[[nodiscard]] std::vector<GapPoint> downsample(const std::vector<GapPoint>& series, std::size_t points);

/// Words of a CauseKind, as in --json.
[[nodiscard]] std::string_view name(CauseKind kind);

}  // namespace foreshard
