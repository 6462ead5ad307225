#include "sim/tune/tune_part.hpp"

#include <nlohmann/json.hpp>

#include "core/base/digest.hpp"
#include "sim/sweep/point_json.hpp"
#include "sim/tune/move_family.hpp"

namespace foreshard::sim {
namespace {

constexpr PieceKind kKind{"a search's points", kBatch};

}  // namespace

std::string batch_fingerprint(const std::string& search, const TuneBatch& batch) {
  Digest digest;
  digest.add_part("search", search);
  digest.add_part("batch", std::to_string(batch.number));
  for (const Settings* one : batch.settings) digest.add_part("point", text_of(*one));
  return digest.text();
}

std::string tune_part_text(const Part& part, const std::string& fingerprint, const std::vector<SweepPoint>& points) {
  return part_text(kKind, part, fingerprint, points.size(), [&](std::size_t i) { return json_of(points[i]); });
}

Result<PartFile<SweepPoint>> parse_tune_part(std::string_view text, const std::string& where) {
  return read_part_file<SweepPoint>(kKind, text, where, point_of);
}

}  // namespace foreshard::sim
