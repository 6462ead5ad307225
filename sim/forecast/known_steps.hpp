// Steps that a process has run before from the very state that it is in: what they did need not be simulated again.
//
// Reserved memory stops growing after some dozens of steps, and from then on few lengths lead through few states of the
// allocator (core/allocator's LayoutDigest). A step is known where it asked the driver for nothing: all that it does
// follows from the state that it begins in and its program. The process runs behind such steps only when one comes that
// is not known, and by the shortest way that it has been led: loops of known steps, which end where they began, are
// left out. So no step is run twice for one that the list has.
//
// Who: allocator_process.hpp. One thread; deterministic.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "core/allocator/caching_allocator.hpp"
#include "sim/forecast/allocation_program.hpp"
#include "sim/forecast/step_use.hpp"

namespace foreshard::sim {

class KnownSteps {
 public:
  struct Step {
    std::uint32_t to = 0;  ///< the state behind it
    StepUse use;
  };

  /// The process is in this state now, and has been led nowhere else.
  void begin_at(const LayoutDigest& state) {
    here_ = real_ = states_.try_emplace(state, static_cast<std::uint32_t>(states_.size())).first->second;
  }
  /// What `program` does from here; null: not known.
  [[nodiscard]] const Step* find(const AllocationProgram& program) const {
    const auto found = steps_.find({here_, &program});
    return found == steps_.end() ? nullptr : &found->second;
  }
  /// Goes there without the process.
  void skip(const AllocationProgram& program, const Step& step) {
    here_ = step.to;
    if (here_ == real_) return way_.clear();
    const auto before = std::find_if(way_.begin(), way_.end(), [&](const auto& one) { return one.second == here_; });
    if (before != way_.end())
      way_.erase(before + 1, way_.end());
    else
      way_.emplace_back(&program, here_);
  }
  /// The programs that lead the process from where it is to where it is taken to be. Forgets them.
  [[nodiscard]] std::vector<const AllocationProgram*> take_way() {
    std::vector<const AllocationProgram*> out;
    for (const auto& [program, state] : std::exchange(way_, {})) out.push_back(program);
    real_ = here_;
    return out;
  }
  /// Whether that is where they led to.
  [[nodiscard]] bool is_here(const LayoutDigest& state) const {
    const auto found = states_.find(state);
    return found != states_.end() && found->second == here_;
  }
  /// The process has run `program` from here to `state`, and asked the driver for nothing.
  void add(const AllocationProgram& program, const LayoutDigest& state, const StepUse& use) {
    const std::uint32_t from = here_;
    begin_at(state);
    steps_[{from, &program}] = {here_, use};
  }

 private:
  std::map<LayoutDigest, std::uint32_t> states_;                              // numbered as they are met
  std::map<std::pair<std::uint32_t, const AllocationProgram*>, Step> steps_;  // looked up alone
  std::vector<std::pair<const AllocationProgram*, std::uint32_t>> way_;       // from real_ to here_, no state twice
  std::uint32_t real_ = 0;                                                    // the process's state
  std::uint32_t here_ = 0;                                                    // the one that it is taken to be in
};

}  // namespace foreshard::sim
