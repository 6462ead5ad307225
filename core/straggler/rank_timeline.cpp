#include "core/straggler/rank_timeline.hpp"

#include <algorithm>
#include <cstdint>

namespace foreshard::straggler_detail {
namespace {

bool of_a_collective(const RankOpRecord& row) {
  return row.op.kind == DeviceOpRecord::Kind::collective;
}

std::vector<const RankOpRecord*> sorted(std::span<const RankOpRecord> ops, bool (*wanted)(const RankOpRecord&),
                                        Nanoseconds DeviceOpRecord::*by) {
  std::vector<const RankOpRecord*> out;
  for (const RankOpRecord& row : ops)
    if (wanted(row)) out.push_back(&row);
  std::stable_sort(out.begin(), out.end(),
                   [by](const RankOpRecord* a, const RankOpRecord* b) { return a->op.*by < b->op.*by; });
  return out;
}

class ComputeStream {
 public:
  ComputeStream(std::span<const RankOpRecord> ops, const LastRanks& last)
      : last_(last),
        compute_(sorted(
            ops, [](const RankOpRecord& row) { return !of_a_collective(row) && row.op.stream == kComputeStream; },
            &DeviceOpRecord::start)),
        beside_(sorted(
            ops, [](const RankOpRecord& row) { return of_a_collective(row) || row.op.stream != kComputeStream; },
            &DeviceOpRecord::end)) {}

  std::vector<Span> spans() {
    if (compute_.empty()) return {};
    Nanoseconds at = compute_.front()->op.start;
    for (const RankOpRecord* row : compute_) {
      if (row->op.start > at) gap(at, *row);
      const Nanoseconds start = std::max(at, row->op.start);
      if (row->op.end > start)
        out_.push_back({SpanKind::compute, row->step, row->phase, row->op.end - start, {}, row->op.label, start, {}});
      at = std::max(at, row->op.end);
    }
    return std::move(out_);
  }

 private:
  /// An op whose call was not recorded counts as issued in time.
  static Nanoseconds issued(const RankOpRecord& row) {
    return row.op.issue < row.op.start ? row.op.issue : Nanoseconds{INT64_MIN};
  }

  /// What the compute stream waits for from `at` until `next` starts: collectives that end in between. From the end
  /// backwards: what ended last held it up since that began, and what ended before only until then. What ended
  /// after the op at hand had begun did not hold that up, and what ended before it was issued did not either: the host
  /// was late (explain_time has it alike).
  void gap(Nanoseconds at, const RankOpRecord& next) {
    const Nanoseconds end = next.op.start;
    while (next_ < beside_.size() && beside_[next_]->op.end <= at) ++next_;
    const std::size_t first = next_;
    while (next_ < beside_.size() && beside_[next_]->op.end <= end) ++next_;
    std::vector<Span> backwards;
    Nanoseconds until = end;
    const RankOpRecord* held_up = &next;
    const auto add = [&](SpanKind kind, LabelId phase, Nanoseconds from, std::optional<std::uint32_t> rank,
                         std::optional<CollectiveKey> behind = {}) {
      from = std::max(from, at);
      if (until <= from) return;
      backwards.push_back({kind, next.step, phase, until - from, rank, {}, from, behind});
      until = from;
    };
    for (std::size_t i = next_; i-- > first;) {
      const RankOpRecord& row = *beside_[i];
      if (row.op.end > held_up->op.start) continue;
      if (row.op.end <= issued(*held_up)) break;
      held_up = &row;
      if (!of_a_collective(row)) continue;  // behind a collective, or before one
      add(SpanKind::idle, next.phase, row.op.end, {});
      const auto last = row.sequence >= 0 ? last_.find(key_of(row)) : last_.end();
      const bool waits = last != last_.end() && last->second.rank != row.rank;
      if (waits) add(SpanKind::communication, next.phase, std::min(last->second.start, row.op.end), {});
      if (waits) add(SpanKind::waiting, row.phase, row.op.start, last->second.rank, last->first);
      add(SpanKind::communication, next.phase, row.op.start, {});
    }
    add(SpanKind::idle, next.phase, at, {});
    out_.insert(out_.end(), backwards.rbegin(), backwards.rend());
  }

  const LastRanks& last_;
  std::vector<const RankOpRecord*> compute_;  // by start
  std::vector<const RankOpRecord*> beside_;   // collectives, and ops of other streams, by end
  std::size_t next_ = 0;                      // of beside_, not yet looked at
  std::vector<Span> out_;
};

}  // namespace

LastRanks last_ranks(const std::vector<RankOpRecord>& ops) {
  LastRanks out;
  for (const RankOpRecord& row : ops) {
    if (!of_a_collective(row) || row.sequence < 0) continue;
    const auto [last, is_new] = out.try_emplace(key_of(row), LastRank{row.rank, row.op.start});
    if (is_new || row.op.start <= last->second.start) continue;
    last->second.rank = row.rank;
    last->second.start = row.op.start;
  }
  return out;
}

std::vector<Span> compute_stream(std::span<const RankOpRecord> ops, const LastRanks& last) {
  return ComputeStream(ops, last).spans();
}

}  // namespace foreshard::straggler_detail
