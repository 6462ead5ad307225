#include "core/timeline/isolated_durations.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "core/base/median.hpp"

namespace foreshard {
namespace {

constexpr std::array<std::ptrdiff_t, 4> kNeighbours{4, 2, 1, 0};
/// Isolated times of one kernel: the reference runs' spread is below 1.1; other shapes differ by more. Short kernels
/// spread by the clock's resolution and their launch: 2 us.
constexpr double kUniform = 1.3;
constexpr double kShort = 2000;

/// An op's name and shape as one number each, so that windows of neighbours compare quickly.
std::vector<std::uint32_t> shapes(const Run& run, const std::vector<ComputeOp>& ops) {
  using Shape = std::array<std::uint32_t, 7>;
  std::map<Shape, std::uint32_t> numbers;
  std::vector<std::uint32_t> out;
  out.reserve(ops.size());
  for (const ComputeOp& op : ops) {
    const DeviceOpRecord& record = run.device_ops[op.index];
    const Shape shape{record.label.value, record.grid[0],  record.grid[1], record.grid[2],
                      record.block[0],    record.block[1], record.block[2]};
    out.push_back(numbers.emplace(shape, static_cast<std::uint32_t>(numbers.size() + 1)).first->second);
  }
  return out;
}

/// Of nanoseconds.
std::optional<Nanoseconds> median_if_uniform(const std::vector<double>& times) {
  if (times.empty()) return std::nullopt;
  const auto [least, most] = std::minmax_element(times.begin(), times.end());
  if (*most > kUniform * *least + kShort) return std::nullopt;
  return Nanoseconds{static_cast<std::int64_t>(median(times))};
}

/// Gives a time to every op that has none yet and isolated twins, `near` neighbours being equal.
class Level {
 public:
  Level(const std::vector<std::uint32_t>& shapes, std::ptrdiff_t near) : shapes_(shapes), near_(near) {}

  void fill(const std::vector<ComputeOp>& ops, std::vector<std::optional<Nanoseconds>>& times) const {
    std::vector<std::size_t> order(ops.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
      const int compared = compare(a, b);
      return compared != 0 ? compared < 0 : a < b;
    });
    for (std::size_t first = 0; first < order.size();) {
      std::size_t last = first;
      std::vector<double> isolated;
      for (; last < order.size() && compare(order[first], order[last]) == 0; ++last)
        if (ops[order[last]].ran_isolated()) isolated.push_back(static_cast<double>(ops[order[last]].length().count));
      if (const auto time = median_if_uniform(isolated))
        for (std::size_t i = first; i < last; ++i)
          if (!times[order[i]]) times[order[i]] = time;
      first = last;
    }
  }

 private:
  [[nodiscard]] std::uint32_t at(std::size_t place, std::ptrdiff_t offset) const {
    const std::ptrdiff_t i = static_cast<std::ptrdiff_t>(place) + offset;
    return i < 0 || i >= static_cast<std::ptrdiff_t>(shapes_.size()) ? 0 : shapes_[static_cast<std::size_t>(i)];
  }
  [[nodiscard]] int compare(std::size_t a, std::size_t b) const {
    if (at(a, 0) != at(b, 0)) return at(a, 0) < at(b, 0) ? -1 : 1;
    for (std::ptrdiff_t i = -near_; i <= near_; ++i)
      if (at(a, i) != at(b, i)) return at(a, i) < at(b, i) ? -1 : 1;
    return 0;
  }

  const std::vector<std::uint32_t>& shapes_;
  std::ptrdiff_t near_;
};

}  // namespace

std::vector<std::optional<Nanoseconds>> isolated_durations(const Run& run, const std::vector<ComputeOp>& ops) {
  const std::vector<std::uint32_t> numbers = shapes(run, ops);
  std::vector<std::optional<Nanoseconds>> times(ops.size());
  for (const std::ptrdiff_t near : kNeighbours) Level(numbers, near).fill(ops, times);
  return times;
}

}  // namespace foreshard
