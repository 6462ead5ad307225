#include "sim/machine/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/check.hpp"
#include "core/base/strict_json.hpp"
#include "core/base/suggest.hpp"
#include "sim/machine/builtin_profiles.hpp"
#include "sim/machine/merge_profile.hpp"
#include "sim/machine/profile_sections.hpp"
#include "sim/machine/renamed_keys.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kLargestText = 16 * kMiB;

/// A section and whether a profile must have it. Those that may be absent leave their part as it is by default.
struct Section {
  std::string_view key;
  bool required;
  SectionReader read;
};
constexpr std::array kSections{
    Section{"gpu", true, read_gpu},
    Section{"host", true, read_host},
    Section{"latencies", true, read_latencies},
    Section{"driver_calls", true, read_driver_calls},
    Section{"contention", true, read_contention},
    Section{"collectives", false, read_collectives},
    Section{"links", true, read_links},
    Section{"nccl", true, read_nccl},
    Section{"table_correction", true, read_table_correction},
    Section{"network", true, read_network},
    Section{"rates", true, read_rates},
    Section{"compute", false, read_compute},
    Section{"prediction", true, read_prediction},
    Section{"valid_range", false, read_valid_range},
};
/// What `calibrate` keeps of its work; read by people, not by the model.
constexpr std::array<std::string_view, 6> kOtherKeys{"schema",  "name",         "description",
                                                     "extends", "measurements", "calibration"};

Result<Json> parse_profile_json(std::string_view text, std::string_view where) {
  if (text.size() > kLargestText)
    return foreshard::fail(ErrorKind::input, "is larger than 16 MiB", std::string(where), "is it a machine profile?");
  return parse_strict_json(text, where,
                           "a machine profile is a JSON document; `foreshard machines h200` prints a complete one");
}

/// What schema 3 added to a profile: constants that stood in the program before. A complete profile of schema 2 takes
/// them from h200, on which they were found.
constexpr std::array<const char*, 13> kAdded{"/prediction",
                                             "/table_correction",
                                             "/links/ring_sharpness",
                                             "/rates/attention_share",
                                             "/compute/tiles",
                                             "/compute/rules",
                                             "/contention/full_rate_sms",
                                             "/contention/busy_link",
                                             "/contention/usual_link",
                                             "/contention/most_traffic",
                                             "/contention/cluster",
                                             "/contention/one_wave",
                                             "/contention/least_loss"};

/// What later versions added to schema 4: the widths of intervals, which are foreshard's own, what exchanges of experts
/// cost a host of PyTorch's, and what the driver's memory calls do.
constexpr std::array<const char*, 10> kAddedLater{"/prediction/adapted",
                                                  "/prediction/collectives",
                                                  "/prediction/difference",
                                                  "/prediction/difference_host",
                                                  "/prediction/difference_model_host",
                                                  "/prediction/retries",
                                                  "/host/calls/all_to_all",
                                                  "/host/calls/all_to_all_wait",
                                                  "/host/calls/backward_all_to_all",
                                                  "/driver_calls"};

/// What `added`, a constant or a section of them, says it was fitted on, so that `/measurements` of the profile names
/// it.
void add_measurements(Json& root, const Json& added, const Json& known) {
  if (!added.is_object()) return;
  if (!added.contains("fitted_on")) {
    for (const Json& one : added) add_measurements(root, one, known);
    return;
  }
  if (!added["fitted_on"].is_array()) return;
  Json& measurements = root["measurements"];
  if (!measurements.is_object() && !measurements.is_null()) return;  // said where it is read
  for (const Json& name : added["fitted_on"])
    if (!measurements.contains(name.get<std::string>()))
      measurements[name.get<std::string>()] = known[name.get<std::string>()];
}

Result<Json> with_added(Json root) {
  if (!root.is_object()) return root;
  const auto lacks = [&](const char* place) {
    const Json::json_pointer at(place);
    const Json::json_pointer parent = at.parent_pointer();
    return root.contains(parent) && root[parent].is_object() && !root.contains(at);
  };
  const bool oldest = root.value("schema", Json()) == kOldestProfileSchema;
  if (!oldest && std::none_of(kAddedLater.begin(), kAddedLater.end(), lacks)) return root;
  auto text = builtin_profile_json("h200");
  FORESHARD_TRY(text);
  auto base = parse_profile_json(*text, "h200");
  if (!base) return base;
  const auto add = [&](const char* place) {
    if (!lacks(place)) return;
    const Json& added = (*base)[Json::json_pointer(place)];
    root[Json::json_pointer(place)] = added;
    add_measurements(root, added, (*base)["measurements"]);
  };
  if (oldest) {
    if (!root.contains("measurements")) root["measurements"] = (*base)["measurements"];
    for (const char* place : kAdded) add(place);
  }
  for (const char* place : kAddedLater) add(place);
  return root;
}

/// The text's JSON laid over that of the profile it extends, if it does.
Result<Json> complete(Json root, std::string_view where) {
  FORESHARD_TRY(rename_keys(root, where));
  if (!root.is_object() || !root.contains("extends")) return with_added(std::move(root));
  const std::string place = fmt::format("{} /extends", where);
  if (!root["extends"].is_string())
    return foreshard::fail(ErrorKind::input, "the name of a built-in profile is expected here", place,
                           suggestion("", builtin_profile_names()));
  const std::string name = root["extends"].get<std::string>();
  auto text = builtin_profile_json(name);
  if (!text) return foreshard::fail(ErrorKind::input, text.error().what, place, text.error().hint);
  auto base = parse_profile_json(*text, name);
  // Built-in profiles extend only ones before them, so that this ends.
  if (base) base = complete(std::move(*base), name);
  if (!base) return base;
  base->erase("calibration");
  root.erase("extends");
  lay_over(*base, root);
  return with_added(std::move(*base));
}

/// Profiles probed before pull-reduce had a name of its own call it low-contention; they say whose host they measured.
void name_pull_reduce(MachineProfile& out) {
  if (out.host_calls.program != Lowering::foreshard) return;
  const auto has = [&](const CollectiveTable& like) {
    return std::any_of(out.collectives.begin(), out.collectives.end(), [&](const CollectiveTable& table) {
      return table.transport == Transport::pull_reduce && table.ranks == like.ranks &&
             table.ranks_per_node == like.ranks_per_node && table.of_dtypes(like.dtype, like.upcasts);
    });
  };
  for (CollectiveTable& table : out.collectives)
    if (table.kind == CollectiveKind::reduce_scatter && table.transport == Transport::low_contention && !has(table))
      table.transport = Transport::pull_reduce;
}

void read_profile(ProfileReader& reader, const Json& root, MachineProfile& out) {
  std::vector<std::string_view> keys(kOtherKeys.begin(), kOtherKeys.end());
  for (const Section& section : kSections) keys.push_back(section.key);
  reader.known_keys(root, "", keys);
  const double schema = reader.number(root, "", "schema", 1);
  if (schema != kProfileSchema && schema != kOldestProfileSchema)
    reader.fail("/schema", fmt::format("only schemas {} to {} are known", kOldestProfileSchema, kProfileSchema),
                "docs/machines.md describes them");
  out.name = reader.text(root, "", "name");
  out.description = reader.text(root, "", "description");
  if (const Json* measurements = reader.member(root, "", "measurements", false))
    read_measurements(reader, *measurements);
  if (const Json* record = reader.member(root, "", "calibration", false)) read_own_calibration(reader, *record);
  for (const Section& section : kSections) {
    const Json* value = reader.member(root, "", section.key, section.required);
    if (value != nullptr) section.read(reader, *value, out);
  }
  if (!reader.error()) name_pull_reduce(out);
}

}  // namespace

Result<Json> complete_profile(std::string_view json, std::string_view where) {
  return parse_profile_json(json, where).and_then([&](Json root) { return complete(std::move(root), where); });
}

Result<MachineProfile> parse_profile(std::string_view json, std::string_view where) {
  return parse_profile_json(json, where).and_then([&](Json root) { return profile_from_json(std::move(root), where); });
}

Result<MachineProfile> profile_from_json(Json document, std::string_view where) {
  const auto root = complete(std::move(document), where);
  FORESHARD_TRY(root);
  ProfileReader reader(where, root->is_object() && root->value("schema", Json()) == kProfileSchema);
  MachineProfile profile;
  read_profile(reader, *root, profile);
  if (reader.error()) return tl::unexpected<Error>(*reader.error());
  profile.sources = reader.take_sources();
  profile.provenance = reader.take_provenance();
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

std::optional<std::string_view> builtin_profile_of(std::string_view gpu) {
  // Words of letters and digits, in lower case, each between blanks: "gh200" is no h200.
  std::string words = " ";
  for (const char c : gpu) {
    const auto byte = static_cast<unsigned char>(c);
    words += std::isalnum(byte) != 0 ? static_cast<char>(std::tolower(byte)) : ' ';
  }
  words += ' ';
  const auto has = [&](std::string_view word) { return words.find(fmt::format(" {} ", word)) != std::string::npos; };
  std::optional<std::string_view> found;
  for (const std::string_view name : builtin_profile_names()) {
    const std::size_t dash = name.find('-');
    if (!has(name.substr(0, dash))) continue;
    if (dash != std::string_view::npos && !has(fmt::format("{}gb", name.substr(dash + 1)))) continue;
    if (!found || dash != std::string_view::npos) found = name;
  }
  return found;
}

Result<std::string_view> builtin_profile_json(std::string_view name) {
  for (const BuiltinProfile& profile : builtin_profiles())
    if (profile.name == name) return profile.json;
  return foreshard::fail(ErrorKind::usage, fmt::format("no machine profile is called '{}'", name), {},
                         suggestion(name, builtin_profile_names()));
}

namespace {

/// A built-in profile, and its JSON after "extends".
struct ReadProfile {
  std::once_flag once;
  Json whole;
  MachineProfile profile;
};

/// Each is read once, by who asks first; null where none is called so.
const ReadProfile* read_builtin(std::string_view name) {
  static std::vector<ReadProfile> all(builtin_profiles().size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    const BuiltinProfile& text = builtin_profiles()[i];
    if (text.name != name) continue;
    std::call_once(all[i].once, [&] {
      auto whole = complete_profile(text.json, name);
      FORESHARD_CHECK(whole.has_value(), whole ? "" : whole.error().text());
      auto profile = profile_from_json(*whole, fmt::format("{}.json", name));
      FORESHARD_CHECK(profile.has_value(), profile ? "" : profile.error().text());
      all[i].whole = std::move(*whole);
      all[i].profile = std::move(*profile);
    });
    return &all[i];
  }
  return nullptr;
}

}  // namespace

Result<MachineProfile> builtin_profile(std::string_view name) {
  FORESHARD_TRY(builtin_profile_json(name));
  return *find_builtin_profile(name);
}

const MachineProfile* find_builtin_profile(std::string_view name) {
  const ReadProfile* read = read_builtin(name);
  return read == nullptr ? nullptr : &read->profile;
}

const Json* find_builtin_document(std::string_view name) {
  const ReadProfile* read = read_builtin(name);
  return read == nullptr ? nullptr : &read->whole;
}

}  // namespace foreshard::sim
