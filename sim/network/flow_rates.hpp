// Rates of flows that come and go: what max_min.hpp gives for those that are there, kept up to date.
//
// A flow that comes or goes changes only what hangs together with it through full links, and of that only links that
// fill at another rate than before, and flows that these stop. They are found from the lowest rate up: what a link is
// full at depends on flows that stopped below, so that each is right once all below it is. A link that could carry all
// that its flows ask for at their `most` holds nobody, so that a ring on healthy adapters costs its own links and
// nothing else.
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

  /// What a flow takes of a link, in kWholeRate; above 0. Of flows that a symmetry turns into one another, and that
  /// come and go together, one may stand for all, and one of their links for those that the symmetry turns it into: of
  /// that link it takes what all of them take together, and rates are theirs to the bit.
  struct Part {
    std::uint32_t link = 0;
    std::int64_t share = 0;
  };
  /// `value`, of what is at most kLargest and above 0, in kWholeRate; at least 1.
  [[nodiscard]] static std::int64_t units(double value);

  /// A flow begins. `parts`: of a link once; `most`: in kWholeRate, above 0. Ids of flows that ended are used again,
  /// the last one to end first. Of many at one instant: rates are those of before until settle().
  FlowId begin(std::span<const Part> parts, std::int64_t most);
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
  /// Flows that the last settle() looked at: what has begun, what shares a link with one that ended, and
  /// what may stop at another rate.
  [[nodiscard]] std::size_t looked_at() const { return looked_at_.size(); }
  [[nodiscard]] std::size_t size() const { return flows_.size() - free_.size(); }

 private:
  /// Of links that are not full.
  static constexpr std::int64_t kNotFull = INT64_MAX;
  /// The lowest rate at which one of a flow's links is full, how many are full at it, and the next one above it.
  struct Lowest {
    std::int64_t rate = kNotFull;
    std::uint32_t links = 0;
    bool next_is_known = false;
    std::int64_t next = kNotFull;
  };
  struct OneFlow {
    std::vector<Part> parts;
    Lowest lowest;
    std::int64_t most = 0;
    std::int64_t rate = 0;
    bool there = false;
    std::uint64_t seen = 0;
    [[nodiscard]] std::int64_t stops_at() const { return std::min(most, lowest.rate); }
  };
  /// Sums are in units of kWholeRate²: of 2^16 flows with a share of 1 they stay below 2^77.
  __extension__ using Wide = __int128;
  struct OnLink {
    std::uint32_t flow = 0;
    std::int64_t share = 0;
  };
  struct OneLink {
    Wide capacity = 0;
    Wide at_most = 0;           // what its flows carry together at their `most`
    std::vector<OnLink> flows;  // in no order
    [[nodiscard]] bool can_fill() const { return at_most > capacity; }
  };
  struct Dirty {
    std::int64_t at = 0;  // the lower of where its link is full and was
    std::uint32_t link = 0;
    auto operator<=>(const Dirty&) const = default;
  };

  void look_at(std::uint32_t flow);
  void begin_flows();
  void check_link(std::uint32_t link);
  void push(Dirty dirty);
  [[nodiscard]] std::int64_t full_at(std::uint32_t link);
  void set_full(std::uint32_t link, std::int64_t at);
  void take(OneFlow& flow, std::int64_t before, std::int64_t at);
  void find_lowest(OneFlow& flow);
  [[nodiscard]] std::int64_t stops_elsewhere(OneFlow& flow, std::uint32_t link);
  void note_changes();

  std::vector<OneFlow> flows_;
  std::vector<OneLink> links_;
  std::vector<std::int64_t> full_;  // by link: the rate at which it is full
  std::vector<std::uint32_t> free_;
  std::vector<FlowId> changed_;
  std::vector<std::uint32_t> begun_;  // flows, since settle()
  std::vector<std::uint32_t> left_;   // links that could fill before a flow ended, or changed
  std::uint64_t visit_ = 0;
  std::vector<std::uint32_t> looked_at_;  // flows
  std::vector<Dirty> dirty_;              // a heap: links that may be full at another rate
  struct Asks {
    std::int64_t rate = 0;
    std::int64_t share = 0;
  };
  std::vector<Asks> asks_;            // scratch of full_at
  std::vector<std::uint32_t> moved_;  // scratch of set_full
};

}  // namespace foreshard::sim
