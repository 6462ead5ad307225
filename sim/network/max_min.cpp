#include "sim/network/max_min.hpp"

#include <algorithm>

#include "core/base/check.hpp"

namespace foreshard::sim {
namespace {

/// Links of some flows, numbered densely, and what is left of each.
class Filling {
 public:
  Filling(std::span<const double> capacity, std::span<const Flow> flows) : flows_(flows), rates_(flows.size(), -1) {
    for (const Flow& flow : flows)
      for (const LinkShare& share : flow.shares) links_.push_back(share.link);
    std::sort(links_.begin(), links_.end());
    links_.erase(std::unique(links_.begin(), links_.end()), links_.end());
    left_.reserve(links_.size());
    for (const std::uint32_t link : links_) left_.push_back(capacity[link]);
    asked_.resize(links_.size());
    for (const Flow& flow : flows)
      for (const LinkShare& share : flow.shares) asked_[dense(share.link)] += share.share;
  }

  std::vector<double> run() {
    std::size_t open = flows_.size();
    while (open > 0) {
      const double level = next_level();
      const std::vector<bool> full = full_at(level);
      std::vector<std::size_t> stopped;
      for (std::size_t i = 0; i < flows_.size(); ++i)
        if (rates_[i] < 0 && (flows_[i].most <= level || on_full_link(flows_[i], full))) stopped.push_back(i);
      FORESHARD_CHECK(!stopped.empty(), "a flow that nothing holds and that has no end");
      for (const std::size_t i : stopped) stop(i, std::min(level, flows_[i].most));
      open -= stopped.size();
    }
    return std::move(rates_);
  }

 private:
  [[nodiscard]] std::size_t dense(std::uint32_t link) const {
    return static_cast<std::size_t>(std::lower_bound(links_.begin(), links_.end(), link) - links_.begin());
  }

  /// To where all open flows can be raised together.
  [[nodiscard]] double next_level() const {
    double level = std::numeric_limits<double>::infinity();
    for (std::size_t l = 0; l < links_.size(); ++l)
      if (asked_[l] > kNothing) level = std::min(level, std::max(0.0, left_[l]) / asked_[l]);
    for (std::size_t i = 0; i < flows_.size(); ++i)
      if (rates_[i] < 0) level = std::min(level, flows_[i].most);
    return level;
  }

  [[nodiscard]] std::vector<bool> full_at(double level) const {
    constexpr double kRounding = 1 + 1e-12;
    std::vector<bool> full(links_.size());
    for (std::size_t l = 0; l < links_.size(); ++l)
      full[l] = asked_[l] > kNothing && std::max(0.0, left_[l]) / asked_[l] <= level * kRounding;
    return full;
  }

  [[nodiscard]] bool on_full_link(const Flow& flow, const std::vector<bool>& full) const {
    return std::any_of(flow.shares.begin(), flow.shares.end(),
                       [&](const LinkShare& share) { return full[dense(share.link)]; });
  }

  void stop(std::size_t i, double rate) {
    rates_[i] = rate;
    for (const LinkShare& share : flows_[i].shares) {
      const std::size_t l = dense(share.link);
      asked_[l] -= share.share;
      left_[l] -= share.share * rate;
    }
  }

  static constexpr double kNothing = 1e-9;  // what is left of sums of shares of flows that have all stopped

  std::span<const Flow> flows_;
  std::vector<double> rates_;
  std::vector<std::uint32_t> links_;
  std::vector<double> left_;   // of a link, beside flows that have stopped
  std::vector<double> asked_;  // of a link, by all others at rate 1
};

}  // namespace

std::vector<double> max_min_rates(std::span<const double> capacity, std::span<const Flow> flows) {
  return Filling(capacity, flows).run();
}

}  // namespace foreshard::sim
