#include "core/base/add_up.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>

namespace foreshard {
namespace {

/// In which format_bytes() prints a size.
Bytes unit_of(Bytes bytes) {
  Bytes unit = 1;
  while (bytes / unit >= 1024 && unit < (Bytes{1} << 40U)) unit *= 1024;
  return unit;
}

}  // namespace

double as_printed(double value, int decimals) {
  const std::string text = fmt::format("{:.{}f}", value, decimals);
  double out = value;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

double printed_difference(double a, double b, int decimals) {
  return as_printed(as_printed(a, decimals) - as_printed(b, decimals), decimals);
}

Bytes printed_difference(Bytes a, Bytes b) {
  const Bytes larger = std::max(a, b), smaller = std::min(a, b);
  const Bytes unit = unit_of(larger);
  const auto in_unit = [&](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(unit); };
  if (larger - smaller < unit) return larger - smaller;
  return static_cast<Bytes>(printed_difference(in_unit(larger), in_unit(smaller), 2) * static_cast<double>(unit));
}

std::vector<double> add_up(const std::vector<double>& parts, double whole, int decimals) {
  const double scale = std::pow(10, decimals);
  const auto units = static_cast<std::int64_t>(std::llround(as_printed(whole, decimals) * scale));
  std::vector<std::int64_t> out;
  std::vector<double> left;
  for (const double part : parts) {
    out.push_back(static_cast<std::int64_t>(std::floor(part * scale)));
    left.push_back(part * scale - static_cast<double>(out.back()));
  }
  const std::int64_t up = units - std::accumulate(out.begin(), out.end(), std::int64_t{0});
  std::vector<double> values;
  if (up < 0 || up > static_cast<std::int64_t>(parts.size())) {
    for (const double part : parts) values.push_back(as_printed(part, decimals));
    return values;
  }
  std::vector<std::size_t> order(parts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return left[a] > left[b]; });
  for (std::size_t i = 0; i < static_cast<std::size_t>(up); ++i) ++out[order[i]];
  for (const std::int64_t units_of : out) values.push_back(static_cast<double>(units_of) / scale);
  return values;
}

std::vector<Bytes> add_up(const std::vector<Bytes>& parts, Bytes whole) {
  const Bytes unit = unit_of(whole);
  if (unit == 1) return parts;
  const auto in_unit = [&](Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(unit); };
  double rest = as_printed(in_unit(whole), 2);
  std::vector<Bytes> out = parts;
  Bytes* last = nullptr;
  for (Bytes& part : out) {
    const bool large = unit_of(part) == unit;
    if (large && last != nullptr) rest -= as_printed(in_unit(*last), 2);
    if (large) last = &part;
    if (!large) rest -= in_unit(part);
  }
  // Parts that do not make the whole stay as they are.
  if (last != nullptr && std::abs(rest - in_unit(*last)) <= 0.01 * static_cast<double>(parts.size()) && rest > 0)
    *last = static_cast<Bytes>(std::llround(rest * static_cast<double>(unit)));
  return out;
}

std::vector<double> shares_of(const std::vector<double>& parts, int decimals) {
  const double sum = std::accumulate(parts.begin(), parts.end(), 0.0);
  if (sum <= 0) return std::vector<double>(parts.size());
  std::vector<double> percent;
  for (const double part : parts) percent.push_back(100 * part / sum);
  return add_up(percent, 100, decimals);
}

}  // namespace foreshard
