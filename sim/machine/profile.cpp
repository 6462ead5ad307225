#include "sim/machine/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/suggest.hpp"
#include "core/schedule/settings_table.hpp"
#include "sim/machine/builtin_profiles.hpp"
#include "sim/machine/profile_reader.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;
using Words = std::span<const std::string_view>;

constexpr std::array<std::string_view, kKernelClasses> kClassWords{
    "gemm", "gemm-single-wave", "gemm-streaming", "attention", "memory-bound", "gather-copy", "memset"};
constexpr std::array<std::string_view, kNeighbours> kNeighbourWords{"ring", "copy-engine", "side-kernel"};
constexpr std::array<std::string_view, 3> kKindWords{"all-gather", "reduce-scatter", "all-reduce"};
constexpr std::array<std::string_view, 3> kResourceWords{"ring", "symmetric", "copy-engine"};
constexpr std::size_t kTransports = 5;

std::array<std::string_view, kTransports> transport_words() {
  std::array<std::string_view, kTransports> words;
  for (std::size_t i = 0; i < kTransports; ++i) words[i] = name(static_cast<Transport>(i));
  return words;
}

/// Index of the word under `key`; an error and 0 where it is none of `words`.
std::size_t word(ProfileReader& reader, const Json& object, const std::string& path, std::string_view key,
                 Words words) {
  const std::string given = reader.text(object, path, key);
  const auto it = std::find(words.begin(), words.end(), given);
  if (it != words.end()) return static_cast<std::size_t>(it - words.begin());
  reader.fail(fmt::format("{}/{}", path, key), fmt::format("unknown word '{}'", given), suggestion(given, words));
  return 0;
}

Nanoseconds from_us(double us) {
  return Nanoseconds::from_double(us * 1e3);
}

void read_gpu(ProfileReader& reader, const Json& gpu, MachineProfile& out) {
  static constexpr std::array<std::string_view, 3> kKeys{"sm_count", "memory_total", "memory_other"};
  reader.known_keys(gpu, "/gpu", kKeys);
  out.sm_count = static_cast<std::uint32_t>(reader.constant(gpu, "/gpu", "sm_count", "count"));
  out.memory_total = static_cast<Bytes>(reader.constant(gpu, "/gpu", "memory_total", "MiB")) * kMiB;
  out.memory_other = static_cast<Bytes>(reader.constant(gpu, "/gpu", "memory_other", "MiB", true)) * kMiB;
}

void read_host(ProfileReader& reader, const Json& host, MachineProfile& out) {
  static constexpr std::array<std::string_view, 1> kKeys{"launch_queue"};
  reader.known_keys(host, "/host", kKeys);
  out.launch_queue = static_cast<std::uint32_t>(reader.constant(host, "/host", "launch_queue", "count"));
}

void read_latencies(ProfileReader& reader, const Json& latencies, Latencies& out) {
  static constexpr std::array<std::string_view, 7> kKeys{
      "launch", "kernel_gap", "kernel_gap_all_gather", "copy_gap", "event_wait", "communicator_gap", "synchronize"};
  reader.known_keys(latencies, "/latencies", kKeys);
  const std::array<Nanoseconds*, 7> fields{&out.launch,     &out.kernel_gap, &out.kernel_gap_all_gather,
                                           &out.copy_gap,   &out.event_wait, &out.communicator_gap,
                                           &out.synchronize};
  for (std::size_t i = 0; i < kKeys.size(); ++i)
    *fields[i] = from_us(reader.constant(latencies, "/latencies", kKeys[i], "us", true));
}

void read_contention(ProfileReader& reader, const Json& contention, MachineProfile& out) {
  static constexpr std::array<std::string_view, 3> kKeys{"kernel", "neighbour", "source"};
  reader.known_keys(contention, "/contention", kClassWords);
  for (std::size_t c = 0; c < kKernelClasses; ++c) {
    const std::string path = fmt::format("/contention/{}", kClassWords[c]);
    const Json* row = reader.member(contention, "/contention", kClassWords[c], false);
    if (row == nullptr) continue;  // a class without a row is slowed by nothing
    reader.known_keys(*row, path, kNeighbourWords);
    for (std::size_t n = 0; n < kNeighbours; ++n) {
      const std::string place = fmt::format("{}/{}", path, kNeighbourWords[n]);
      const Json* pair = reader.member(*row, path, kNeighbourWords[n], false);
      if (pair == nullptr) continue;
      reader.known_keys(*pair, place, kKeys);
      out.contention[c][n] = {reader.number(*pair, place, "kernel", 1), reader.number(*pair, place, "neighbour", 1)};
      reader.source(*pair, place);
    }
  }
}

void read_rings(ProfileReader& reader, const Json& rings, Rings& out) {
  static constexpr std::array<std::string_view, 4> kKeys{"sms", "symmetric_sms", "share_of_two", "two_slowdown"};
  reader.known_keys(rings, "/rings", kKeys);
  out.sms = reader.constant(rings, "/rings", "sms", "count");
  out.symmetric_sms = reader.constant(rings, "/rings", "symmetric_sms", "count", true);
  out.share_of_two = reader.constant(rings, "/rings", "share_of_two", "ratio");
  out.two_slowdown = reader.constant(rings, "/rings", "two_slowdown", "ratio");
  if (out.two_slowdown < 1) reader.fail("/rings/two_slowdown/value", "a slowdown is at least 1");
}

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
        !(pair[1].get<double>() > 0 && pair[1].get<double>() < 1e12)) {
      reader.fail(place, "[bytes, microseconds] is expected here, a whole number and one above 0");
      return points;
    }
    points.push_back({pair[0].get<Bytes>(), from_us(pair[1].get<double>())});
    if (i > 0 && points[i].bytes <= points[i - 1].bytes) reader.fail(place, "sizes must ascend");
  }
  return points;
}

CollectiveTable read_table(ProfileReader& reader, const Json& entry, const std::string& path) {
  static constexpr std::array<std::string_view, 6> kKeys{"kind", "transport", "ranks", "uses", "source", "bytes_us"};
  static const auto kTransportWords = transport_words();
  reader.known_keys(entry, path, kKeys);
  CollectiveTable table;
  table.kind = static_cast<CollectiveKind>(word(reader, entry, path, "kind", kKindWords));
  table.transport = static_cast<Transport>(word(reader, entry, path, "transport", kTransportWords));
  table.uses = static_cast<CollectiveResource>(word(reader, entry, path, "uses", kResourceWords));
  table.ranks = static_cast<std::uint32_t>(std::min(reader.number(entry, path, "ranks", 2), 1e6));
  reader.source(entry, path);
  if (!reader.error()) table.source = entry["source"].get<std::string>();
  if (const Json* points = reader.member(entry, path, "bytes_us"))
    table.points = read_points(reader, *points, path + "/bytes_us");
  return table;
}

void read_collectives(ProfileReader& reader, const Json& list, MachineProfile& out) {
  if (!list.is_array()) return reader.fail("/collectives", "a list of tables is expected here");
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string path = fmt::format("/collectives/{}", i);
    CollectiveTable table = read_table(reader, list[i], path);
    for (const CollectiveTable& other : out.collectives)
      if (other.kind == table.kind && other.transport == table.transport && other.ranks == table.ranks)
        reader.fail(path, "a second table for the same kind, transport and ranks");
    out.collectives.push_back(std::move(table));
  }
}

void read_all_reduce(ProfileReader& reader, const Json& rule, MachineProfile& out) {
  static constexpr std::array<std::string_view, 1> kKeys{"all_gathers"};
  reader.known_keys(rule, "/all_reduce", kKeys);
  out.all_reduce_all_gathers = reader.constant(rule, "/all_reduce", "all_gathers", "ratio");
}

void read_rates(ProfileReader& reader, const Json& rates, Rates& out) {
  static constexpr std::array<std::string_view, 12> kKeys{
      "hbm",           "pcie",         "peer",      "memory_bound", "gather_copy",   "chunk_cat",
      "gradient_cast", "gradient_add", "gemm_bf16", "gemm_fp32",    "copy_overhead", "kernel_overhead"};
  reader.known_keys(rates, "/rates", kKeys);
  const std::array<double*, 8> bandwidths{&out.hbm,         &out.pcie,      &out.peer,          &out.memory_bound,
                                          &out.gather_copy, &out.chunk_cat, &out.gradient_cast, &out.gradient_add};
  for (std::size_t i = 0; i < bandwidths.size(); ++i)
    *bandwidths[i] = 1e9 * reader.constant(rates, "/rates", kKeys[i], "GB/s");
  out.gemm_bf16 = 1e12 * reader.constant(rates, "/rates", "gemm_bf16", "TFLOP/s");
  out.gemm_fp32 = 1e12 * reader.constant(rates, "/rates", "gemm_fp32", "TFLOP/s");
  out.copy_overhead = from_us(reader.constant(rates, "/rates", "copy_overhead", "us", true));
  out.kernel_overhead = from_us(reader.constant(rates, "/rates", "kernel_overhead", "us", true));
}

void read_profile(ProfileReader& reader, const Json& root, MachineProfile& out) {
  static constexpr std::array<std::string_view, 11> kKeys{"schema",      "name",       "description", "gpu",
                                                          "host",        "latencies",  "contention",  "rings",
                                                          "collectives", "all_reduce", "rates"};
  reader.known_keys(root, "", kKeys);
  if (reader.number(root, "", "schema", 1) != 1) reader.fail("/schema", "only schema 1 is known");
  out.name = reader.text(root, "", "name");
  out.description = reader.text(root, "", "description");
  if (const Json* gpu = reader.member(root, "", "gpu")) read_gpu(reader, *gpu, out);
  if (const Json* host = reader.member(root, "", "host")) read_host(reader, *host, out);
  if (const Json* latencies = reader.member(root, "", "latencies")) read_latencies(reader, *latencies, out.latencies);
  if (const Json* contention = reader.member(root, "", "contention")) read_contention(reader, *contention, out);
  if (const Json* rings = reader.member(root, "", "rings")) read_rings(reader, *rings, out.rings);
  if (const Json* list = reader.member(root, "", "collectives")) read_collectives(reader, *list, out);
  if (const Json* rule = reader.member(root, "", "all_reduce")) read_all_reduce(reader, *rule, out);
  if (const Json* rates = reader.member(root, "", "rates")) read_rates(reader, *rates, out.rates);
  if (out.memory_other >= out.memory_total) reader.fail("/gpu/memory_other/value", "no memory would be left");
}

}  // namespace

Result<MachineProfile> parse_profile(std::string_view json, std::string_view where) {
  Json root;
  try {
    root = Json::parse(json);
  } catch (const Json::parse_error& error) {
    return foreshard::fail(ErrorKind::usage, "not valid JSON", fmt::format("{} byte {}", where, error.byte),
                           "a machine profile is a JSON document; h200 is a complete example");
  }
  ProfileReader reader(where);
  MachineProfile profile;
  read_profile(reader, root, profile);
  if (reader.error()) return tl::unexpected<Error>(*reader.error());
  profile.sources = reader.take_sources();
  return profile;
}

std::span<const std::string_view> builtin_profile_names() {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (const BuiltinProfile& profile : builtin_profiles()) names.push_back(profile.name);
    return names;
  }();
  return kNames;
}

Result<std::string_view> builtin_profile_json(std::string_view name) {
  for (const BuiltinProfile& profile : builtin_profiles())
    if (profile.name == name) return profile.json;
  return foreshard::fail(ErrorKind::usage, fmt::format("no machine profile is called '{}'", name), {},
                         suggestion(name, builtin_profile_names()));
}

Result<MachineProfile> builtin_profile(std::string_view name) {
  return builtin_profile_json(name).and_then(
      [&](std::string_view json) { return parse_profile(json, fmt::format("{}.json", name)); });
}

}  // namespace foreshard::sim
