#include "sim/ranks/rank_classes.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

namespace foreshard::sim {
namespace {

using Colours = std::vector<std::uint32_t>;

/// Colours as 0, 1, … in the order of the lowest rank that has each; and how many there are.
std::uint32_t number(const std::vector<std::vector<std::uint32_t>>& keys, Colours& colours) {
  std::map<std::vector<std::uint32_t>, std::uint32_t> seen;
  for (std::size_t rank = 0; rank < keys.size(); ++rank)
    colours[rank] = seen.try_emplace(keys[rank], static_cast<std::uint32_t>(seen.size())).first->second;
  return static_cast<std::uint32_t>(seen.size());
}

/// By rank: a number for the set of colours in its group of one communicator.
Colours colour_sets(const Colours& colours, const JobGroups& groups) {
  const auto ranks = static_cast<std::uint32_t>(colours.size());
  std::map<std::vector<std::uint32_t>, std::uint32_t> seen;
  Colours out(ranks);
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    if (groups.first(rank) != rank) {
      out[rank] = out[groups.first(rank)];
      continue;
    }
    std::vector<std::uint32_t> set;
    const StridedGroups& of_job = groups.of(rank);
    const std::uint32_t end = groups.end(rank, ranks);
    for (std::uint32_t i = 0; i < of_job.ranks && rank + i * of_job.stride < end; ++i)
      set.push_back(colours[rank + i * of_job.stride]);
    std::sort(set.begin(), set.end());
    set.erase(std::unique(set.begin(), set.end()), set.end());
    out[rank] = seen.try_emplace(std::move(set), static_cast<std::uint32_t>(seen.size())).first->second;
  }
  return out;
}

/// By communicator, by rank: a number for what its group puts on links, and for who else does. `sets`: the same for the
/// classes of its ranks.
std::vector<Colours> colour_links(const SharedLinks& shared, const std::vector<Colours>& sets) {
  using Key = std::vector<std::uint32_t>;
  std::vector<std::vector<std::array<std::uint32_t, 4>>> of_link(shared.links.size());
  for (const SharedLinks::Group& group : shared.groups)
    for (const SharedLinks::Use& use : group.uses)
      of_link[use.link].push_back({group.communicator, sets[group.communicator][group.first], group.kind, use.share});
  std::map<Key, std::uint32_t> seen;
  Colours links(shared.links.size());
  for (std::size_t l = 0; l < links.size(); ++l) {
    std::sort(of_link[l].begin(), of_link[l].end());
    Key key{shared.links[l]};
    for (const auto& use : of_link[l]) key.insert(key.end(), use.begin(), use.end());
    links[l] = seen.try_emplace(std::move(key), static_cast<std::uint32_t>(seen.size())).first->second;
  }
  std::map<Key, std::uint32_t> known;
  std::vector<Colours> out(sets.size(), Colours(sets.empty() ? 0 : sets[0].size()));
  for (const SharedLinks::Group& group : shared.groups) {
    std::vector<std::pair<std::uint32_t, std::uint32_t>> uses;
    for (const SharedLinks::Use& use : group.uses) uses.emplace_back(links[use.link], use.share);
    std::sort(uses.begin(), uses.end());
    Key key{group.kind};
    for (const auto& [link, share] : uses) key.insert(key.end(), {link, share});
    out[group.communicator][group.first] =
        known.try_emplace(std::move(key), static_cast<std::uint32_t>(known.size())).first->second;
  }
  return out;
}

Colours coloured(const std::vector<RankTraits>& traits, const std::vector<JobGroups>& communicators, bool fold,
                 const SharedLinks* shared) {
  Colours colours(traits.size());
  std::vector<std::vector<std::uint32_t>> keys(traits.size());
  std::map<RankTraits, std::uint32_t> seen;
  for (std::uint32_t rank = 0; rank < traits.size(); ++rank)
    keys[rank] = {fold ? seen.try_emplace(traits[rank], static_cast<std::uint32_t>(seen.size())).first->second : rank};
  std::uint32_t before = number(keys, colours);
  for (;;) {
    for (std::uint32_t rank = 0; rank < traits.size(); ++rank) keys[rank] = {colours[rank]};
    std::vector<Colours> sets;
    for (const JobGroups& groups : communicators) sets.push_back(colour_sets(colours, groups));
    for (const Colours& of : sets)
      for (std::size_t rank = 0; rank < keys.size(); ++rank) keys[rank].push_back(of[rank]);
    if (shared != nullptr) {
      const std::vector<Colours> links = colour_links(*shared, sets);
      for (std::size_t c = 0; c < communicators.size(); ++c)
        for (std::uint32_t rank = 0; rank < keys.size(); ++rank)
          keys[rank].push_back(links[c][communicators[c].first(rank)]);
    }
    const std::uint32_t now = number(keys, colours);
    if (now == before) return colours;
    before = now;
  }
}

}  // namespace

RankClasses rank_classes(const std::vector<RankTraits>& traits, const std::vector<JobGroups>& communicators, bool fold,
                         const SharedLinks* shared) {
  RankClasses out;
  out.of_rank = coloured(traits, communicators, fold, shared);
  for (std::uint32_t rank = 0; rank < traits.size(); ++rank) {
    if (out.of_rank[rank] == out.classes.size()) out.classes.push_back({rank, 0, {}});
    ++out.classes[out.of_rank[rank]].count;
  }
  for (std::uint32_t c = 0; c < communicators.size(); ++c) {
    const Colours sets = colour_sets(out.of_rank, communicators[c]);
    std::map<std::uint32_t, std::uint32_t> group_of;
    for (std::uint32_t i = 0; i < out.classes.size(); ++i) {
      const auto [at, is_new] =
          group_of.try_emplace(sets[out.classes[i].first], static_cast<std::uint32_t>(out.groups.size()));
      if (is_new) out.groups.push_back({c, {}});
      out.groups[at->second].classes.push_back(i);
      out.classes[i].group.push_back(at->second);
    }
  }
  return out;
}

}  // namespace foreshard::sim
