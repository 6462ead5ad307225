// "/collectives": the measured times of isolated collectives.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "core/device/collective_names.hpp"
#include "sim/machine/longest_op.hpp"
#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

std::vector<CollectiveTable::Point> read_points(ProfileReader& reader, const Json& list, const std::string& path) {
  std::vector<CollectiveTable::Point> points;
  if (!list.is_array() || list.empty()) {
    reader.fail(path, "a list of [bytes, microseconds] is expected here");
    return points;
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("{}/{}", path, i);
    const Json& pair = list[i];
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() || !pair[1].is_number() ||
        !(pair[1].get<double>() > 0 && pair[1].get<double>() <= kLongestOp.us())) {
      reader.fail(place, "[bytes, microseconds] is expected here, a whole number and one above 0, at most an hour");
      return points;
    }
    points.push_back({pair[0].get<Bytes>(), op_time(pair[1].get<double>() * 1e3)});
    if (i > 0 && points[i].bytes <= points[i - 1].bytes) reader.fail(place, "sizes must ascend");
  }
  return points;
}

/// False where it is left out.
bool read_flag(ProfileReader& reader, const Json& entry, const std::string& path, const char* key) {
  const Json* flag = reader.member(entry, path, key, false);
  if (flag != nullptr && !flag->is_boolean()) reader.fail(path + "/" + key, "true or false is expected here");
  return flag != nullptr && flag->is_boolean() && flag->get<bool>();
}

CollectiveTable read_table(ProfileReader& reader, const Json& entry, const std::string& path) {
  static constexpr std::array<std::string_view, 9> kKeys{"kind",    "transport", "ranks",  "ranks_per_node", "dtype",
                                                         "upcasts", "held_out",  "source", "bytes_us"};
  reader.known_keys(entry, path, kKeys);
  CollectiveTable table;
  table.kind = static_cast<CollectiveKind>(reader.word(entry, path, "kind", kDashedNames<CollectiveKind>));
  table.transport = static_cast<Transport>(reader.word(entry, path, "transport", EnumNames<Transport>::kNames));
  table.ranks = reader.count(entry, path, "ranks", 2);
  table.ranks_per_node = table.ranks;
  if (reader.member(entry, path, "ranks_per_node", false) != nullptr)
    table.ranks_per_node = reader.count(entry, path, "ranks_per_node", 1);
  table.upcasts = read_flag(reader, entry, path, "upcasts");
  table.held_out = read_flag(reader, entry, path, "held_out");
  if (reader.member(entry, path, "dtype", false) != nullptr)
    table.dtype = static_cast<DType>(reader.word(entry, path, "dtype", kAllDTypeNames));
  if (table.ranks_per_node > table.ranks) reader.fail(path + "/ranks_per_node", "is at most ranks");
  reader.source(entry, path);
  if (!reader.error()) table.source = entry["source"].get<std::string>();
  if (const Json* points = reader.member(entry, path, "bytes_us"))
    table.points = read_points(reader, *points, path + "/bytes_us");
  return table;
}

}  // namespace

void read_collectives(ProfileReader& reader, const Json& list, MachineProfile& out) {
  if (!list.is_array()) return reader.fail("/collectives", "a list of tables is expected here");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = fmt::format("/collectives/{}", i);
    CollectiveTable table = read_table(reader, list[i], path);
    for (const CollectiveTable& other : out.collectives)
      if (other.kind == table.kind && other.transport == table.transport && other.ranks == table.ranks &&
          other.ranks_per_node == table.ranks_per_node && other.of_dtypes(table.dtype, table.upcasts))
        reader.fail(path, "a second table for the same kind, transport, ranks, ranks a node and dtypes");
    out.collectives.push_back(std::move(table));
  }
}

}  // namespace foreshard::sim
