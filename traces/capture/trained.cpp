#include "traces/capture/trained.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>

#include "traces/capture/range_meaning.hpp"

namespace foreshard::traces {
namespace {

/// What a unit's first reduction shows.
struct Reduced {
  Bytes input = 0;           ///< of the reduce-scatter
  std::vector<Bytes> freed;  ///< gradients in the parameters' order; without the last where the rules keep it
};

/// The events [first, last) of a range that starts with frees, then: input, metadata, free of the metadata, frees of
/// gradients from the last, or the last but one, to the first (FullyShard::reduce).
std::optional<Reduced> read_reduction(std::span<const CaptureEvent> events, std::size_t first) {
  while (first < events.size() && !events[first].allocates) ++first;
  if (first + 2 >= events.size()) return std::nullopt;
  Reduced out{events[first].size, {}};
  const std::size_t metadata = first + 1;
  if (!events[metadata].allocates || events[metadata + 1].partner != metadata) return std::nullopt;
  for (std::size_t i = metadata + 2; i < events.size() && !events[i].allocates; ++i)
    out.freed.push_back(events[i].size);
  std::reverse(out.freed.begin(), out.freed.end());
  return out;
}

/// Finds parameters, in order, whose gradients are `freed` and, where `keeps_last`, one more, and whose chunks fill the
/// input.
class Search {
 public:
  Search(const ParamGroupPlan& group, const Reduced& reduced, bool keeps_last, bool accumulated)
      : group_(group),
        reduced_(reduced),
        gradients_(reduced.freed.size() + (keeps_last ? 1 : 0)),
        accumulated_(accumulated) {}

  /// Indices into the group, or none.
  [[nodiscard]] std::optional<std::vector<std::size_t>> find() {
    if (!descend(group_.parameters.size(), gradients_, reduced_.input)) return std::nullopt;
    return found_;
  }
  /// Whether leaving out one that was found, for an equal one, fits as well.
  [[nodiscard]] bool ambiguous() const {
    std::map<std::pair<Bytes, Bytes>, std::pair<std::size_t, std::size_t>> of_size;  // all, found
    for (const ParameterPlan& p : group_.parameters) ++of_size[{gradient(p), chunk(p)}].first;
    for (const std::size_t i : found_) ++of_size[{gradient(group_.parameters[i]), chunk(group_.parameters[i])}].second;
    return std::any_of(of_size.begin(), of_size.end(), [](const auto& entry) {
      return entry.second.second > 0 && entry.second.second < entry.second.first;
    });
  }

 private:
  [[nodiscard]] Bytes gradient(const ParameterPlan& p) const { return accumulated_ ? p.accumulated : p.gradient; }
  [[nodiscard]] Bytes chunk(const ParameterPlan& p) const {
    return (accumulated_ ? p.reduce_chunk : p.sent_chunk) * group_.shard_ranks;
  }
  /// Of the parameters before `end`, backwards: frozen ones are mostly the first of a model. `gradients` are still to
  /// be found; nothing shows the size of the last one that is kept.
  bool descend(std::size_t end, std::size_t gradients, Bytes left) {
    if (gradients == 0) return left == 0;
    if (end == 0 || !failed_.emplace(end, gradients, left).second) return false;
    const ParameterPlan& p = group_.parameters[end - 1];
    const bool unseen = gradients > reduced_.freed.size();
    if (chunk(p) <= left && (unseen || reduced_.freed[gradients - 1] == gradient(p))) {
      found_.push_back(end - 1);
      if (descend(end - 1, gradients - 1, left - chunk(p))) return true;
      found_.pop_back();
    }
    return descend(end - 1, gradients, left);
  }

  const ParamGroupPlan& group_;
  const Reduced& reduced_;
  std::size_t gradients_;
  bool accumulated_;
  std::vector<std::size_t> found_;
  std::set<std::tuple<std::size_t, std::size_t, Bytes>> failed_;
};

bool reduces_all(const ParamGroupPlan& group, Bytes input) {
  Bytes sent = 0;
  Bytes accumulated = 0;
  for (const ParameterPlan& p : group.parameters) {
    sent += p.sent_chunk * group.shard_ranks;
    accumulated += p.reduce_chunk * group.shard_ranks;
  }
  return input == sent || input == accumulated;
}

/// When each unit first reduces.
std::map<UnitId, Nanoseconds> first_reductions(std::span<const Range> ranges, std::span<const Unit> units) {
  const UnitNames names(units);
  std::map<UnitId, Nanoseconds> out;
  for (const Range& range : ranges) {
    const RangeMeaning meaning = meaning_of(range.name);
    if (meaning.kind != RangeKind::reduce) continue;
    if (const auto unit = names.find(meaning.unit)) out.emplace(*unit, range.start);
  }
  return out;
}

/// Indices into the group of the parameters whose gradients the reduction at `start` holds; none: its sizes fit none.
std::optional<std::vector<std::size_t>> reduced_parameters(std::span<const CaptureEvent> events, Nanoseconds start,
                                                           const ParamGroupPlan& group, const FsdpRules& rules,
                                                           bool& alike) {
  std::vector<std::size_t> all(group.parameters.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  const auto at = std::lower_bound(events.begin(), events.end(), start,
                                   [](const CaptureEvent& e, Nanoseconds time) { return e.time < time; });
  const auto reduced = read_reduction(events, static_cast<std::size_t>(at - events.begin()));
  if (!reduced) return std::nullopt;
  if (reduces_all(group, reduced->input)) return all;
  for (const bool accumulated : {false, true}) {
    Search search(group, *reduced, rules.keeps_last_gradient(group.shard_ranks), accumulated);
    auto found = search.find();
    if (!found) continue;
    alike = search.ambiguous();
    return found;
  }
  return std::nullopt;
}

}  // namespace

Trained find_trained(std::span<const CaptureEvent> events, std::span<const Range> ranges, std::span<const Unit> units,
                     std::span<const UnitPlan> plans, const FsdpRules& rules) {
  const std::map<UnitId, Nanoseconds> reductions = first_reductions(ranges, units);
  Trained out;
  for (std::uint32_t u = 0; u < units.size(); ++u) {
    const std::size_t begin = out.parameters.size();
    out.parameters.resize(begin + units[u].parameters.size(), true);
    if (plans[u].groups.size() != 1 || reductions.empty()) continue;
    std::optional<std::vector<std::size_t>> reduced{std::in_place};  // a unit that never reduces trains nothing
    bool alike = false;
    if (const auto at = reductions.find(UnitId{u}); at != reductions.end())
      reduced = reduced_parameters(events, at->second, plans[u].groups.front(), rules, alike);
    if (!reduced) continue;
    std::fill(out.parameters.begin() + static_cast<std::ptrdiff_t>(begin), out.parameters.end(), false);
    for (const std::size_t p : *reduced) out.parameters[begin + p] = true;
    out.frozen += units[u].parameters.size() - reduced->size();
    out.alike += alike ? 1 : 0;
  }
  return out;
}

}  // namespace foreshard::traces
