// Rates of flows that come and go: what max_min.hpp gives for those that are there, kept up to date.
//
// A flow that comes or goes changes only what hangs together with it through full links. A link that could carry all
// that its flows ask for at their `most` holds nobody and joins nobody, so that a ring on healthy adapters costs its
// own links and nothing else.
//
// Integers, so that no sum depends on the order in which flows came: two flows that a symmetry of the links and flows
// turns into one another have the same rate to the bit, and any history that leaves the same flows leaves the same
// rates. Units: kWholeRate is one; a rate is below the exact fair share by less than one unit for each level at which
// flows were stopped before it.
//
// Who: whoever plays many groups' collectives side by side. One owner at a time.
#pragma once

#include <algorithm>
#include <compare>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/network/node_pattern.hpp"

namespace foreshard::sim {

class FlowRates {
 public:
  /// What LinkShare, Link::capacity and rates count as 1: 2^-30 is far below the rounding of a nanosecond.
  static constexpr std::int64_t kWholeRate = std::int64_t{1} << 30;
  /// Shares, `most` and capacities are at most this many times 1.
  static constexpr double kLargest = 1024;

  struct FlowId {
    std::uint32_t value = 0;
    auto operator<=>(const FlowId&) const = default;
  };

  /// `capacity`: by link; not below 0.
  explicit FlowRates(std::span<const double> capacity);

  /// A flow begins. `shares`: of a link once, above 0; `most`: above 0. Ids of flows that ended are used again, the
  /// last one to end first. Of many at one instant: rates are those of before until settle().
  FlowId begin(std::span<const LinkShare> shares, double most);
  /// A flow ends; likewise.
  void end(FlowId flow);
  /// From the next settle() on. A link of capacity 0 carries nothing, and flows over it have rate 0.
  void set_capacity(std::uint32_t link, double capacity);
  /// The rates of the flows that are there.
  void settle();

  FlowId add(std::span<const LinkShare> shares, double most) {
    const FlowId flow = begin(shares, most);
    settle();
    return flow;
  }
  void remove(FlowId flow) {
    end(flow);
    settle();
  }

  /// At least 1, but over a link that carries nothing.
  [[nodiscard]] std::int64_t rate(FlowId flow) const { return flows_[flow.value].rate; }
  /// Flows whose rate the last settle() changed, ascending; one that has begun is among them.
  [[nodiscard]] const std::vector<FlowId>& changed() const { return changed_; }
  /// Flows that the last settle() looked at.
  [[nodiscard]] std::size_t looked_at() const { return component_.size(); }
  [[nodiscard]] std::size_t size() const { return flows_.size() - free_.size(); }

 private:
  struct Part {
    std::uint32_t link = 0;
    std::int64_t share = 0;
  };
  struct OneFlow {
    std::vector<Part> parts;
    std::int64_t most = 0;
    std::int64_t rate = 0;
    bool open = false;  // while a component is filled
    bool there = false;
    std::uint64_t seen = 0;
  };
  /// Sums are in units of kWholeRate²: of 2^16 flows with a share of 1 they stay below 2^77.
  __extension__ using Wide = __int128;
  struct OneLink {
    Wide capacity = 0;
    Wide at_most = 0;                  // what its flows carry together at their `most`
    std::vector<std::uint32_t> flows;  // in no order
    Wide left = 0;                     // while a component is filled: beside flows that have stopped
    std::int64_t asked = 0;            // by all others at rate 1
    std::uint64_t seen = 0;
    [[nodiscard]] bool can_fill() const { return at_most > capacity; }
    /// No flow's `most` is above kLargest, and a wide link that is asked for little could give more than 63 bits hold.
    [[nodiscard]] std::int64_t level() const {
      constexpr Wide kHighest = Wide{static_cast<std::int64_t>(kLargest)} * kWholeRate;
      return static_cast<std::int64_t>(std::min(left / asked, kHighest));
    }
  };
  struct Level {
    std::int64_t at = 0;
    std::uint32_t link = 0;
    auto operator<=>(const Level&) const = default;
  };

  void find_component();
  void visit(std::uint32_t flow);
  void fill();
  void next_stops(std::size_t& by_most);
  void stop(std::uint32_t flow, std::int64_t rate);
  void note_changes();

  std::vector<OneFlow> flows_;
  std::vector<OneLink> links_;
  std::vector<std::uint32_t> free_;
  std::vector<FlowId> changed_;
  std::vector<std::uint32_t> begun_;  // flows, since settle()
  std::vector<std::uint32_t> left_;   // links that could fill before a flow ended, or changed
  std::uint64_t visit_ = 0;
  std::vector<std::uint32_t> component_;  // flows of it, then by their `most`
  std::vector<std::uint32_t> joined_;     // its links that can fill
  std::vector<std::int64_t> before_;      // rates, by place in component_ as it was found
  std::vector<Level> levels_;             // a heap; an entry may be too low, never too high
  std::vector<std::uint32_t> stops_;
};

}  // namespace foreshard::sim
