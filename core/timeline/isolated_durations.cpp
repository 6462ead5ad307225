#include "core/timeline/isolated_durations.hpp"

#include <algorithm>
#include <array>
#include <unordered_map>

#include "core/base/median.hpp"

namespace foreshard {
namespace {

/// Isolated times of one kernel: the reference runs' spread is below 1.1; other shapes differ by more. Short kernels
/// spread by the clock's resolution and their launch: 2 us.
constexpr double kUniform = 1.3;
constexpr double kShort = 2000;

struct Hash {
  template <std::size_t N>
  std::size_t operator()(const std::array<std::uint32_t, N>& of) const {
    std::uint64_t hash = 0;
    for (const std::uint32_t number : of) hash = (hash + number) * 0x9e3779b97f4a7c15u;
    return hash ^ hash >> 32;
  }
};

/// An op's name and shape as one number each, from 1.
std::vector<std::uint32_t> shapes(const Run& run, const std::vector<ComputeOp>& ops) {
  using Shape = std::array<std::uint32_t, 7>;
  std::unordered_map<Shape, std::uint32_t, Hash> numbers;  // lookup only
  std::vector<std::uint32_t> out;
  out.reserve(ops.size());
  for (const ComputeOp& op : ops) {
    const DeviceOpRecord& record = run.device_ops[op.index];
    const Shape shape{record.label.value, record.grid[0],  record.grid[1], record.grid[2],
                      record.block[0],    record.block[1], record.block[2]};
    out.push_back(numbers.try_emplace(shape, static_cast<std::uint32_t>(numbers.size() + 1)).first->second);
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

using Numbers = std::vector<std::uint32_t>;

/// The same number for equal triples (numbers[i - step], numbers[i], numbers[i + step]), from 1; 0 stands beyond the
/// ends. Of windows of 2 × near + 1 shapes it makes windows of 2 × (near + step) + 1 for step ≤ near + 1.
Numbers widened(const Numbers& numbers, std::size_t step) {
  std::unordered_map<std::array<std::uint32_t, 3>, std::uint32_t, Hash> known;  // lookup only
  Numbers out(numbers.size());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::array<std::uint32_t, 3> window{i < step ? 0 : numbers[i - step], numbers[i],
                                              i + step < numbers.size() ? numbers[i + step] : 0};
    out[i] = known.try_emplace(window, static_cast<std::uint32_t>(known.size() + 1)).first->second;
  }
  return out;
}

/// Gives a time to every op that has none yet and isolated twins, ops of one number.
void fill(const Numbers& numbers, const std::vector<ComputeOp>& ops, std::vector<std::optional<Nanoseconds>>& times) {
  const std::size_t count = numbers.empty() ? 0 : *std::max_element(numbers.begin(), numbers.end()) + std::size_t{1};
  std::vector<std::vector<double>> isolated(count);
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (ops[i].ran_isolated()) isolated[numbers[i]].push_back(static_cast<double>(ops[i].length().count));
  std::vector<std::optional<Nanoseconds>> time_of(count);
  for (std::size_t number = 0; number < count; ++number) time_of[number] = median_if_uniform(isolated[number]);
  for (std::size_t i = 0; i < ops.size(); ++i)
    if (!times[i]) times[i] = time_of[numbers[i]];
}

}  // namespace

std::vector<std::optional<Nanoseconds>> isolated_durations(const Run& run, const std::vector<ComputeOp>& ops) {
  const Numbers alone = shapes(run, ops);
  const Numbers beside_1 = widened(alone, 1);
  const Numbers beside_2 = widened(beside_1, 1);
  const Numbers beside_4 = widened(beside_2, 2);
  std::vector<std::optional<Nanoseconds>> times(ops.size());
  for (const Numbers* numbers : {&beside_4, &beside_2, &beside_1, &alone}) fill(*numbers, ops, times);
  return times;
}

}  // namespace foreshard
