#include "sim/calibrate/fit_machine.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/json_io.hpp"
#include "core/base/units.hpp"
#include "core/device/collective_names.hpp"
#include "core/kernel/kernel_enum_names.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/calibrate/fit_parts.hpp"
#include "sim/calibrate/profile_draft.hpp"
#include "sim/machine/merge_profile.hpp"
#include "sim/machine/renamed_keys.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;
using Ordered = nlohmann::ordered_json;

/// The text whose constants are changed: the base itself where it is a file, else a profile that extends it.
Result<Json> starting_text(const FitRequest& request) {
  if (request.base_json.empty()) {
    FORESHARD_TRY(builtin_profile_json(request.base));
    return Json{{"schema", kProfileSchema}, {"extends", request.base}};
  }
  // Its JSON is known to be right: parse_profile() read it before.
  Json json = parse_json_text(request.base_json);
  json.erase("calibration");
  FORESHARD_TRY(rename_keys(json, request.base));
  return json;
}

std::string source_of(std::span<const Measurements> inputs, const Samples& samples) {
  std::vector<std::string> formats;
  for (const Measurements& input : inputs)
    if (std::find(formats.begin(), formats.end(), input.format) == formats.end()) formats.push_back(input.format);
  std::sort(formats.begin(), formats.end());
  return fmt::format("measured{}: foreshard calibrate from {} ({})", samples.gpu.empty() ? "" : " on " + samples.gpu,
                     inputs.size() == 1 ? "one file" : fmt::format("{} files", inputs.size()),
                     fmt::join(formats, ", "));
}

template <class Set>
Json range(const Set& values) {
  return {*values.begin(), *values.rbegin()};
}

/// What the inputs span; axes that none of them speaks of stay the base's.
Json valid_range_of(const Samples& samples, const ValidRange& base, const std::string& source) {
  std::set<Bytes> bytes;
  std::set<std::uint32_t> ranks, nodes;
  std::set<std::string_view> transports;
  for (const auto& [key, times] : samples.collectives) {
    const auto& [kind, transport, n, per_node, upcasts, dtype, size] = key;
    bytes.insert(size);
    ranks.insert(n);
    nodes.insert((n + per_node - 1) / per_node);
    transports.insert(name(transport));
  }
  Json valid_range{{"source", source}};
  if (!bytes.empty()) {
    valid_range["bytes"] = range(bytes);
    valid_range["ranks"] = range(ranks);
    valid_range["nodes"] = range(nodes);
    valid_range["transports"] = transports;
  } else {
    if (base.bytes) valid_range["bytes"] = {base.bytes->least, base.bytes->most};
    if (base.ranks) valid_range["ranks"] = {base.ranks->least, base.ranks->most};
    if (base.nodes) valid_range["nodes"] = {base.nodes->least, base.nodes->most};
    for (const Transport transport : base.transports) valid_range["transports"].push_back(name(transport));
  }
  std::set<DType> products;  // measured beyond the base's
  for (const KernelSample& sample : samples.kernels)
    if (sample.math.kind == KernelMath::Kind::gemm) products.insert(sample.math.dtype);
  for (const DType dtype : base.dtypes) products.erase(dtype);
  for (const DType dtype : base.dtypes) valid_range["dtypes"].push_back(name(dtype));
  for (const DType dtype : products) valid_range["dtypes"].push_back(name(dtype));
  for (const KernelClass kernel : base.kernels) valid_range["kernels"].push_back(dashed_name(kernel));
  return valid_range;
}

Json changes_of(const MachineFit& fit) {
  Json changes = Json::object();
  for (const FittedConstant& constant : fit.constants) {
    const Json value{{"value", constant.after},
                     {"unit", constant.unit},
                     {"source", constant.source},
                     {"fitted_on", Json::array({kOwnCalibration})}};
    changes[Json::json_pointer(constant.place)] = value;
  }
  return changes;
}

Json record_of(std::span<const Measurements> inputs, const std::string& base, const MachineFit& fit) {
  Json record{{"base", base}, {"inputs", Json::array()}, {"residuals", Json::array()}, {"notes", fit.notes}};
  for (const Measurements& input : inputs) {
    Json notes = Json::array();
    for (const InputNote& note : input.notes) notes.push_back({{"text", note.text}, {"count", note.count}});
    record["inputs"].push_back({{"path", input.path},
                                {"format", input.format},
                                {"bytes", input.size},
                                {"digest", input.digest},
                                {"samples", input.samples()},
                                {"notes", notes}});
  }
  for (const Residual& residual : fit.residuals)
    record["residuals"].push_back({{"what", residual.what},
                                   {"model", residual.model},
                                   {"points", residual.points},
                                   {"mean", residual.mean},
                                   {"worst", residual.worst}});
  return record;
}

/// Keys in the order in which people look for them, the tables and the record last.
Ordered in_order(const Json& profile) {
  static constexpr std::array kFirst{"schema", "name", "description", "extends", "valid_range"};
  static constexpr std::array kLast{"collectives", "calibration"};
  const auto in = [](const auto& list, const std::string& key) {
    return std::find(list.begin(), list.end(), key) != list.end();
  };
  Ordered out = Ordered::object();
  for (const char* key : kFirst)
    if (profile.contains(key)) out[key] = profile[key];
  for (const auto& [key, value] : profile.items())
    if (!in(kFirst, key) && !in(kLast, key)) out[key] = value;
  for (const char* key : kLast)
    if (profile.contains(key)) out[key] = profile[key];
  return out;
}

}  // namespace

Result<ProfileDraft> draft_profile(std::span<const Measurements> inputs, const FitRequest& request) {
  auto base =
      request.base_json.empty() ? builtin_profile(request.base) : parse_profile(request.base_json, request.base);
  FORESHARD_TRY(base);
  const ValidRange valid_range = base->valid_range;
  const std::string base_name = base->name;
  ProfileDraft draft;
  draft.machine = std::move(*base);
  const auto samples = join(inputs);
  FORESHARD_TRY(samples);
  MachineFit& fit = draft.fit;
  FORESHARD_TRY(fit_node(*samples, draft.machine, fit));
  fit_links(*samples, draft.machine, fit);
  fit_contention(*samples, draft.machine, fit);
  fit_rates(*samples, draft.machine, fit);
  const std::string source = source_of(inputs, *samples);
  const Json tables = fit_tables(*samples, source, draft.machine);
  fit.tables = tables.size();
  if (fit.tables > 0) {
    auto residuals = table_residuals(draft.machine, source);
    fit.residuals.insert(fit.residuals.begin(), residuals.begin(), residuals.end());
  }
  const Json kernels = fit_kernels(*samples, source, draft.machine, fit);
  auto text = starting_text(request);
  FORESHARD_TRY(text);
  Json changes = changes_of(fit);
  if (!tables.empty()) changes["collectives"] = tables;
  if (!kernels.empty()) changes["compute"] = kernels;
  changes["name"] = request.name;
  changes["description"] = fmt::format("{}, calibrated from {} files", base_name, inputs.size());
  lay_over(*text, changes);
  (*text)["valid_range"] = valid_range_of(*samples, valid_range, source);
  (*text)["calibration"] = record_of(inputs, request.base, fit);
  draft.document = std::move(*text);
  return draft;
}

Result<MachineFit> finish(ProfileDraft draft, const std::string& name) {
  MachineFit fit = std::move(draft.fit);
  // Hosts' and devices' names come from foreign text.
  fit.json = in_order(draft.document).dump(2, ' ', false, Ordered::error_handler_t::replace);
  auto machine = profile_from_json(std::move(draft.document), name);
  FORESHARD_TRY(machine);
  fit.machine = std::move(*machine);
  return fit;
}

Result<MachineFit> fit_machine(std::span<const Measurements> inputs, const FitRequest& request) {
  return draft_profile(inputs, request).and_then([&](ProfileDraft draft) {
    return finish(std::move(draft), request.name);
  });
}

}  // namespace foreshard::sim
