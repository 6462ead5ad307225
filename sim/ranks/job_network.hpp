// The links behind a job's adapters, which the collectives of its groups share as they begin and end.
//
// Each group that spans nodes is a flow over the links that its messages take (sim/network/node_pattern.hpp), on the
// rails of its members, from when its last rank comes to when its slowest one is done. Flows share the links max-min
// fairly (flow_rates.hpp). What a collective takes at a rate is its price with that rate (CollectiveRequest::
// network_rate): alone it takes what it is priced at alone, and where all groups of its mesh dimension run together
// what it is priced at as the slowest of them. A flow asks for no more than the least rate that brings it within 1 % of
// its price alone: one that waits for latencies leaves the links to others.
//
// Links may flap (sim/network/flapping_link.hpp): each then carries what is left of it, and a collective over one that
// carries nothing stands until it does again.
//
// Only jobs have one of which a group uses a link that flaps, or in which two groups can meet on a link that is not an
// adapter and that cannot carry all that they may ask for (meets()). Of others the price says it all, and what meets on
// one GPU's adapters its engine knows.
//
// Not modelled: what a group leaves the network while its own GPUs hold it up.
//
// Who: sim/ranks/job.cpp. One owner.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "sim/collectives/collective_cost.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/strided_groups.hpp"
#include "sim/network/flapping_link.hpp"
#include "sim/network/flow_rates.hpp"
#include "sim/ranks/rank_classes.hpp"

namespace foreshard::sim {

/// A job's communicators and how many ranks it has.
struct JobOnNetwork {
  std::vector<CommunicatorOptions> communicators;
  std::uint32_t ranks = 0;
};

class JobNetwork {
 public:
  /// `machine` and `collectives` must outlive it. `jobs`: one, or two of which the second has the nodes behind the
  /// first's; ranks are counted through, communicators in each from 0. `node_ranks`: ranks of a node. It begins at
  /// time 0.
  JobNetwork(const MachineProfile& machine, const CollectiveCost& collectives, const std::vector<JobOnNetwork>& jobs,
             std::uint32_t node_ranks, const std::vector<Flap>& flaps = {});

  [[nodiscard]] bool meets() const { return meets_; }
  /// On one of those links groups of two jobs.
  [[nodiscard]] bool jobs_meet() const { return jobs_meet_; }
  /// Whether a group uses the link that the flap numbered so, of those given, is of.
  [[nodiscard]] bool flap_is_met(std::size_t flap) const { return flap < flaps_met_.size() && flaps_met_[flap]; }
  /// What tells ranks apart by where their groups are.
  [[nodiscard]] const SharedLinks& shared_links() const { return shared_; }
  /// The lowest ranks of a communicator's groups.
  [[nodiscard]] std::vector<std::uint32_t> groups(std::uint32_t communicator) const;

  /// Groups of one communicator that a symmetry of shared_links() turns into one another, and that begin and end
  /// together: one flow for all.
  struct Together {
    std::uint32_t communicator = 0;
    std::vector<std::uint32_t> groups;  ///< their lowest ranks, ascending; none: nothing begins
  };
  /// All groups, of a network that meets(), before anything begins. From now on they go by their number here.
  void set_flows(const std::vector<Together>& together);

  /// Groups begin to move what their program priced as `request`; false, and nothing begins, where that does not leave
  /// a node.
  bool begin(std::uint32_t groups, const CollectiveRequest& request);
  void end(std::uint32_t groups);
  /// The first instant behind `at` at which a link carries more or less than before; kNever: none does.
  [[nodiscard]] Nanoseconds next_change(Nanoseconds at) const;
  /// Links carry what they do from `at` on.
  void change(Nanoseconds at);
  /// Behind all begins, ends and changes of an instant: the rates that follow.
  void settle();
  /// Groups whose rate the last settle() changed, those that have begun among them.
  [[nodiscard]] const std::vector<std::uint32_t>& changed() const { return changed_; }
  /// What the program took `request` to take.
  [[nodiscard]] Nanoseconds priced(const CollectiveRequest& request);
  /// What their collective takes from begin to end at its present rate; kNever: a link of it carries nothing.
  [[nodiscard]] Nanoseconds time(std::uint32_t groups);
  /// What it takes at least, at any rate.
  [[nodiscard]] Nanoseconds least_time(std::uint32_t groups) const { return flows_[groups].curve->at_most; }

 private:
  /// A collective of one kind of groups: equal links alone, equal price.
  struct Curve {
    CollectiveRequest request;
    NodePattern pattern = NodePattern::ring;
    double alone = 1;  ///< the rate that it has alone
    double most = 1;   ///< the rate that it asks for
    bool flows = true;
    Nanoseconds at_most;
    std::map<std::int64_t, Nanoseconds> times;  ///< by rate
  };
  struct OneGroup {
    std::uint32_t kind = 0;
    std::uint32_t stride = 1;                    ///< of its members
    std::vector<std::vector<LinkShare>> shares;  ///< by pattern; empty: it stays on its node
  };
  /// Groups that go together, as the first of them.
  struct OneFlow {
    const OneGroup* group = nullptr;
    std::uint32_t first = 0;                          ///< lowest rank
    std::vector<std::vector<FlowRates::Part>> parts;  ///< by pattern; of links as rates_ has them
    std::optional<FlowRates::FlowId> flow;
    Curve* curve = nullptr;  ///< while it runs
  };
  /// What one flow takes of a link in one pattern, all its groups together.
  struct Taken {
    std::uint32_t flow = 0;
    std::uint32_t pattern = 0;
    std::int64_t share = 0;
    auto operator<=>(const Taken&) const = default;
  };
  [[nodiscard]] std::vector<std::vector<Taken>> taken_of_links(const std::vector<Together>& together) const;
  void merge_links(const std::vector<std::vector<Taken>>& taken);
  void add_groups(std::uint32_t communicator, const CommunicatorOptions& options, std::uint32_t begin,
                  std::uint32_t end);
  void keep_links_that_fill(const std::vector<bool>& adapters);
  void find_flapping(const std::vector<Fabric>& fabrics);
  [[nodiscard]] bool flaps(std::uint32_t link) const { return flap_of_[link] != kNoFlap; }
  void share_links();
  Curve& curve_of(const OneGroup& group, std::uint32_t first, const CollectiveRequest& request);
  [[nodiscard]] double rate_alone(const OneGroup& group, NodePattern pattern) const;
  [[nodiscard]] Nanoseconds price(const Curve& curve, double rate) const;

  const MachineProfile& machine_;
  const CollectiveCost& collectives_;
  std::uint32_t ranks_;
  std::uint32_t node_ranks_;
  std::uint32_t own_ranks_ = 0;                            // of the first job
  std::vector<std::map<std::uint32_t, OneGroup>> groups_;  // by communicator, by lowest rank
  std::vector<double> capacity_;                           // of links that do not flap
  std::vector<Flap> flaps_;
  std::vector<bool> flaps_met_;  // by flap
  static constexpr std::uint32_t kNoFlap = UINT32_MAX;
  std::vector<std::uint32_t> flap_of_;  // by link
  struct FlappingOne {
    std::uint32_t link = 0;  // of all
    double left = 1;         // at present
  };
  std::vector<FlappingOne> flapping_;
  std::map<std::vector<double>, std::uint32_t> kinds_;
  std::map<std::pair<std::uint32_t, CollectiveRequest>, Curve> curves_;  // by kind, request without its place
  std::map<CollectiveRequest, Nanoseconds> priced_;
  std::optional<FlowRates> rates_;
  std::vector<std::uint32_t>
      merged_;  // by link: its number in rates_; one of those that the same flows take equally of
  std::vector<OneFlow> flows_;
  std::vector<std::uint32_t> of_flow_;  // by flow of rates_: whose it is
  std::vector<std::uint32_t> changed_;
  SharedLinks shared_;
  bool meets_ = false;
  bool jobs_meet_ = false;
};

}  // namespace foreshard::sim
