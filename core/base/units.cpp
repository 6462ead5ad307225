#include "core/base/units.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "core/base/suggest.hpp"

namespace foreshard {
namespace {

struct UnitName {
  std::string_view name;
  double factor;
};

// IEC 80000-13 binary prefixes, SI decimal prefixes; bits count an eighth of a byte.
constexpr std::array kByteUnits{
    UnitName{"B", 1},        UnitName{"KiB", 0x1p10}, UnitName{"MiB", 0x1p20}, UnitName{"GiB", 0x1p30},
    UnitName{"TiB", 0x1p40}, UnitName{"kB", 1e3},     UnitName{"KB", 1e3},     UnitName{"MB", 1e6},
    UnitName{"GB", 1e9},     UnitName{"TB", 1e12},    UnitName{"b", 0.125},    UnitName{"kb", 125},
    UnitName{"Kb", 125},     UnitName{"Mb", 125e3},   UnitName{"Gb", 125e6},   UnitName{"Tb", 125e9},
};
constexpr std::array kTimeUnits{
    UnitName{"ns", 1},   UnitName{"us", 1e3}, UnitName{"\u00b5s", 1e3}, UnitName{"\u03bcs", 1e3},
    UnitName{"ms", 1e6}, UnitName{"s", 1e9},  UnitName{"min", 60e9},
};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

tl::unexpected<Error> bad(std::string_view text, std::string_view what, std::string hint) {
  return fail(ErrorKind::usage, fmt::format("'{}' is not {}", text, what), {}, std::move(hint));
}

/// A decimal number and the word behind it. Long double holds every 64-bit integer exactly on x86-64,
/// so "18446744073709551615" survives.
struct Quantity {
  long double number = 0;
  std::string_view unit;
};

std::optional<Quantity> split(std::string_view text) {
  text = trimmed(text);
  Quantity out;
  std::size_t at = 0;
  bool digits = false;
  for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, digits = true)
    out.number = out.number * 10 + static_cast<long double>(text[at] - '0');
  if (at < text.size() && text[at] == '.') {
    long double scale = 1;
    long double fraction = 0;
    for (++at; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at, digits = true) {
      fraction = fraction * 10 + static_cast<long double>(text[at] - '0');
      scale *= 10;
    }
    out.number += fraction / scale;
  }
  if (!digits) return std::nullopt;
  out.unit = trimmed(text.substr(at));
  return out;
}

std::optional<double> factor_of(std::string_view unit, std::span<const UnitName> units) {
  for (const UnitName& known : units)
    if (known.name == unit) return known.factor;
  return std::nullopt;
}

/// A size's unit. No unit of bits has an i, so that a binary one is known by its letters, large or small.
std::optional<double> byte_factor_of(std::string_view unit) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  const auto same = [&](char a, char b) { return lower(a) == lower(b); };
  if (unit.size() != 3 || lower(unit[1]) != 'i') return factor_of(unit, kByteUnits);
  for (const UnitName& known : kByteUnits)
    if (std::equal(known.name.begin(), known.name.end(), unit.begin(), unit.end(), same)) return known.factor;
  return std::nullopt;
}

/// Two or three decimals at most, trailing zeros and the point dropped.
std::string shortened(double value, int decimals) {
  std::string out = fmt::format("{:.{}f}", value, decimals);
  if (out.find('.') == std::string::npos) return out;
  while (out.back() == '0') out.pop_back();
  if (out.back() == '.') out.pop_back();
  return out;
}

/// In the largest binary prefix that is not above the value.
struct Prefixed {
  double value = 0;
  std::string_view prefix;
};

Prefixed prefixed(Bytes bytes) {
  constexpr std::array<std::string_view, 5> kPrefixes{"B", "KiB", "MiB", "GiB", "TiB"};
  std::size_t prefix = 0;
  double value = static_cast<double>(bytes);
  for (; prefix + 1 < kPrefixes.size() && value >= 1024; ++prefix) value /= 1024;
  return {value, kPrefixes[prefix]};
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  const auto quantity = split(text);
  const std::string hint = "write a number and a unit, as in 512, 2MiB, 80GiB (2^30) or 80GB (10^9)";
  if (!quantity) return bad(text, "a size", hint);
  const auto factor = quantity->unit.empty() ? std::optional<double>(1.0) : byte_factor_of(quantity->unit);
  if (!factor) return bad(text, "a size", hint);
  const long double exact = quantity->number * static_cast<long double>(*factor);
  const long double whole = std::floor(exact);
  const long double bytes = exact - whole >= 0.5L ? whole + 1 : whole;
  if (bytes > static_cast<long double>(std::numeric_limits<Bytes>::max())) return bad(text, "a size of 64 bits", hint);
  return static_cast<Bytes>(bytes);
}

Result<double> parse_bandwidth(std::string_view text) {
  const auto quantity = split(text);
  const std::string hint = "write a number and a unit, as in 400Gb/s (bits) or 50GB/s (bytes)";
  if (!quantity) return bad(text, "a bandwidth", hint);
  std::string unit(quantity->unit);
  if (unit.ends_with("/s")) {
    unit.resize(unit.size() - 2);
  } else if (unit.ends_with("bps")) {
    unit.resize(unit.size() - 2);
  } else if (!unit.empty()) {
    return bad(text, "a bandwidth", hint);
  }
  const auto factor = unit.empty() ? std::optional<double>(1.0) : factor_of(unit, kByteUnits);
  if (!factor) return bad(text, "a bandwidth", hint);
  return static_cast<double>(quantity->number * static_cast<long double>(*factor));
}

Result<Nanoseconds> parse_time(std::string_view text) {
  const auto quantity = split(text);
  const std::string hint = "write a number and a unit, as in 250ns, 12.5us, 3ms or 1s";
  if (!quantity) return bad(text, "a time", hint);
  if (quantity->unit.empty() && quantity->number == 0) return Nanoseconds{0};
  const auto factor = factor_of(quantity->unit, kTimeUnits);
  if (!factor) return bad(text, "a time", hint);
  const long double ns = quantity->number * static_cast<long double>(*factor);
  if (ns > 9.2e18L) return bad(text, "a time of 64 bits", hint);
  return Nanoseconds::from_double(static_cast<double>(ns));
}

Result<std::uint32_t> parse_count(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.empty())
    return bad(text, "a whole number", "write digits only, as in 4");
  return value;
}

std::string format_bytes(Bytes bytes) {
  const Prefixed size = prefixed(bytes);
  return fmt::format("{} {}", shortened(size.value, 2), size.prefix);
}

std::string format_bytes_fixed(Bytes bytes) {
  const Prefixed size = prefixed(bytes);
  return bytes < 1024 ? fmt::format("{} B", bytes) : fmt::format("{:.2f} {}", size.value, size.prefix);
}

std::string format_bytes_difference(std::int64_t bytes) {
  if (bytes == 0) return "0 B";
  const Bytes magnitude = bytes < 0 ? Bytes{0} - static_cast<Bytes>(bytes) : static_cast<Bytes>(bytes);
  return (bytes < 0 ? "-" : "+") + format_bytes_fixed(magnitude);
}

std::string format_bandwidth(double bytes_per_second) {
  constexpr std::array<std::string_view, 5> kPrefixes{"B/s", "kB/s", "MB/s", "GB/s", "TB/s"};
  std::size_t prefix = 0;
  for (; prefix + 1 < kPrefixes.size() && bytes_per_second >= 1000; ++prefix) bytes_per_second /= 1000;
  return fmt::format("{} {}", shortened(bytes_per_second, 2), kPrefixes[prefix]);
}

std::string format_time(Nanoseconds time) {
  const double magnitude = std::abs(static_cast<double>(time.count));
  const double value = static_cast<double>(time.count);
  if (magnitude < 1e3) return fmt::format("{} ns", time.count);
  if (magnitude < 1e6) return shortened(value / 1e3, 3) + " us";
  if (magnitude < 1e9) return shortened(value / 1e6, 3) + " ms";
  return shortened(value / 1e9, 3) + " s";
}

}  // namespace foreshard
