#include "sim/forecast/lengths.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <numbers>
#include <optional>
#include <set>

#include "core/base/units.hpp"
#include "sim/engine/spread.hpp"

namespace foreshard::sim {
namespace {

constexpr std::string_view kUniform = "uniform:";
constexpr std::string_view kLognormal = "lognormal:";
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // editors and spreadsheets write it
constexpr double kMaxSigma = 3;

/// Above 0, at most 1: 53 bits.
double fraction(std::uint64_t bits) {
  return static_cast<double>((bits >> 11U) + 1) * 0x1p-53;
}

/// Of mean 0 and deviation 1 (Box and Muller).
double normal(std::uint64_t key) {
  return std::sqrt(-2 * std::log(fraction(mixed(key, 0)))) * std::cos(2 * std::numbers::pi * fraction(mixed(key, 1)));
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

std::optional<std::uint32_t> length_in(std::string_view text) {
  const auto value = parse_count(text);
  if (!value || *value == 0 || *value > kMaxLength) return std::nullopt;
  return *value;
}

tl::unexpected<Error> refuse(std::string what) {
  return fail(ErrorKind::usage, std::move(what), "--lengths", kLengthForms);
}

/// "256..2048"
Result<void> read_range(std::string_view text, std::uint32_t& least, std::uint32_t& most) {
  const std::size_t dots = text.find("..");
  const auto from = dots == std::string_view::npos ? std::nullopt : length_in(text.substr(0, dots));
  const auto to = dots == std::string_view::npos ? std::nullopt : length_in(text.substr(dots + 2));
  if (!from || !to || *from > *to) return refuse(fmt::format("'{}' is no range of lengths", text));
  least = *from;
  most = *to;
  return {};
}

std::optional<double> number_in(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

Lengths Lengths::constant(std::uint32_t length) {
  Lengths out;
  out.values_ = {length};
  return out;
}

std::uint32_t Lengths::at(std::uint64_t seed, std::size_t step) const {
  const std::uint64_t draw = mixed(seed, step);
  std::uint32_t length = least_;
  switch (kind_) {
    case Kind::list:
      length = values_[step % values_.size()];
      break;
    case Kind::histogram: {
      const auto place = std::upper_bound(up_to_.begin(), up_to_.end(), draw % up_to_.back());
      length = values_[static_cast<std::size_t>(place - up_to_.begin())];
      break;
    }
    case Kind::uniform:
      length = least_ + static_cast<std::uint32_t>(draw % (most_ - least_ + 1));
      break;
    case Kind::lognormal: {
      const double drawn = std::round(median_ * std::exp(sigma_ * normal(draw)));
      length = static_cast<std::uint32_t>(std::clamp(drawn, double{least_ + 0.0}, double{most_ + 0.0}));
      break;
    }
  }
  return rounded(length);
}

Lengths Lengths::as_distribution() const {
  if (kind_ != Kind::list) return *this;
  std::map<std::uint32_t, std::uint64_t> times;
  for (const std::uint32_t value : values_) ++times[value];
  Lengths out;
  out.kind_ = Kind::histogram;
  out.multiple_ = multiple_;
  std::uint64_t sum = 0;
  for (const auto& [length, count] : times) {
    out.values_.push_back(length);
    out.up_to_.push_back(sum += count);
  }
  return out;
}

std::vector<std::uint32_t> Lengths::possible() const {
  std::set<std::uint32_t> lengths;
  for (const std::uint32_t value : values_) lengths.insert(rounded(value));
  if (kind_ == Kind::uniform || kind_ == Kind::lognormal)
    for (std::uint64_t at = rounded(least_); at <= rounded(most_); at += multiple_)
      lengths.insert(static_cast<std::uint32_t>(at));
  return {lengths.begin(), lengths.end()};
}

Lengths Lengths::padded(std::uint32_t multiple) const {
  Lengths out = *this;
  out.multiple_ = std::max(multiple, 1U);
  return out;
}

std::vector<LengthShare> Lengths::shares(std::uint64_t seed, std::size_t steps) const {
  std::vector<std::uint32_t> all;
  for (std::size_t step = 0; step < steps; ++step) all.push_back(at(seed, step));
  std::sort(all.begin(), all.end());
  std::vector<LengthShare> out;
  for (auto from = all.begin(); from != all.end();) {
    const auto to = std::upper_bound(from, all.end(), *from);
    out.push_back({*from, static_cast<double>(to - from) / static_cast<double>(steps)});
    from = to;
  }
  if (out.size() <= kPlannedLengths) return out;
  out.clear();
  for (std::size_t i = 0; i < kPlannedLengths; ++i)
    out.push_back(
        {all[((2 * i + 1) * steps + 2 * kPlannedLengths - 1) / (2 * kPlannedLengths) - 1], 1.0 / kPlannedLengths});
  return out;
}

std::vector<std::uint32_t> Lengths::distinct(std::uint64_t seed, std::size_t steps) const {
  std::set<std::uint32_t> lengths;
  for (std::size_t step = 0; step < steps; ++step) lengths.insert(at(seed, step));
  return {lengths.begin(), lengths.end()};
}

Result<Lengths> parse_length_list(std::string_view text, const std::string& file) {
  Lengths out;
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  for (std::size_t line = 1; !text.empty(); ++line) {
    const std::size_t end = text.find('\n');
    std::string_view one = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    one = trimmed(one.substr(0, one.find('#')));
    if (one.empty()) continue;
    const auto length = length_in(one);
    if (!length)
      return fail(ErrorKind::input,
                  fmt::format("'{}' is no sequence length from 1 to {}", one.substr(0, 40), kMaxLength),
                  fmt::format("{}:{}", file, line), "one whole number of tokens a line; # begins a comment");
    out.values_.push_back(*length);
  }
  if (out.values_.empty())
    return fail(ErrorKind::input, "holds no sequence length", file, "one whole number of tokens a line");
  return out;
}

Result<Lengths> parse_distribution(std::string_view text) {
  Lengths out;
  if (text.starts_with(kUniform)) {
    out.kind_ = Lengths::Kind::uniform;
    FORESHARD_TRY(read_range(text.substr(kUniform.size()), out.least_, out.most_));
    return out;
  }
  if (text.starts_with(kLognormal)) {
    out.kind_ = Lengths::Kind::lognormal;
    const std::string_view rest = text.substr(kLognormal.size());
    const std::size_t first = rest.find(',');
    const std::size_t second = first == std::string_view::npos ? first : rest.find(',', first + 1);
    if (second == std::string_view::npos) return refuse(fmt::format("'{}' needs median, sigma and a range", text));
    const auto median = number_in(rest.substr(0, first));
    const auto sigma = number_in(rest.substr(first + 1, second - first - 1));
    if (!median || *median < 1 || *median > kMaxLength || !sigma || *sigma <= 0 || *sigma > kMaxSigma)
      return refuse(fmt::format("'{}': the median is a length, sigma above 0 and at most {}", text, kMaxSigma));
    out.median_ = *median;
    out.sigma_ = *sigma;
    FORESHARD_TRY(read_range(rest.substr(second + 1), out.least_, out.most_));
    return out;
  }
  out.kind_ = Lengths::Kind::histogram;
  std::map<std::uint32_t, std::uint32_t> weights;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    const std::string_view one = text.substr(0, comma);
    const std::size_t colon = one.find(':');
    const auto length = length_in(one.substr(0, colon));
    const auto weight =
        colon == std::string_view::npos ? Result<std::uint32_t>(0U) : parse_count(one.substr(colon + 1));
    if (!length || !weight || *weight == 0)
      return refuse(fmt::format("'{}' is no LENGTH:WEIGHT, both whole numbers from 1", one.substr(0, 40)));
    if (!weights.emplace(*length, *weight).second) return refuse(fmt::format("length {} is given twice", *length));
    text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    if (comma != std::string_view::npos && text.empty()) return refuse("the histogram ends in a comma");
  }
  if (weights.empty()) return refuse("no length is given");
  std::uint64_t sum = 0;
  for (const auto& [length, weight] : weights) {
    out.values_.push_back(length);
    out.up_to_.push_back(sum += weight);
  }
  return out;
}

bool is_distribution(std::string_view text) {
  if (text.starts_with(kUniform) || text.starts_with(kLognormal)) return true;
  // A slip in a number, a sign or a point, is told as one.
  return text.find(':') != std::string_view::npos &&
         text.find_first_not_of("0123456789:,.+- ") == std::string_view::npos;
}

}  // namespace foreshard::sim
