#include "traces/store/rank_fold.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>

namespace foreshard::traces {
namespace {

using Rows = std::span<const RankOpRecord>;

/// Each rank's rows, in the order of `ranks`; empty where they do not come in that order.
std::vector<Rows> by_rank(const Run& run) {
  std::vector<Rows> out;
  const Rows all(run.rank_ops);
  std::size_t at = 0;
  for (const RankRecord& rank : run.ranks) {
    const std::size_t begin = at;
    while (at < all.size() && all[at].rank == rank.rank) ++at;
    out.push_back(all.subspan(begin, at - begin));
  }
  return at == all.size() ? out : std::vector<Rows>();
}

/// Numbers by first come, from 0.
class Places {
 public:
  std::uint32_t of(CommunicatorId communicator) {
    if (!communicator.valid()) return UINT32_MAX;
    const auto [known, is_new] = places_.try_emplace(communicator.value, static_cast<std::uint32_t>(order_.size()));
    if (is_new) order_.push_back(communicator.value);
    return known->second;
  }
  [[nodiscard]] const std::vector<std::uint32_t>& order() const { return order_; }

 private:
  std::unordered_map<std::uint32_t, std::uint32_t> places_;
  std::vector<std::uint32_t> order_;
};

/// In the order in which they first come.
std::vector<std::uint32_t> communicators_of(Rows rows) {
  Places places;
  for (const RankOpRecord& row : rows) places.of(row.op.communicator);
  return places.order();
}

/// Equal for ranks that are alike; of others hardly ever. What it leaves out of a row, alike() compares.
std::uint64_t digest_of(Rows rows) {
  std::uint64_t out = rows.size();
  const auto add = [&out](auto value) {
    out = (out ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15U;
    out ^= out >> 29U;
  };
  Places places;
  for (const RankOpRecord& row : rows) {
    add(row.step);
    add(row.sequence);
    add(row.op.label.value);
    add(row.op.stream.value);
    add(row.op.issue.count);
    add(row.op.start.count);
    add(row.op.end.count);
    add(row.op.bytes);
    add(places.of(row.op.communicator));
  }
  return out;
}

bool same_but_communicator(const RankOpRecord& a, const RankOpRecord& b) {
  const DeviceOpRecord &x = a.op, &y = b.op;
  return a.step == b.step && a.phase == b.phase && a.sequence == b.sequence && x.kind == y.kind &&
         x.stream == y.stream && x.label == y.label && x.issue == y.issue && x.start == y.start && x.end == y.end &&
         x.bytes == y.bytes && x.correlation == y.correlation && x.unit == y.unit && x.kernel_class == y.kernel_class &&
         x.collective == y.collective && x.transport == y.transport &&
         x.communicator.valid() == y.communicator.valid() && x.grid == y.grid && x.block == y.block;
}

/// `to` for each of `from`'s; none where there are not as many.
using Translation = std::map<std::uint32_t, std::uint32_t>;
std::optional<Translation> translation(const std::vector<std::uint32_t>& from, const std::vector<std::uint32_t>& to) {
  if (from.size() != to.size()) return std::nullopt;
  Translation out;
  for (std::size_t i = 0; i < from.size(); ++i) out[from[i]] = to[i];
  return out;
}

bool alike(Rows a, Rows b) {
  if (a.size() != b.size() || a.empty()) return false;
  Places of_a, of_b;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!same_but_communicator(a[i], b[i]) || of_a.of(a[i].op.communicator) != of_b.of(b[i].op.communicator))
      return false;
  return true;
}

std::optional<std::vector<std::uint32_t>> parse_numbers(const std::string& text) {
  std::vector<std::uint32_t> out;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::uint32_t number = 0;
    const auto [after, error] = std::from_chars(at, end, number);
    if (error != std::errc() || (after != end && (*after != ',' || after + 1 == end))) return std::nullopt;
    out.push_back(number);
    at = after == end ? end : after + 1;
  }
  return out;
}

/// `like`'s rows as those of `fold.rank`; none where the communicators do not fit.
std::optional<std::vector<RankOpRecord>> unfolded(const RankFold& fold, Rows like) {
  const auto numbers = parse_numbers(fold.communicators);
  if (!numbers) return std::nullopt;
  const auto to = translation(communicators_of(like), *numbers);
  if (!to) return std::nullopt;
  std::vector<RankOpRecord> out(like.begin(), like.end());
  for (RankOpRecord& row : out) {
    row.rank = fold.rank;
    if (row.op.communicator.valid()) row.op.communicator = CommunicatorId{to->at(row.op.communicator.value)};
  }
  return out;
}

}  // namespace

FoldedRanks fold_ranks(const Run& run) {
  FoldedRanks out;
  const std::vector<Rows> rows = by_rank(run);
  std::unordered_map<std::uint64_t, std::vector<std::size_t>> kept;  // by digest
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (out.folds.size() < kMaxFolds) {
      std::vector<std::size_t>& others = kept[digest_of(rows[i])];
      const auto like =
          std::find_if(others.begin(), others.end(), [&](std::size_t other) { return alike(rows[other], rows[i]); });
      if (like != others.end()) {
        out.folds.push_back(
            {run.ranks[i].rank, run.ranks[*like].rank, fmt::format("{}", fmt::join(communicators_of(rows[i]), ","))});
        continue;
      }
      others.push_back(i);
    }
    out.rank_ops.insert(out.rank_ops.end(), rows[i].begin(), rows[i].end());
  }
  if (rows.empty()) out.rank_ops = run.rank_ops;
  return out;
}

std::string unfold_ranks(const std::vector<RankFold>& folds, Run& run) {
  if (folds.empty()) return {};
  if (folds.size() > kMaxFolds) return fmt::format("{} ranks are folded, at most {} can be", folds.size(), kMaxFolds);
  std::map<std::uint32_t, const RankFold*> fold_of;
  for (const RankFold& fold : folds)
    if (!fold_of.try_emplace(fold.rank, &fold).second) return fmt::format("rank {} is folded twice", fold.rank);
  std::map<std::uint32_t, Rows> own;
  const Rows all(run.rank_ops);
  for (std::size_t begin = 0, at = 0; begin < all.size(); begin = at) {
    while (at < all.size() && all[at].rank == all[begin].rank) ++at;
    if (!own.try_emplace(all[begin].rank, all.subspan(begin, at - begin)).second)
      return fmt::format("rank_op {} is apart from its rank's others", begin);
  }
  std::vector<RankOpRecord> out;
  std::size_t used = 0;
  for (const RankRecord& rank : run.ranks) {
    const auto fold = fold_of.find(rank.rank);
    const auto rows = own.find(fold == fold_of.end() ? rank.rank : fold->second->alike);
    if (fold == fold_of.end()) {
      if (rows != own.end()) out.insert(out.end(), rows->second.begin(), rows->second.end());
      continue;
    }
    ++used;
    if (rows == own.end() || own.contains(rank.rank))
      return fmt::format("rank {} is folded into rank {}, but {}", rank.rank, fold->second->alike,
                         rows == own.end() ? "that has no rows" : "has rows of its own");
    const auto copied = unfolded(*fold->second, rows->second);
    if (!copied) return fmt::format("rank {}'s communicators do not fit rank {}'s", rank.rank, fold->second->alike);
    out.insert(out.end(), copied->begin(), copied->end());
  }
  if (used != folds.size()) return "a folded rank is not among the ranks";
  std::set<std::uint32_t> listed;
  for (const RankRecord& rank : run.ranks) listed.insert(rank.rank);
  for (const auto& [rank, rows] : own)
    if (!listed.contains(rank)) return fmt::format("rank_op names rank {}, which is not there", rank);
  run.rank_ops = std::move(out);
  return {};
}

}  // namespace foreshard::traces
