// Why a step is not as fast as its kernels: every moment in which the compute stream does not compute, with its cause.
//
// Who: cli's `explain --time`, the page. Pure: a Run in, plain data out; deterministic; linear in the run but for
// sorting. Planned, executed and imported runs alike. docs/explain.md, "Where the time goes", has every rule for users.
//
// A step is the time on the compute stream that `plan` and `compare` report (core/run/steady_step.hpp). Its compute is
// the union of ops there that are no collectives. What is left are gaps; each is cut into parts by walking back from
// the op that ended it to what that op waited for, to what that waited for, until the gap's begin. Each part has one
// cause, and the parts add up to step − compute to the nanosecond.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/enum_names.hpp"
#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// Why the compute stream does not compute. "It" is the collective (IdlePart::op) that the next compute op waits for,
/// with its copy-in and its casts; the causes from `first_gather` on say why it was not done earlier. Stored in JSON.
enum class IdleCause : std::uint8_t {
  issuing = 0,              ///< the host had not issued the next op yet: it was at work
  allocator = 1,            ///< the same, while the caching allocator held it up (cudaMalloc, cudaFree and their waits)
  synchronize = 2,          ///< the same, while it waited for the GPU (cudaStreamSynchronize, .item(), …)
  launch = 3,               ///< on its way: latency of launches, events and the communicator's turn-around
  kernel_gap = 4,           ///< between two ops of the compute stream, with the second issued in time
  first_gather = 5,         ///< the first gathers of the forward: nothing can run before them
  last_reduction = 6,       ///< the step's last reductions: the optimizer needs them, and no backward is left
  prefetch = 7,             ///< it was issued late: at the hook that the prefetch rule gives
  previous_collective = 8,  ///< it was behind another collective of its communicator, or of its stream
  buffer = 9,               ///< it waited for an earlier gather's copy-out, whose buffer it follows
  gradients = 10,           ///< it waited for the gradients that it reduces
  dependency = 11,          ///< it waited for another op of the compute stream
  contention = 12,          ///< it was slowed down by kernels beside it
  late_rank = 13,           ///< it waited for another rank, which had not begun it
  copies = 14,              ///< not a collective: copies and kernels of other streams
};
template <>
struct EnumNames<IdleCause> {
  static constexpr std::array<std::string_view, 15> kNames{
      "issuing",  "allocator",           "synchronize", "launch",    "kernel_gap", "first_gather", "last_reduction",
      "prefetch", "previous_collective", "buffer",      "gradients", "dependency", "contention",   "late_rank",
      "copies"};
};
static_assert(names_end_with(IdleCause::copies));

/// Whether the cause is communication that the compute stream waits for, rather than the host, launches or copies.
[[nodiscard]] constexpr bool is_communication(IdleCause cause) {
  return cause >= IdleCause::first_gather && cause <= IdleCause::late_rank;
}
/// Whether the host is the cause: it was late.
[[nodiscard]] constexpr bool is_host(IdleCause cause) {
  return cause <= IdleCause::synchronize;
}

inline constexpr std::size_t kNoDeviceOp = static_cast<std::size_t>(-1);

/// One interval with one cause.
struct IdlePart {
  Nanoseconds start;
  Nanoseconds end;
  IdleCause cause = IdleCause::issuing;
  std::size_t gap = 0;               ///< in TimeExplanation::gaps
  std::size_t op = kNoDeviceOp;      ///< in Run::device_ops: what is waited for; of the host, of launches and of kernel
                                     ///< gaps the op that is late
  std::size_t behind = kNoDeviceOp;  ///< the op that `op` waited for, or the kernel that slowed it most; may be none
  LabelId host;                      ///< of the host and of `prefetch`: the range or call that it was in; may be none
  std::optional<std::uint32_t> rank;  ///< of `late_rank`; none: one that was not recorded
  std::string unit;                   ///< of `op`: its name, "root", or empty
  std::string phase;                  ///< that the host was in, of its causes; else the gap's; empty: between phases
  Nanoseconds exposed;                ///< of it, while a collective runs: exposed communication
  std::string issued_in;              ///< of `prefetch`: the phase in which the host issued `op`; empty: between phases

  [[nodiscard]] Nanoseconds length() const { return end - start; }
};

/// A stretch in which no op but collectives runs on the compute stream.
struct IdleGap {
  Nanoseconds start;
  Nanoseconds end;
  std::size_t next = kNoDeviceOp;  ///< the compute op that ends it; none: the step ends
  std::size_t first_part = 0;      ///< in TimeExplanation::parts; they follow one another without holes
  std::size_t parts = 0;
  std::string phase;  ///< of `next`; empty: between phases
  LabelId range;      ///< that the host issued `next` in: "FSDP::post_backward_reduce (layers.3)"; may be none

  [[nodiscard]] Nanoseconds length() const { return end - start; }
};

/// Of a step: compute of which it is not known whether collectives slow it down is said from so much on.
inline constexpr double kWorthADoubt = 0.02;

struct TimeExplanation {
  Recording recording = Recording::run;
  std::int32_t step = 0;
  Nanoseconds begin;  ///< the end of the step before, on the compute stream
  Nanoseconds end;
  Nanoseconds compute;                ///< of it, ops on the compute stream that are no collectives
  Nanoseconds communication;          ///< union of all collectives in it
  Nanoseconds exposed_communication;  ///< of that, outside `compute`: what `plan` and `compare` call so
  Nanoseconds kernel_contention;      ///< of `compute`: kernels that collectives slow down, as `compare` has it
  std::map<std::string, Nanoseconds> contention_of_phase;  ///< that, by phase
  Nanoseconds kernel_contention_unknown;  ///< of `compute`: overlapped, and the kernels never seen isolated
  Nanoseconds contention_unknown;         ///< of exposed collectives: overlapped, and never seen isolated
  std::vector<IdleGap> gaps;              ///< by time
  std::vector<IdlePart> parts;            ///< by time; their lengths add up to end − begin − compute

  [[nodiscard]] Nanoseconds length() const { return end - begin; }
  [[nodiscard]] Nanoseconds idle() const { return end - begin - compute; }
};

namespace explain_time_detail {
class RunFacts;
}

/// Whether kernels that collectives slow down are looked for, a fourth of the work; where they are not,
/// TimeExplanation::kernel_contention, that of phases and its unknown part stay zero.
enum class SlowedKernels : std::uint8_t { left_out = 0, looked_for = 1 };

/// Explains any number of a run's steps: what they share is worked out once, so that all of them take time linear in
/// the run, but for sorting. `run` must outlive it.
class TimeExplainer {
 public:
  explicit TimeExplainer(const Run& run, SlowedKernels slowed = SlowedKernels::looked_for);
  TimeExplainer(TimeExplainer&&) noexcept;
  TimeExplainer& operator=(TimeExplainer&&) = delete;
  ~TimeExplainer();

  /// As explain_time().
  [[nodiscard]] Result<TimeExplanation> explain(const std::optional<std::int32_t>& step = {}) const;
  /// Of the step at a place in Run::steps; nothing where its time is not known.
  [[nodiscard]] std::optional<TimeExplanation> explain_at(std::size_t place) const;

 private:
  const Run& run_;
  Result<void> times_;                                    // check_times()
  std::unique_ptr<explain_time_detail::RunFacts> facts_;  // null where there is nothing to explain
};

/// `step`: by its index; none: the step that a report of the run is of. Fails (input) where the run recorded no device
/// ops, (usage) where it has no such step, and as check_times() does.
[[nodiscard]] Result<TimeExplanation> explain_time(const Run& run, const std::optional<std::int32_t>& step = {},
                                                   SlowedKernels slowed = SlowedKernels::looked_for);

}  // namespace foreshard
