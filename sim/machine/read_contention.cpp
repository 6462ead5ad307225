// "/contention": what ops that run at once share (contention_spec.hpp).
#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>

#include "core/kernel/kernel_enum_names.hpp"
#include "sim/machine/contention_spec.hpp"
#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

constexpr double kGiga = 1e9;

CollectivePath read_path(ProfileReader& reader, const Json& contention, std::string_view key) {
  static constexpr std::array<std::string_view, 6> kKeys{
      "sms", "memory_per_byte", "gather_latency", "reduce_latency", "link_bandwidth", "persistent_pressure"};
  CollectivePath out;
  const std::string place = fmt::format("/contention/{}", key);
  const Json* path = reader.member(contention, "/contention", key);
  if (path == nullptr) return out;
  reader.known_keys(*path, place, kKeys);
  out.sms = reader.constant(*path, place, "sms", "count", true);
  out.memory_per_byte = reader.constant(*path, place, "memory_per_byte", "ratio");
  out.gather_latency = reader.constant(*path, place, "gather_latency", "ratio", true);
  out.reduce_latency = reader.constant(*path, place, "reduce_latency", "ratio", true);
  if (reader.member(*path, place, "persistent_pressure", false) != nullptr)
    out.persistent_pressure = reader.constant(*path, place, "persistent_pressure", "ratio", true);
  out.link_bandwidth = kGiga * reader.constant(*path, place, "link_bandwidth", "GB/s");
  return out;
}

/// A share of the whole GPU.
double read_share(ProfileReader& reader, const Json& row, const std::string& place, std::string_view key, double most) {
  const double value = reader.number(row, place, key, 0);
  if (value > most) reader.fail(fmt::format("{}/{}", place, key), fmt::format("is more than {}", most));
  return value;
}

KernelUse read_class(ProfileReader& reader, const Json& row, const std::string& place) {
  static constexpr std::array<std::string_view, 6> kKeys{"sms", "memory", "pressure", "tiles", "persistent", "source"};
  // A kernel is limited by memory latency where it loses more than the bandwidth that others take: up to twice that.
  constexpr double kMaxMemory = 2;
  reader.known_keys(row, place, kKeys);
  KernelUse out;
  out.sms = read_share(reader, row, place, "sms", 1);
  out.memory = read_share(reader, row, place, "memory", kMaxMemory);
  out.pressure = read_share(reader, row, place, "pressure", 1);
  if (row.is_object() && row.contains("tiles")) out.tiles = reader.count(row, place, "tiles", 1);
  if (row.is_object() && row.contains("persistent")) {
    if (!row["persistent"].is_boolean()) reader.fail(place + "/persistent", "true or false is expected here");
    out.persistent = row["persistent"] == true;
  }
  reader.source(row, place);
  return out;
}

/// May be absent, and so may each of its keys.
void read_own_reduce(ProfileReader& reader, const Json& contention, PullReduceCtas& out) {
  constexpr std::string_view kPlace = "/contention/own_reduce";
  static constexpr std::array<std::string_view, 4> kKeys{"two_ranks", "two_ranks_upcast", "four_or_eight_ranks",
                                                         "other_ranks"};
  const Json* section = reader.member(contention, "/contention", "own_reduce", false);
  if (section == nullptr) return;
  reader.known_keys(*section, std::string(kPlace), kKeys);
  const std::array<std::uint32_t*, kKeys.size()> fields{&out.two_ranks, &out.two_ranks_upcast, &out.four_or_eight_ranks,
                                                        &out.other_ranks};
  for (std::size_t i = 0; i < kKeys.size(); ++i)
    if (reader.member(*section, std::string(kPlace), kKeys[i], false) != nullptr)
      *fields[i] = static_cast<std::uint32_t>(reader.constant(*section, std::string(kPlace), kKeys[i], "count"));
}

double read_slowdown(ProfileReader& reader, const Json& contention, std::string_view key) {
  const double value = reader.constant(contention, "/contention", key, "ratio");
  if (value < 1 && !reader.error()) reader.fail(fmt::format("/contention/{}/value", key), "a slowdown is at least 1");
  return value;
}

}  // namespace

void read_contention(ProfileReader& reader, const Json& contention, MachineProfile& profile) {
  static constexpr std::array<std::string_view, 20> kKeys{
      "memory_bandwidth", "ring",          "symmetric",    "copy_engine", "own_reduce",
      "held_sms",         "tail_tile",     "static_waves", "side_kernel", "with_side_kernel",
      "persistent_side",  "full_rate_sms", "busy_link",    "usual_link",  "most_traffic",
      "cluster",          "one_wave",      "least_loss",   "classes",     "streamed_bandwidth"};
  reader.known_keys(contention, "/contention", kKeys);
  ContentionSpec& out = profile.contention;
  out.memory_bandwidth = kGiga * reader.constant(contention, "/contention", "memory_bandwidth", "GB/s");
  out.ring = read_path(reader, contention, "ring");
  out.symmetric = read_path(reader, contention, "symmetric");
  out.copy_engine = read_path(reader, contention, "copy_engine");
  read_own_reduce(reader, contention, out.own_reduce);
  if (reader.member(contention, "/contention", "held_sms", false) != nullptr)
    out.held_sms = reader.constant(contention, "/contention", "held_sms", "count");
  if (reader.member(contention, "/contention", "streamed_bandwidth", false) != nullptr)
    out.streamed_bandwidth = kGiga * reader.constant(contention, "/contention", "streamed_bandwidth", "GB/s");
  out.tail_tile = reader.constant(contention, "/contention", "tail_tile", "ratio");
  out.static_waves = reader.constant(contention, "/contention", "static_waves", "count", true);
  out.side_kernel = read_slowdown(reader, contention, "side_kernel");
  out.with_side_kernel = read_slowdown(reader, contention, "with_side_kernel");
  out.persistent_side = read_slowdown(reader, contention, "persistent_side");
  const auto ratio = [&](std::string_view key) { return reader.constant(contention, "/contention", key, "ratio"); };
  out.full_rate_sms = ratio("full_rate_sms");
  out.busy_link = ratio("busy_link");
  out.usual_link = ratio("usual_link");
  out.most_traffic = ratio("most_traffic");
  if (out.most_traffic >= 1) reader.fail("/contention/most_traffic/value", "a share below 1 is expected here");
  out.one_wave = read_slowdown(reader, contention, "one_wave");
  out.least_loss = ratio("least_loss");
  out.cluster = static_cast<std::uint32_t>(reader.constant(contention, "/contention", "cluster", "count"));
  const Json* classes = reader.member(contention, "/contention", "classes");
  if (classes == nullptr) return;
  reader.known_keys(*classes, "/contention/classes", kDashedNames<KernelClass>);
  for (std::size_t c = 0; c < kEnumSize<KernelClass>; ++c) {
    const Json* row = reader.member(*classes, "/contention/classes", kDashedNames<KernelClass>[c], false);
    // A class without a row shares nothing.
    if (row != nullptr)
      out.classes[c] = read_class(reader, *row, fmt::format("/contention/classes/{}", kDashedNames<KernelClass>[c]));
  }
}

}  // namespace foreshard::sim
