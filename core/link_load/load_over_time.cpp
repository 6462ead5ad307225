#include <algorithm>
#include <functional>
#include <queue>
#include <span>
#include <utility>

#include "core/link_load/link_load.hpp"

namespace foreshard {
namespace {

/// Beyond it nothing is levelled: a run has a few collectives side by side, a damaged store may have all of them.
constexpr std::size_t kMaxPieces = std::size_t{1} << 22;
constexpr int kRounds = 64;
constexpr double kRounding = 1e-9;

/// The part of a transfer in one slice of time.
struct Piece {
  std::size_t slice = 0;
  double bytes = 0;
};

struct Slice {
  Nanoseconds begin;
  Nanoseconds end;
  double bytes = 0;
  [[nodiscard]] double length() const { return static_cast<double>((end - begin).count); }
};

/// A transfer in the slices [first, last).
struct Moving {
  std::size_t first = 0;
  std::size_t last = 0;
  double bytes = 0;
};

/// Between any two of the transfers' begins and ends, in order. GB/s are bytes a nanosecond.
class Slices {
 public:
  explicit Slices(const LinkLoad& link) : most_(std::max(link.most, 0.0)) {
    std::vector<Nanoseconds> times;
    for (const LinkTransfer& transfer : link.transfers)
      if (moves(transfer)) times.insert(times.end(), {transfer.begin, transfer.end});
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    for (std::size_t i = 0; i + 1 < times.size(); ++i) slices_.push_back({times[i], times[i + 1]});
    for (const LinkTransfer& transfer : link.transfers)
      if (moves(transfer)) add(transfer);
  }

  /// Moves what is too much to where there is room, as far as that goes: most often all of it, with little moved. It
  /// may stall where a transfer would have to make room for another that makes room for a third.
  void level() {
    if (pieces_ > kMaxPieces) return;
    for (int round = 0; round < kRounds && any_full(); ++round) {
      const std::vector<Slice> before = slices_;
      for (std::vector<Piece>& transfer : transfers_) level(transfer, before);
    }
  }

  /// Fills anew what level() left too full, by groups of transfers that nothing outside of them overlaps.
  void fill_full() {
    std::stable_sort(moving_.begin(), moving_.end(),
                     [](const Moving& a, const Moving& b) { return a.first < b.first; });
    for (std::size_t from = 0, to = 0; from < moving_.size(); from = to) {
      std::size_t last = moving_[from].last;
      for (to = from + 1; to < moving_.size() && moving_[to].first < last; ++to)
        last = std::max(last, moving_[to].last);
      const auto begin = slices_.begin() + static_cast<std::ptrdiff_t>(moving_[from].first);
      const auto end = slices_.begin() + static_cast<std::ptrdiff_t>(last);
      if (std::any_of(begin, end, [this](const Slice& slice) { return is_full(slice); }))
        fill(std::span(moving_).subspan(from, to - from), last);
    }
  }

  [[nodiscard]] std::vector<LoadStretch> stretches() const {
    std::vector<LoadStretch> out;
    for (const Slice& slice : slices_)
      if (slice.bytes > 0) out.push_back({slice.begin, slice.end, slice.bytes / slice.length()});
    return out;
  }

 private:
  static bool moves(const LinkTransfer& transfer) { return transfer.end > transfer.begin && transfer.bytes > 0; }

  void add(const LinkTransfer& transfer) {
    const auto whole = static_cast<double>((transfer.end - transfer.begin).count);
    auto at = std::lower_bound(slices_.begin(), slices_.end(), transfer.begin,
                               [](const Slice& slice, Nanoseconds time) { return slice.begin < time; });
    transfers_.emplace_back();
    const auto first = static_cast<std::size_t>(at - slices_.begin());
    for (; at != slices_.end() && at->begin < transfer.end; ++at) {
      const double bytes = transfer.bytes * at->length() / whole;
      at->bytes += bytes;
      if (++pieces_ <= kMaxPieces) transfers_.back().push_back({static_cast<std::size_t>(at - slices_.begin()), bytes});
    }
    moving_.push_back({first, static_cast<std::size_t>(at - slices_.begin()), transfer.bytes});
  }

  [[nodiscard]] double room(const Slice& slice) const { return most_ * slice.length() - slice.bytes; }
  [[nodiscard]] bool is_full(const Slice& slice) const {
    return slice.bytes > most_ * slice.length() * (1 + kRounding);
  }
  [[nodiscard]] bool any_full() const {
    return std::any_of(slices_.begin(), slices_.end(), [this](const Slice& slice) { return is_full(slice); });
  }

  /// Its part of what is too much in `before`, into the slices of its own that had room, by their room.
  void level(std::vector<Piece>& transfer, const std::vector<Slice>& before) {
    double over = 0, rooms = 0;
    for (const Piece& piece : transfer) {
      const Slice& slice = before[piece.slice];
      if (is_full(slice))
        over += piece.bytes * (1 - most_ * slice.length() / slice.bytes);
      else
        rooms += std::max(room(slice), 0.0);
    }
    if (over <= 0 || rooms <= 0) return;
    const double moved = std::min(over, rooms);
    for (Piece& piece : transfer) {
      const Slice& slice = before[piece.slice];
      const double change = is_full(slice) ? -piece.bytes * (1 - most_ * slice.length() / slice.bytes) * moved / over
                                           : moved * std::max(room(slice), 0.0) / rooms;
      piece.bytes += change;
      slices_[piece.slice].bytes += change;
    }
  }

  /// Earliest end first (Horn 1974, "Some simple scheduling algorithms"): where the bytes of every window fit into it,
  /// all of them are placed. Else as many as can be are; the rest goes evenly on top of its own transfer's slices,
  /// which are then all at their most. `group` is by first slice.
  void fill(std::span<Moving> group, std::size_t last) {
    using Ending = std::pair<std::size_t, std::size_t>;  // last slice, index in group
    std::priority_queue<Ending, std::vector<Ending>, std::greater<>> there;
    for (std::size_t i = group.front().first; i < last; ++i) slices_[i].bytes = 0;
    std::size_t next = 0;
    for (std::size_t i = group.front().first; i < last; ++i) {
      for (; next < group.size() && group[next].first == i; ++next) there.emplace(group[next].last, next);
      Slice& slice = slices_[i];
      double left = room(slice);
      for (; !there.empty(); there.pop()) {
        double& bytes = group[there.top().second].bytes;
        if (bytes > left * (1 + kRounding)) {
          bytes -= left;
          slice.bytes += left;
          break;
        }
        slice.bytes += bytes;
        left = std::max(left - bytes, 0.0);
      }
      for (; !there.empty() && there.top().first == i + 1; there.pop()) add_evenly(group[there.top().second]);
    }
  }

  void add_evenly(const Moving& rest) {
    const auto whole = static_cast<double>((slices_[rest.last - 1].end - slices_[rest.first].begin).count);
    for (std::size_t i = rest.first; i < rest.last; ++i) slices_[i].bytes += rest.bytes * slices_[i].length() / whole;
  }

  double most_;
  std::vector<Slice> slices_;
  std::vector<std::vector<Piece>> transfers_;
  std::vector<Moving> moving_;
  std::size_t pieces_ = 0;
};

}  // namespace

std::vector<LoadStretch> load_over_time(const LinkLoad& link) {
  Slices slices(link);
  slices.level();
  slices.fill_full();
  return slices.stretches();
}

}  // namespace foreshard
