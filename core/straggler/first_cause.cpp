#include "core/straggler/first_cause.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace foreshard::straggler_detail {
namespace {

using Parts = std::map<std::uint32_t, std::int64_t>;  // ns by rank

/// A rank's collectives: when each began and ended.
struct Begun {
  Nanoseconds start;
  Nanoseconds end;
};

class FirstCauses {
 public:
  explicit FirstCauses(std::vector<RankSpans>& ranks) : ranks_(ranks), collectives_(ranks.size()) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      place_of_[ranks[i].rank] = i;
      for (const RankOpRecord& row : ranks[i].ops)
        if (row.op.kind == DeviceOpRecord::Kind::collective && row.sequence >= 0)
          collectives_[i][key_of(row)] = {row.op.start, row.op.end};
    }
  }

  void find() {
    std::vector<std::pair<std::size_t, std::size_t>> waits;  // rank, span
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      for (std::size_t k = 0; k < ranks_[i].spans.size(); ++k)
        if (ranks_[i].spans[k].for_rank) waits.emplace_back(i, k);
    std::stable_sort(waits.begin(), waits.end(), [&](const auto& a, const auto& b) {
      return ranks_[a.first].spans[a.second].begin < ranks_[b.first].spans[b.second].begin;
    });
    // What was waited for earlier is known by then.
    for (const auto& [rank, span] : waits) known_[rank][span] = parts_of(rank, ranks_[rank].spans[span]);
    for (std::size_t i = 0; i < ranks_.size(); ++i) divide(i);
  }

 private:
  /// Ends of the collectives that two ranks took part in, ascending.
  const std::vector<Nanoseconds>& shared(std::size_t a, std::size_t b) {
    const auto [at, is_new] = shared_.try_emplace(std::minmax(a, b));
    if (is_new) {
      for (const auto& [key, begun] : collectives_[a])
        if (const auto other = collectives_[b].find(key); other != collectives_[b].end())
          at->second.push_back(std::max(begun.end, other->second.end));
      std::sort(at->second.begin(), at->second.end());
    }
    return at->second;
  }

  Parts parts_of(std::size_t rank, const Span& span) {
    const auto late = place_of_.find(*span.for_rank);
    if (late == place_of_.end() || !span.behind) return {{*span.for_rank, span.time.count}};
    const std::size_t other = late->second;
    const auto begun = collectives_[other].find(*span.behind);
    if (begun == collectives_[other].end()) return {{*span.for_rank, span.time.count}};
    const Nanoseconds until = begun->second.start;
    const std::vector<Nanoseconds>& ends = shared(rank, other);
    const auto after = std::upper_bound(ends.begin(), ends.end(), until);
    const Nanoseconds since = after == ends.begin() ? Nanoseconds{} : *std::prev(after);
    const Parts waited = waited_of(other, since, until, ranks_[rank].rank);
    std::int64_t all = 0;
    for (const auto& [whom, ns] : waited) all += ns;
    // Where it waited for longer than it was late, each of its waits counts in part.
    const double share =
        std::min(1.0, static_cast<double>(span.time.count) / static_cast<double>(std::max<std::int64_t>(all, 1)));
    Parts out;
    std::int64_t rest = span.time.count;
    for (const auto& [whom, ns] : waited) {
      const std::int64_t part = std::min(rest, Nanoseconds{ns}.scaled(share).count);
      out[whom] += part;
      rest -= part;
    }
    if (rest > 0) out[*span.for_rank] += rest;
    return out;
  }

  /// How long a rank waited for whom between two instants, `but` one.
  Parts waited_of(std::size_t rank, Nanoseconds since, Nanoseconds until, std::uint32_t but) {
    const std::vector<Span>& spans = ranks_[rank].spans;
    const auto first = std::partition_point(spans.begin(), spans.end(),
                                            [&](const Span& span) { return span.begin + span.time <= since; });
    const auto& known = known_[rank];
    Parts out;
    for (auto at = known.lower_bound(static_cast<std::size_t>(first - spans.begin())); at != known.end(); ++at) {
      const Span& span = spans[at->first];
      const Nanoseconds within = std::min(span.begin + span.time, until) - std::max(span.begin, since);
      if (within.count <= 0) break;
      const double share = static_cast<double>(within.count) / static_cast<double>(span.time.count);
      for (const auto& [whom, ns] : at->second)
        if (whom != but) out[whom] += Nanoseconds{ns}.scaled(share).count;
    }
    return out;
  }

  /// A span of waiting becomes one for each rank that it was for.
  void divide(std::size_t rank) {
    std::vector<Span> out;
    for (std::size_t k = 0; k < ranks_[rank].spans.size(); ++k) {
      const Span& span = ranks_[rank].spans[k];
      const auto parts = known_[rank].find(k);
      if (parts == known_[rank].end()) {
        out.push_back(span);
        continue;
      }
      Nanoseconds begin = span.begin;
      for (const auto& [whom, ns] : parts->second) {
        if (ns == 0) continue;
        Span part = span;
        part.begin = begin;
        part.time = {ns};
        part.for_rank = whom;
        begin += part.time;
        out.push_back(part);
      }
    }
    ranks_[rank].spans = std::move(out);
  }

  std::vector<RankSpans>& ranks_;
  std::vector<std::map<CollectiveKey, Begun>> collectives_;    // by place of the rank
  std::map<std::uint32_t, std::size_t> place_of_;              // by rank
  std::map<std::size_t, std::map<std::size_t, Parts>> known_;  // by place of the rank, by span
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Nanoseconds>> shared_;
};

}  // namespace

void find_first_causes(std::vector<RankSpans>& ranks) {
  FirstCauses(ranks).find();
}

std::vector<RankSpans> rank_spans_as_begun(const Run& run) {
  const LastRanks last = last_ranks(run.rank_ops);
  std::vector<RankSpans> ranks;
  const std::span ops(run.rank_ops);
  for (std::size_t first = 0; first < ops.size();) {
    std::size_t end = first;
    while (end < ops.size() && ops[end].rank == ops[first].rank) ++end;
    const auto own = ops.subspan(first, end - first);
    ranks.push_back({ops[first].rank, own, compute_stream(own, last)});
    first = end;
  }
  return ranks;
}

std::vector<RankSpans> rank_spans(const Run& run) {
  std::vector<RankSpans> ranks = rank_spans_as_begun(run);
  find_first_causes(ranks);
  return ranks;
}

}  // namespace foreshard::straggler_detail
