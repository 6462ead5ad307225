#include "sim/machine/profile_reader.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>

#include "core/base/json_io.hpp"
#include "core/base/strict_json.hpp"
#include "core/base/suggest.hpp"

namespace foreshard::sim {
namespace {

/// What a constant of a unit can sensibly be: far beyond any machine on both sides, far below a slip of a prefix above.
/// The least is for what is not 0.
struct UnitRange {
  std::string_view unit;
  double least;
  double most;
};
constexpr std::array kUnitRanges{
    UnitRange{"GB/s", 1e-3, 1e5},      // a GPU of 2026 has 8,000 of HBM; below is a modem
    UnitRange{"TFLOP/s", 1e-3, 1e5},   // and 5,000 of dense bf16; a phone's CPU has 0.01
    UnitRange{"us", 1e-6, 1e6},        // a picosecond to a second
    UnitRange{"MiB", 1e-3, 16777216},  // a KiB to 16 TiB
    UnitRange{"MHz", 1, 1e5},          // the first microprocessors ran at 1
    UnitRange{"ratio", 1e-6, 1e4},    UnitRange{"count", 1, 1e7}, UnitRange{"Gb/s", 1e-3, 1e6},
};

/// Units that people write for one another: `given` × factor = `wanted`.
struct Conversion {
  std::string_view given, wanted;
  double factor;
};
constexpr std::array kConversions{
    Conversion{"TB/s", "GB/s", 1e3},
    Conversion{"MB/s", "GB/s", 1e-3},
    Conversion{"B/s", "GB/s", 1e-9},
    Conversion{"GiB/s", "GB/s", 1.073741824},
    Conversion{"Gb/s", "GB/s", 0.125},
    Conversion{"Gbit/s", "GB/s", 0.125},
    Conversion{"GB/s", "Gb/s", 8},
    Conversion{"PFLOP/s", "TFLOP/s", 1e3},
    Conversion{"GFLOP/s", "TFLOP/s", 1e-3},
    Conversion{"ns", "us", 1e-3},
    Conversion{"ms", "us", 1e3},
    Conversion{"s", "us", 1e6},
    Conversion{"GiB", "MiB", 1024},
    Conversion{"GHz", "MHz", 1e3},
    Conversion{"GB", "MiB", 953.67431640625},
    Conversion{"MB", "MiB", 0.95367431640625},
};

std::string conversion(double value, std::string_view given, std::string_view wanted) {
  for (const Conversion& c : kConversions)
    if (c.given == given && c.wanted == wanted) return fmt::format("write {:.10g} and '{}'", value * c.factor, wanted);
  return fmt::format("write the value in {}", wanted);
}

}  // namespace

void ProfileReader::fail(const std::string& path, std::string what, std::string hint) {
  if (error_) return;
  error_ = Error{ErrorKind::input, std::move(what), fmt::format("{} {}", where_, path.empty() ? "/" : path),
                 std::move(hint)};
}

const nlohmann::json* ProfileReader::member(const nlohmann::json& object, const std::string& path, std::string_view key,
                                            bool required) {
  if (!object.is_object()) {
    fail(path, "an object is expected here");
    return nullptr;
  }
  const auto it = object.find(std::string(key));
  if (it != object.end()) return &*it;
  if (required)
    fail(path, fmt::format("'{}' is missing", key), R"(add it, or take it from a known machine: "extends": "h200")");
  return nullptr;
}

void ProfileReader::known_keys(const nlohmann::json& object, const std::string& path,
                               std::span<const std::string_view> known) {
  if (!object.is_object()) return fail(path, "an object is expected here");
  std::vector<std::string_view> all(known.begin(), known.end());
  if (std::find(known.begin(), known.end(), "source") != known.end()) all.push_back("fitted_on");
  if (auto unknown = unknown_key(object, all))
    fail(path + "/" + unknown->key, std::move(unknown->what), std::move(unknown->hint));
}

double ProfileReader::number(const nlohmann::json& object, const std::string& path, std::string_view key,
                             double at_least) {
  const nlohmann::json* value = member(object, path, key);
  if (value == nullptr) return 0;
  const double number = value->is_number() ? value->get<double>() : std::nan("");
  if (std::isfinite(number) && number >= at_least && number <= 1e15) return number;
  fail(fmt::format("{}/{}", path, key), fmt::format("a number of at least {} is expected here", at_least));
  return 0;
}

std::uint32_t ProfileReader::count(const nlohmann::json& object, const std::string& path, std::string_view key,
                                   std::uint32_t at_least) {
  const nlohmann::json* value = member(object, path, key);
  if (value == nullptr) return 0;
  if (value->is_number_unsigned() && value->get<std::uint64_t>() >= at_least && value->get<std::uint64_t>() <= 1000000)
    return value->get<std::uint32_t>();
  fail(fmt::format("{}/{}", path, key), fmt::format("a whole number from {} to 1,000,000 is expected here", at_least));
  return 0;
}

std::string ProfileReader::text(const nlohmann::json& object, const std::string& path, std::string_view key) {
  const nlohmann::json* value = member(object, path, key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  fail(fmt::format("{}/{}", path, key), "a text is expected here");
  return {};
}

std::size_t ProfileReader::word(const nlohmann::json& value, const std::string& place,
                                std::span<const std::string_view> words) {
  const std::string given = value.is_string() ? value.get<std::string>() : json_text(value);
  const auto it = std::find(words.begin(), words.end(), given);
  if (it != words.end()) return static_cast<std::size_t>(it - words.begin());
  fail(place, fmt::format("unknown word '{}'", given), suggestion(given, words));
  return 0;
}

std::size_t ProfileReader::word(const nlohmann::json& object, const std::string& path, std::string_view key,
                                std::span<const std::string_view> words) {
  const nlohmann::json* value = member(object, path, key);
  return value == nullptr ? 0 : word(*value, fmt::format("{}/{}", path, key), words);
}

void ProfileReader::source_only(const nlohmann::json& object, const std::string& path) {
  const nlohmann::json* value = member(object, path, "source", false);
  const bool given = value != nullptr && value->is_string() && !value->get<std::string>().empty();
  if (!given)
    return fail(path, "a constant needs a source", R"(say where the number is from: "source": "measured on …")");
  sources_.emplace_back(path, value->get<std::string>());
}

void ProfileReader::source(const nlohmann::json& object, const std::string& path) {
  source_only(object, path);
  fitted_on(object, path);
}

void ProfileReader::fitted_on(const nlohmann::json& object, const std::string& path) {
  static constexpr std::string_view kNone = "none: ";
  const std::string place = path + "/fitted_on";
  FittedOn out{path, FittedOn::Kind::not_stated, {}, {}};
  const nlohmann::json* value = member(object, path, "fitted_on", false);
  if (value == nullptr) {
    if (fits_required_)
      fail(
          path, "a constant says what it was fitted on",
          R"(add "fitted_on": ["a name of /measurements"], or "none: documented", "none: published", "none: assumed")");
  } else if (value->is_string() && value->get<std::string>().starts_with(kNone)) {
    out.kind = FittedOn::Kind::nothing;
    out.why = value->get<std::string>().substr(kNone.size());
  } else if (!value->is_array() || value->empty()) {
    fail(place, R"(a list of names of /measurements or "none: " and a reason is expected here)");
  } else {
    std::vector<std::string_view> known{kOwnCalibration};
    for (const Measurement& measurement : provenance_.measurements) known.push_back(measurement.name);
    out.kind = FittedOn::Kind::measurements;
    for (std::size_t i = 0; i < value->size(); ++i)
      out.names.emplace_back(known[word((*value)[i], fmt::format("{}/{}", place, i), known)]);
  }
  provenance_.constants.push_back(std::move(out));
}

double ProfileReader::constant(const nlohmann::json& object, const std::string& path, std::string_view key,
                               std::string_view unit, bool zero_allowed) {
  static constexpr std::array<std::string_view, 3> kKeys{"value", "unit", "source"};
  const std::string place = fmt::format("{}/{}", path, key);
  const nlohmann::json* entry = member(object, path, key);
  if (entry == nullptr) return 0;
  if (!entry->is_object()) {
    fail(place, "a constant is an object",
         fmt::format(R"(write {{"value": {}, "unit": "{}", "source": "…"}})", entry->is_number() ? entry->dump() : "1",
                     unit));
    return 0;
  }
  known_keys(*entry, place, kKeys);
  const double value = number(*entry, place, "value", 0);
  if (value == 0 && !zero_allowed) fail(place + "/value", "a number above 0 is expected here");
  if (const std::string given = text(*entry, place, "unit"); given != unit)
    fail(place + "/unit", fmt::format("the unit is '{}', not '{}'", unit, given), conversion(value, given, unit));
  for (const UnitRange& range : kUnitRanges) {
    if (range.unit != unit || value == 0) continue;
    if (value > range.most)
      fail(place + "/value", fmt::format("{:.10g} {} is more than any machine has", value, unit),
           fmt::format("at most {:.10g}: is the unit right?", range.most));
    if (value < range.least)
      fail(place + "/value", fmt::format("{:.10g} {} is less than any machine has", value, unit),
           fmt::format("at least {:.10g}: is the unit right?", range.least));
  }
  if (unit == "count" && value != std::floor(value)) fail(place + "/value", "a count is a whole number");
  source(*entry, place);
  return value;
}

Nanoseconds ProfileReader::time(const nlohmann::json& object, const std::string& path, std::string_view key) {
  return Nanoseconds::from_double(constant(object, path, key, "us", true) * 1e3);
}

}  // namespace foreshard::sim
