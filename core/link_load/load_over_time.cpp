#include <algorithm>

#include "core/link_load/link_load.hpp"

namespace foreshard {
namespace {

/// Beyond it what is too much for the link stays where it is: a run has a few collectives side by side, a damaged store
/// may have all of them.
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
  std::size_t transfers = 0;
  [[nodiscard]] double length() const { return static_cast<double>((end - begin).count); }
};

/// Between any two of the transfers' begins and ends, in order. GB/s are bytes a nanosecond.
class Slices {
 public:
  explicit Slices(const LinkLoad& link) : most_(link.most) {
    std::vector<Nanoseconds> times;
    for (const LinkTransfer& transfer : link.transfers)
      if (moves(transfer)) times.insert(times.end(), {transfer.begin, transfer.end});
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    for (std::size_t i = 0; i + 1 < times.size(); ++i) slices_.push_back({times[i], times[i + 1]});
    for (const LinkTransfer& transfer : link.transfers)
      if (moves(transfer)) add(transfer);
  }

  /// Moves what is too much, as far as that goes.
  void level() {
    if (pieces_ > kMaxPieces) return;
    for (int round = 0; round < kRounds && any_full(); ++round) {
      const std::vector<Slice> before = slices_;
      for (std::vector<Piece>& transfer : transfers_) level(transfer, before);
    }
  }

  [[nodiscard]] std::vector<LoadStretch> stretches() const {
    std::vector<LoadStretch> out;
    for (const Slice& slice : slices_)
      if (slice.transfers > 0) out.push_back({slice.begin, slice.end, slice.bytes / slice.length()});
    return out;
  }

 private:
  static bool moves(const LinkTransfer& transfer) { return transfer.end > transfer.begin && transfer.bytes > 0; }

  void add(const LinkTransfer& transfer) {
    const auto whole = static_cast<double>((transfer.end - transfer.begin).count);
    auto at = std::lower_bound(slices_.begin(), slices_.end(), transfer.begin,
                               [](const Slice& slice, Nanoseconds time) { return slice.begin < time; });
    transfers_.emplace_back();
    for (; at != slices_.end() && at->begin < transfer.end; ++at) {
      const double bytes = transfer.bytes * at->length() / whole;
      at->bytes += bytes;
      ++at->transfers;
      if (++pieces_ <= kMaxPieces) transfers_.back().push_back({static_cast<std::size_t>(at - slices_.begin()), bytes});
    }
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

  double most_;
  std::vector<Slice> slices_;
  std::vector<std::vector<Piece>> transfers_;
  std::size_t pieces_ = 0;
};

}  // namespace

std::vector<LoadStretch> load_over_time(const LinkLoad& link) {
  Slices slices(link);
  slices.level();
  return slices.stretches();
}

}  // namespace foreshard
