#include "core/straggler/first_cause.hpp"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace foreshard::straggler_detail {
namespace {

using Parts = std::map<std::uint32_t, std::int64_t>;  // ns by rank

/// Launches and events take no longer: what began within this of another op's end may have waited for it
/// (op_waits.cpp).
constexpr Nanoseconds kLatency{15'000};

bool is_collective(const RankOpRecord& row) {
  return row.op.kind == DeviceOpRecord::Kind::collective;
}

class FirstCauses {
 public:
  FirstCauses(std::vector<RankSpans>& ranks, const LastRanks& last)
      : ranks_(ranks), last_(last), collectives_(ranks.size()), beside_(ranks.size()) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      place_of_[ranks[i].rank] = i;
      for (const RankOpRecord& row : ranks[i].ops) {
        if (is_collective(row) && row.sequence >= 0) collectives_[i][key_of(row)] = &row;
        if (is_collective(row) || row.op.stream != kComputeStream) beside_[i].push_back(&row);
      }
      std::stable_sort(beside_[i].begin(), beside_[i].end(),
                       [](const RankOpRecord* a, const RankOpRecord* b) { return a->op.end < b->op.end; });
    }
  }

  void find() {
    std::vector<std::pair<std::size_t, std::size_t>> waits;  // rank, span
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      for (std::size_t k = 0; k < ranks_[i].spans.size(); ++k)
        if (ranks_[i].spans[k].for_rank) waits.emplace_back(i, k);
    const auto end = [&](const auto& wait) {
      const Span& span = ranks_[wait.first].spans[wait.second];
      return span.begin + span.time;
    };
    std::stable_sort(waits.begin(), waits.end(), [&](const auto& a, const auto& b) { return end(a) < end(b); });
    // A rank is waited for until its own waits have ended: these are known by then, whenever they began.
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
          at->second.push_back(std::max(begun->op.end, other->second->op.end));
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
    const Nanoseconds until = begun->second->op.start;
    const std::vector<Nanoseconds>& ends = shared(rank, other);
    const auto after = std::upper_bound(ends.begin(), ends.end(), until);
    const Nanoseconds since = after == ends.begin() ? Nanoseconds{} : *std::prev(after);
    const Parts waited = waited_before(other, *begun->second, since, ranks_[rank].rank);
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

  /// parts_of() a wait that is no span of its rank's: many come to the same ones, each by another way.
  const Parts& parts_behind(std::size_t rank, const Span& wait) {
    const auto [at, is_new] = behind_.try_emplace({rank, *wait.behind, wait.begin, wait.time});
    if (is_new) at->second = parts_of(rank, wait);
    return at->second;
  }

  /// How long a rank waited for whom since an instant, `but` one, until its `op` began: in the collectives that held it
  /// up one after the other, as a reduce-scatter an all-reduce, and before the first of them on its compute stream.
  Parts waited_before(std::size_t rank, const RankOpRecord& op, Nanoseconds since, std::uint32_t but) {
    Parts out;
    const RankOpRecord* held_up = &op;
    for (const RankOpRecord* by = held_by(rank, op); by != nullptr && by->op.end > since; by = held_by(rank, *by)) {
      held_up = by;
      const auto last = is_collective(*by) && by->sequence >= 0 ? last_.find(key_of(*by)) : last_.end();
      if (last == last_.end() || last->second.rank == ranks_[rank].rank) continue;
      Span wait{SpanKind::waiting, by->step, by->phase, {}, last->second.rank, {}, std::max(by->op.start, since),
                last->first};
      wait.time = std::min(last->second.start, by->op.end) - wait.begin;
      if (wait.time.count <= 0) continue;
      for (const auto& [whom, ns] : parts_behind(rank, wait))
        if (whom != but) out[whom] += ns;
    }
    for (const auto& [whom, ns] : waited_of(rank, since, held_up->op.start, but)) out[whom] += ns;
    return out;
  }

  /// The op of another stream than the compute stream that `op` began behind; null: none did it wait for.
  const RankOpRecord* held_by(std::size_t rank, const RankOpRecord& op) const {
    const std::vector<const RankOpRecord*>& beside = beside_[rank];
    const auto after = std::upper_bound(beside.begin(), beside.end(), op.op.start,
                                        [](Nanoseconds at, const RankOpRecord* row) { return at < row->op.end; });
    if (after == beside.begin()) return nullptr;
    const RankOpRecord* before = *std::prev(after);
    const bool in_time = op.op.issue < before->op.end && op.op.start - before->op.end <= kLatency;
    return in_time && before->op.start < op.op.start ? before : nullptr;
  }

  /// How long a rank waited for whom between two instants on its compute stream, `but` one.
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
  const LastRanks& last_;
  std::vector<std::map<CollectiveKey, const RankOpRecord*>> collectives_;  // by place of the rank
  std::vector<std::vector<const RankOpRecord*>> beside_;  // the same: collectives, and ops of other streams, by end
  std::map<std::uint32_t, std::size_t> place_of_;         // by rank
  std::map<std::size_t, std::map<std::size_t, Parts>> known_;  // by place of the rank, by span
  std::map<std::pair<std::size_t, std::size_t>, std::vector<Nanoseconds>> shared_;
  /// Of parts_behind(), by the rank's place, the collective, begin and time.
  std::map<std::tuple<std::size_t, CollectiveKey, Nanoseconds, Nanoseconds>, Parts> behind_;
};

}  // namespace

void find_first_causes(std::vector<RankSpans>& ranks, const LastRanks& last) {
  FirstCauses(ranks, last).find();
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
  find_first_causes(ranks, last_ranks(run.rank_ops));
  return ranks;
}

}  // namespace foreshard::straggler_detail
