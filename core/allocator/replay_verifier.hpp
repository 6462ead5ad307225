// One run of the replay over a recording, and what it takes for granted. Internal to core/allocator's replay.
#pragma once

#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "core/allocator/replay_compare.hpp"
#include "core/allocator/replay_driver.hpp"
#include "core/allocator/replay_limit.hpp"
#include "core/allocator/replay_plan.hpp"

namespace foreshard::allocator_detail {

/// How the replay reads the head of a malloc, where the recording may be read otherwise.
enum class Reading : std::uint8_t {
  by_malloc,   ///< the malloc gave cached memory back
  by_program,  ///< empty_cache did
  polled,      ///< its completions were found by the malloc's poll, not by the wait of a retry
};

/// An operation's first entry, and a reading with which the replay went on otherwise than recorded.
using Refuted = std::pair<std::size_t, Reading>;

/// Bounds the time that a damaged recording takes: each one refuted is a run more. No reference recording has any, and
/// 2,179 recordings of random programs (tests/property/allocator_replay_test.cpp) have at most two each.
inline constexpr std::size_t kMaxRefuted = 100;

/// What a run of the replay takes for granted where the recording does not say it.
struct Assumptions {
  Bytes limit = kNoLimit;           ///< the memory limit, as far as the recording allows it
  LimitSet limits = every_limit();  ///< those that explain the whole recording, as far as known
  bool fixed = false;               ///< the limit is known, and holds against the recording
  bool driver_refuses = false;      ///< the driver may refuse what the limit does not
  std::set<Refuted> refuted;        ///< by runs before
};

/// What a run found.
struct Findings {
  ReplayReport report;
  LimitSet limits;                 ///< that explain every miss, or every one since the last contradiction
  bool contradicts = false;        ///< none explains them all
  std::optional<Refuted> refuted;  ///< the run ended there; nothing else holds
};

/// One call of the program: entries [begin, end) of the plan.
struct Operation {
  std::size_t begin = 0;
  std::size_t end = 0;
};

class Verifier {
 public:
  Verifier(const ReplayPlan& plan, const ReplayOptions& options, const Assumptions& assumed);

  /// Once. All three must outlive it.
  [[nodiscard]] Findings run();

 private:
  void adopt();
  void pass_step_starts(std::size_t index);
  [[nodiscard]] std::size_t end_of_free(std::size_t begin) const;
  [[nodiscard]] std::size_t end_of_malloc(std::size_t begin) const;
  void begin_operation(const Operation& op);
  void replay_free(const Operation& op);
  void replay_malloc(const Operation& op);
  void poll_completions(const Operation& op);
  void empty_cache(std::size_t entry);
  [[nodiscard]] std::span<const ReplayEntry> unpolled() const;
  [[nodiscard]] std::size_t pending_count() const;
  Bytes narrow(const Explanations& found);
  [[nodiscard]] bool release_is_empty_cache(const Operation& op);
  [[nodiscard]] Explanations explanations(const Operation& op, bool released) const;
  [[nodiscard]] bool program_released(const Operation& op, const Explanations& found, Bytes limit);

  const ReplayPlan& plan_;
  const ReplayOptions& options_;
  const Assumptions& assumed_;
  LimitSet limits_ = every_limit();
  bool contradicts_ = false;         // no limit explains the entries so far
  std::optional<Refuted> doubtful_;  // how the operation is read though it may be read otherwise
  ReplayReport report_;
  OperationView view_;
  RecordedMemory memory_;
  RecordedEvents events_;
  CachingAllocator allocator_;
  ReplayComparison comparison_;
  std::unordered_map<Address, BlockHandle> live_;         // by recorded address; lookup only
  std::unordered_map<std::size_t, BlockHandle> pending_;  // by the entry of the completion; lookup only
  std::size_t started_ = 0;                               // step starts passed
};

}  // namespace foreshard::allocator_detail
