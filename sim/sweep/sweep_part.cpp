#include "sim/sweep/sweep_part.hpp"

#include <nlohmann/json.hpp>

#include "sim/sweep/point_json.hpp"

namespace foreshard::sim {
namespace {

constexpr PieceKind kKind{"sweep points", kMaxPoints};

}  // namespace

std::string sweep_part_text(const Part& part, const std::string& fingerprint, const std::vector<SweepPoint>& points) {
  return part_text(kKind, part, fingerprint, points.size(), [&](std::size_t i) { return json_of(points[i]); });
}

Result<PartFile<SweepPoint>> parse_sweep_part(std::string_view text, const std::string& where) {
  return read_part_file<SweepPoint>(kKind, text, where, point_of);
}

}  // namespace foreshard::sim
