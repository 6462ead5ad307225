// "/compute": how close single kernels come to the GPU's peaks (compute_spec.hpp).
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/workload/workload_names.hpp"
#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

constexpr double kMaxShare = 1;
constexpr double kMaxClocks = 1e6;
constexpr double kMaxMicroseconds = 1e6;

/// A row of plain numbers with one source: each key, where it goes, and the most it may be.
struct Entry {
  std::string_view key;
  double* value;
  double most;
  bool zero_allowed = true;
};

void read_row(ProfileReader& reader, const Json& row, const std::string& place, std::span<const Entry> entries,
              std::string_view further = {}) {
  std::vector<std::string_view> keys{"source"};
  if (!further.empty()) keys.push_back(further);
  for (const Entry& entry : entries) keys.push_back(entry.key);
  reader.known_keys(row, place, keys);
  for (const Entry& entry : entries) {
    *entry.value = reader.number(row, place, entry.key, 0);
    const std::string key = fmt::format("{}/{}", place, entry.key);
    if (*entry.value > entry.most) reader.fail(key, fmt::format("is more than {}", entry.most));
    if (!entry.zero_allowed && *entry.value <= 0 && !reader.error())
      reader.fail(key, "a number above 0 is expected here");
  }
  reader.source(row, place);
}

/// [[place, value], …], places ascending, values above 0 and at most `most`.
void read_curve(ProfileReader& reader, const Json& row, const std::string& path, std::string_view key, double most,
                Curve& out) {
  const Json* list = reader.member(row, path, key);
  if (list == nullptr) return;
  const std::string place = fmt::format("{}/{}", path, key);
  if (!list->is_array() || list->empty()) return reader.fail(place, "a list of [place, value] is expected here");
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& pair = (*list)[i];
    const bool numbers = pair.is_array() && pair.size() == 2 && pair[0].is_number() && pair[1].is_number();
    const double at = numbers ? pair[0].get<double>() : 0;
    const double value = numbers ? pair[1].get<double>() : 0;
    if (!(at > 0 && value > 0 && value <= most))
      return reader.fail(fmt::format("{}/{}", place, i),
                         fmt::format("[place, value] is expected here, both above 0, the value at most {}", most));
    if (!out.points.empty() && at <= out.points.back().at)
      return reader.fail(fmt::format("{}/{}", place, i), "places must ascend");
    out.points.push_back({at, value});
  }
}

void read_engine(ProfileReader& reader, const Json& section, std::string_view key, ProductEngine& out) {
  const std::string place = fmt::format("/compute/{}", key);
  const Json* row = reader.member(section, "/compute", key);
  if (row == nullptr) return;
  read_row(
      reader, *row, place,
      std::array{Entry{"efficiency", &out.efficiency, kMaxShare, false},
                 Entry{"half_intensity", &out.half_intensity, 1e4}, Entry{"power", &out.power, 10, false},
                 Entry{"tile_clocks", &out.tile_clocks, kMaxClocks}, Entry{"step_clocks", &out.step_clocks, kMaxClocks},
                 Entry{"split_us", &out.split_us, kMaxMicroseconds}});
}

void read_gemms(ProfileReader& reader, const Json& section, GemmSpec& out) {
  read_engine(reader, section, "tensor", out.tensor);
  read_engine(reader, section, "tensor_unaligned", out.tensor_unaligned);
  read_engine(reader, section, "vector", out.vector);
  const Json* row = reader.member(section, "/compute", "gemms");
  if (row == nullptr) return;
  read_row(reader, *row, "/compute/gemms",
           std::array{Entry{"launch_us", &out.launch_us, kMaxMicroseconds},
                      Entry{"memory_share", &out.memory_share, kMaxShare, false},
                      Entry{"few_rows_share", &out.few_rows_share, kMaxShare, false},
                      Entry{"blend", &out.blend, 100, false}},
           "sustained");
  read_curve(reader, *row, "/compute/gemms", "sustained", 100, out.sustained);
}

void read_attention(ProfileReader& reader, const Json& section, std::string_view key, AttentionSpec& out) {
  const std::string place = fmt::format("/compute/{}", key);
  const Json* row = reader.member(section, "/compute", key);
  if (row == nullptr) return;
  read_row(
      reader, *row, place,
      std::array{Entry{"launch_us", &out.launch_us, kMaxMicroseconds}, Entry{"row_clocks", &out.row_clocks, kMaxClocks},
                 Entry{"row_element_clocks", &out.row_element_clocks, kMaxClocks},
                 Entry{"causal_block", &out.causal_block, 1e5}, Entry{"sustained", &out.sustained, 100, false}},
      "efficiency");
  read_curve(reader, *row, place, "efficiency", kMaxShare, out.efficiency);
}

void read_memory(ProfileReader& reader, const Json& section, ComputeSpec& out) {
  const Json* memory = reader.member(section, "/compute", "memory");
  if (memory == nullptr) return;
  constexpr auto& kWords = EnumNames<MemoryAccess>::kNames;
  reader.known_keys(*memory, "/compute/memory", kWords);
  for (std::size_t i = 0; i < kWords.size(); ++i) {
    const Json* row = reader.member(*memory, "/compute/memory", kWords[i]);
    if (row == nullptr) continue;
    AccessSpec& access = out.memory[i];
    read_row(reader, *row, fmt::format("/compute/memory/{}", kWords[i]),
             std::array{Entry{"launch_us", &access.launch_us, kMaxMicroseconds},
                        Entry{"memory_share", &access.memory_share, kMaxShare, false},
                        Entry{"elements_per_clock", &access.elements_per_clock, 1e4, false},
                        Entry{"chunk_us", &access.chunk_us, kMaxMicroseconds}});
  }
}

/// Numbers above 0 that ascend or not, as `key` lists them.
std::vector<double> read_numbers(ProfileReader& reader, const Json& list, const std::string& place) {
  std::vector<double> out;
  for (const Json& one : list.is_array() ? list : Json::array())
    if (one.is_number() && one.get<double>() > 0 && one.get<double>() <= kMaxClocks) out.push_back(one.get<double>());
  if (!list.is_array() || out.empty() || out.size() != list.size())
    reader.fail(place, fmt::format("a list of numbers is expected here, above 0 and at most {}", kMaxClocks));
  return out;
}

void read_tiles(ProfileReader& reader, const Json& section, TileSpec& out) {
  static constexpr std::array<std::string_view, 4> kKeys{"shapes", "splits", "least_split_depth", "source"};
  const std::string place = "/compute/tiles";
  const Json* row = reader.member(section, "/compute", "tiles");
  if (row == nullptr) return;
  reader.known_keys(*row, place, kKeys);
  const Json* shapes = reader.member(*row, place, "shapes");
  const Json* splits = reader.member(*row, place, "splits");
  if (shapes == nullptr || splits == nullptr) return;
  if (!shapes->is_array() || shapes->empty())
    return reader.fail(place + "/shapes", "a list of [rows, columns] is needed");
  for (std::size_t i = 0; i < shapes->size() && !reader.error(); ++i) {
    const std::string at = fmt::format("{}/shapes/{}", place, i);
    const std::vector<double> shape = read_numbers(reader, (*shapes)[i], at);
    if (shape.size() != 2) return reader.fail(at, "[rows, columns] is expected here");
    out.shapes.push_back({shape[0], shape[1]});
  }
  out.splits = read_numbers(reader, *splits, place + "/splits");
  out.least_split_depth = reader.number(*row, place, "least_split_depth", 1);
  reader.source(*row, place);
}

void read_rules(ProfileReader& reader, const Json& section, ComputeRules& out) {
  if (const Json* row = reader.member(section, "/compute", "rules"))
    read_row(reader, *row, "/compute/rules",
             std::array{Entry{"level_waves", &out.level_waves, 1e3, false},
                        Entry{"full_chunks", &out.full_chunks, 1e12, false}, Entry{"l2_fade", &out.l2_fade, 100, false},
                        Entry{"streaming_share", &out.streaming_share, kMaxShare, false},
                        Entry{"far_octaves", &out.far_octaves, 100, false}});
}

}  // namespace

void read_compute(ProfileReader& reader, const Json& section, MachineProfile& profile) {
  static constexpr std::array<std::string_view, 14> kKeys{"tensor",
                                                          "tensor_unaligned",
                                                          "vector",
                                                          "gemms",
                                                          "attention_forward",
                                                          "attention_backward",
                                                          "attention_forward_float32",
                                                          "attention_backward_float32",
                                                          "memory",
                                                          "l2",
                                                          "tiles",
                                                          "rules",
                                                          "kernels",
                                                          "shapes"};
  ComputeSpec& out = profile.compute;
  reader.known_keys(section, "/compute", kKeys);
  read_gemms(reader, section, out.gemms);
  read_tiles(reader, section, out.tiles);
  read_rules(reader, section, out.rules);
  read_attention(reader, section, "attention_forward", out.attention_forward);
  read_attention(reader, section, "attention_backward", out.attention_backward);
  read_attention(reader, section, "attention_forward_float32", out.attention_forward_float32);
  read_attention(reader, section, "attention_backward_float32", out.attention_backward_float32);
  read_memory(reader, section, out);
  if (const Json* l2 = reader.member(section, "/compute", "l2"))
    read_row(reader, *l2, "/compute/l2",
             std::array{Entry{"rate", &out.l2_rate, 100, false}, Entry{"share", &out.l2_share, kMaxShare, false}});
  read_measured_kernels(reader, section, out);
  out.known = !reader.error();
}

}  // namespace foreshard::sim
