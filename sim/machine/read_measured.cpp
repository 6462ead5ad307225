// "/compute/kernels" and "/compute/shapes": what was measured of single kernels (compute_spec.hpp).
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/workload/workload_names.hpp"
#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

constexpr double kMaxTime = 1e9;
constexpr double kMaxExtent = 1e12;
constexpr double kMaxFactor = 100;

constexpr std::size_t kFactors = 2;

/// One row of numbers above 0, each at most as `most` says; empty after an error. Up to two more may follow them,
/// `held` and `streamed` of compute_spec.hpp: 0 where they do not.
std::vector<double> numbers(ProfileReader& reader, const Json& row, const std::string& place,
                            std::span<const double> most) {
  std::vector<double> out;
  if (row.is_array() && row.size() >= most.size() && row.size() <= most.size() + kFactors)
    for (std::size_t i = 0; i < row.size(); ++i) {
      const double value = row[i].is_number() ? row[i].get<double>() : 0;
      const bool fits = i < most.size() ? value > 0 && value <= most[i] : value >= 1 && value <= kMaxFactor;
      if (fits) out.push_back(value);
    }
  const bool complete = row.is_array() && out.size() == row.size() && out.size() >= most.size();
  if (complete) {
    out.resize(most.size() + kFactors);
    return out;
  }
  reader.fail(place,
              fmt::format("{} numbers are expected here, above 0 and each at most {}; up to two of 1 to {} may follow",
                          most.size(), fmt::join(most, ", "), kMaxFactor));
  return {};
}

/// The rows under "points", of which there is at least one.
const Json* points_of(ProfileReader& reader, const Json& entry, const std::string& place) {
  const Json* points = reader.member(entry, place, "points");
  if (points == nullptr) return nullptr;
  if (points->is_array() && !points->empty()) return points;
  reader.fail(place + "/points", "a list of at least one row is expected here");
  return nullptr;
}

DType dtype_of(ProfileReader& reader, const Json& entry, const std::string& place) {
  return static_cast<DType>(reader.word(entry, place, "dtype", kAllDTypeNames));
}

KernelFamily read_family(ProfileReader& reader, const Json& entry, const std::string& place) {
  static constexpr std::array<std::string_view, 5> kKeys{"label", "access", "dtype", "points", "source"};
  static constexpr std::array<double, 2> kMax{kMaxExtent, kMaxTime};
  reader.known_keys(entry, place, kKeys);
  KernelFamily out;
  out.label = reader.text(entry, place, "label");
  out.access = static_cast<MemoryAccess>(reader.word(entry, place, "access", EnumNames<MemoryAccess>::kNames));
  out.dtype = dtype_of(reader, entry, place);
  if (const Json* points = points_of(reader, entry, place))
    for (std::size_t i = 0; i < points->size() && !reader.error(); ++i) {
      const std::string at = fmt::format("{}/points/{}", place, i);
      const std::vector<double> row = numbers(reader, (*points)[i], at, kMax);
      if (row.empty()) break;
      if (!out.points.empty() && row[0] <= out.points.back().bytes) reader.fail(at, "bytes must ascend");
      out.points.push_back({row[0], row[1], row[2], row[3]});
    }
  reader.source(entry, place);
  return out;
}

ShapeFactors read_shapes(ProfileReader& reader, const Json& entry, const std::string& place) {
  static constexpr std::array<std::string_view, 5> kKeys{"kind", "dtype", "causal", "points", "source"};
  static constexpr std::array<double, 5> kMax{kMaxExtent, kMaxExtent, kMaxExtent, kMaxExtent, kMaxFactor};
  reader.known_keys(entry, place, kKeys);
  ShapeFactors out;
  out.kind = static_cast<KernelMath::Kind>(reader.word(entry, place, "kind", EnumNames<KernelMath::Kind>::kNames));
  if (out.kind == KernelMath::Kind::bytes)
    reader.fail(place + "/kind", "kernels that move bytes have no shape", "they belong to /compute/kernels");
  out.dtype = dtype_of(reader, entry, place);
  const Json* causal = reader.member(entry, place, "causal", false);
  if (causal != nullptr && !causal->is_boolean()) reader.fail(place + "/causal", "true or false is expected here");
  out.causal = causal != nullptr && causal->is_boolean() && causal->get<bool>();
  if (const Json* points = points_of(reader, entry, place))
    for (std::size_t i = 0; i < points->size() && !reader.error(); ++i) {
      const auto row = numbers(reader, (*points)[i], fmt::format("{}/points/{}", place, i), kMax);
      if (!row.empty()) out.points.push_back({row[0], row[1], row[2], row[3], row[4], row[5], row[6]});
    }
  reader.source(entry, place);
  return out;
}

/// Reads a list of entries, of which no two may be about the same thing.
template <class Entry, class Read, class Same>
void read_list(ProfileReader& reader, const Json& section, const char* key, std::vector<Entry>& out, const Read& read,
               const Same& same) {
  const Json* list = reader.member(section, "/compute", key, false);
  if (list == nullptr) return;
  const std::string path = fmt::format("/compute/{}", key);
  if (!list->is_array()) return reader.fail(path, "a list is expected here");
  for (std::size_t i = 0; i < list->size() && !reader.error(); ++i) {
    const std::string place = fmt::format("{}/{}", path, i);
    Entry entry = read(reader, (*list)[i], place);
    if (std::any_of(out.begin(), out.end(), [&](const Entry& other) { return same(entry, other); }))
      reader.fail(place, "an entry before is about the same kernels", "put their points into one");
    out.push_back(std::move(entry));
  }
}

}  // namespace

void read_measured_kernels(ProfileReader& reader, const Json& section, ComputeSpec& out) {
  read_list(reader, section, "kernels", out.families, read_family, [](const KernelFamily& a, const KernelFamily& b) {
    return a.label == b.label && a.access == b.access && a.dtype == b.dtype;
  });
  read_list(reader, section, "shapes", out.shapes, read_shapes, [](const ShapeFactors& a, const ShapeFactors& b) {
    return a.kind == b.kind && a.dtype == b.dtype && a.causal == b.causal;
  });
}

}  // namespace foreshard::sim
