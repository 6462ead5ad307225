#include "traces/capture/profiled_sizes.hpp"

#include <algorithm>
#include <cmath>

namespace foreshard::traces {
namespace {

constexpr std::size_t kNone = ProfiledSizes::kNone;

// Costs, in natural logarithms of ratios.
constexpr double kSameRatio = 0.05;    // tiles of a grid round sizes up
constexpr double kUnlinked = 0.1;      // a step has none of the sizes: rather than to be two tiles of such off
constexpr double kSmallerTile = 0.01;  // of alike sizes the one of the larger tile

double blocks_of(const StepTiming& timing) {
  double blocks = 0;
  for (const TimedSegment& segment : timing.segments)
    for (const TimedItem& item : segment.items)
      if (item.kind == OpKind::kernel && item.kernel.kernel_class == KernelClass::memory_bound)
        blocks += static_cast<double>(item.blocks);
  return std::max(1.0, blocks);
}

/// The largest tile under which a step of that size has such a grid; 0: none.
std::uint32_t fitting_tile(const AttentionShape& shape, const RecordedStep& step) {
  std::uint32_t found = 0;
  if (step.batch != 0 && step.batch != shape.batch) return found;
  for (const std::uint32_t tile : shape.tile_sizes)
    if ((std::uint64_t{step.seq} + tile - 1) / tile == shape.tiles) found = std::max(found, tile);
  return found;
}

/// A size that a profiled step may have.
struct Candidate {
  std::size_t size = kNone;
  double cost = kUnlinked;
};

class Assignment {
 public:
  Assignment(const StepSizes& sizes, std::span<const StepTiming* const> profiled) : sizes_(sizes) {
    std::vector<std::size_t> count(sizes.bytes.size());
    std::vector<RecordedStep> shape(sizes.bytes.size());
    for (std::size_t k = 0; k < sizes.size_of.size(); ++k) {
      ++count[sizes.size_of[k]];
      if (k < sizes.steps.size()) shape[sizes.size_of[k]] = sizes.steps[k];
    }
    for (const StepTiming* timing : profiled) {
      blocks_.push_back(blocks_of(*timing));
      const HookPlaces& hooks = hooks_.emplace_back(hook_places(*timing));
      std::vector<Candidate>& list = candidates_.emplace_back();
      for (std::size_t s = 0; s < sizes.bytes.size(); ++s) {
        if (!sizes.hooks.empty() && sizes.hooks[s] != hooks) continue;
        const bool known = timing->attention && shape[s].seq > 0;
        const std::uint32_t tile = known ? fitting_tile(*timing->attention, shape[s]) : 0;
        if (known && tile == 0) continue;
        const auto& tiles = timing->attention ? timing->attention->tile_sizes : std::vector<std::uint32_t>();
        const bool largest = !known || tile == *std::max_element(tiles.begin(), tiles.end());
        list.push_back({s, largest ? 0 : kSmallerTile});
      }
      // Of sizes that fit alike the most frequent comes first.
      std::stable_sort(list.begin(), list.end(),
                       [&](const Candidate& a, const Candidate& b) { return count[a.size] > count[b.size]; });
      if (list.empty() || profiled.size() > 1) list.emplace_back();
    }
    descend(0);
  }

  [[nodiscard]] ProfiledSizes result() const {
    ProfiledSizes out;
    out.size_of = best_;
    out.bytes = bytes_of_steps();
    double mismatch = 0;
    std::size_t linked = 0;
    bool several = false;
    for (std::size_t i = 0; i < best_.size(); ++i) {
      if (best_[i] == kNone) continue;
      ++linked;
      mismatch = std::max(mismatch, mismatch_of(best_, i, best_[i]));
      several = std::count_if(candidates_[i].begin(), candidates_[i].end(),
                              [](const Candidate& c) { return c.size != kNone; }) > 1;
    }
    out.assumed = linked == 0 || mismatch > kSameRatio || (linked == 1 && several);
    return out;
  }

 private:
  static constexpr std::size_t kMaxTries = 100'000;

  /// Branch and bound over the steps' sizes; `cost` is that of those chosen.
  void descend(double cost) {
    const std::size_t step = chosen_.size();
    if (!best_.empty() && (cost >= cost_ || ++tries_ > kMaxTries)) return;
    if (step == candidates_.size()) {
      cost_ = cost;
      best_ = chosen_;
      return;
    }
    for (const Candidate& candidate : candidates_[step]) {
      const double more = candidate.cost + mismatch_of(chosen_, step, candidate.size);
      chosen_.push_back(candidate.size);
      descend(cost + more);
      chosen_.pop_back();
    }
  }

  /// Of a step's size beside those of the steps before it, a step on average: many steps are no worse than few.
  [[nodiscard]] double mismatch_of(const std::vector<std::size_t>& chosen, std::size_t step, std::size_t size) const {
    double sum = 0;
    std::size_t links = 0;
    for (std::size_t j = 0; j < step && size != kNone; ++j) {
      if (chosen[j] == kNone || hooks_[j] != hooks_[step]) continue;
      sum += std::abs(std::log(blocks_[step] / blocks_[j]) - std::log(bytes(size) / bytes(chosen[j])));
      ++links;
    }
    return links == 0 ? 0 : sum / static_cast<double>(links);
  }

  [[nodiscard]] double bytes(std::size_t size) const {
    return static_cast<double>(std::max<Bytes>(1, sizes_.bytes[size]));
  }

  /// Where none has a recorded size, the first is as large as the largest.
  [[nodiscard]] std::vector<double> bytes_of_steps() const {
    const auto linked = std::find_if(best_.begin(), best_.end(), [](std::size_t s) { return s != kNone; });
    const auto link = linked == best_.end() ? 0 : static_cast<std::size_t>(linked - best_.begin());
    const auto largest = std::max_element(sizes_.bytes.begin(), sizes_.bytes.end()) - sizes_.bytes.begin();
    const double known = bytes(linked == best_.end() ? static_cast<std::size_t>(largest) : *linked);
    std::vector<double> out;
    for (std::size_t i = 0; i < best_.size(); ++i)
      out.push_back(best_[i] != kNone ? bytes(best_[i]) : std::max(1.0, known * blocks_[i] / blocks_[link]));
    return out;
  }

  const StepSizes& sizes_;
  std::vector<double> blocks_;  // by profiled step, as the next two
  std::vector<HookPlaces> hooks_;
  std::vector<std::vector<Candidate>> candidates_;
  std::vector<std::size_t> chosen_;
  std::vector<std::size_t> best_;
  double cost_ = 0;
  std::size_t tries_ = 0;
};

}  // namespace

ProfiledSizes profiled_sizes(const StepSizes& sizes, std::span<const StepTiming* const> profiled) {
  return Assignment(sizes, profiled).result();
}

}  // namespace foreshard::traces
