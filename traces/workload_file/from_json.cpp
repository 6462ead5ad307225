#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "core/base/json_io.hpp"
#include "core/base/strict_json.hpp"
#include "core/base/suggest.hpp"
#include "core/kernel/own_kernels.hpp"
#include "core/run/run_names.hpp"
#include "core/settings/carried_out.hpp"
#include "core/settings/setting_text.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/workload_file/kernel_text.hpp"
#include "traces/workload_file/record_tables.hpp"
#include "traces/workload_file/workload_check.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::traces {
namespace {

constexpr std::uint32_t kUnsaidSms = 132;  // an H200's: files of schema 1 leave it out (docs/workload.md)

template <class R, std::size_t N>
constexpr auto keys_of(const std::array<Field<R>, N>& fields) {
  std::array<std::string_view, N> keys;
  for (std::size_t i = 0; i < N; ++i) keys[i] = fields[i].key;
  return keys;
}
/// The keys of an object: those of its fields, and others.
template <class R, std::size_t N, class... Others>
constexpr auto keys_of(const std::array<Field<R>, N>& fields, Others... others) {
  std::array<std::string_view, N + sizeof...(Others)> keys{others...};
  for (std::size_t i = 0; i < N; ++i) keys[sizeof...(Others) + i] = fields[i].key;
  return keys;
}

constexpr auto kFileKeys = keys_of(kWorkloadFields, "format", "schema", "settings", "units", "labels", "computations",
                                   "measured", "initial_segments", "late_returns", "losses", "process_groups",
                                   "rank_shapes", "recorded_steps", "sections", "setup", "steps");
constexpr auto kOpKeys = keys_of(kOpFields, kComputesKey);
constexpr auto kSectionKeys = keys_of(kSectionFields, "items");
constexpr auto kSegmentKeys = keys_of(kSegmentFields, "blocks");
constexpr auto kMeasuredKeys = keys_of(kMeasuredFields);
constexpr std::array<std::string_view, 3> kUnitKeys{"name", "parameters", "groups"};

/// Calls `read(member)` if the object has one of that name.
template <class Read>
void with_member(JsonReader& reader, const Json& json, std::string_view key, bool required, Read&& read) {
  if (reader.failed()) return;
  const auto found = member_of(json, key);
  if (!found) {
    if (required) reader.fail(fmt::format("the key '{}' is missing", key));
    return;
  }
  const auto place = reader.at(key);
  read(*found);
}

/// The keys behind an op's places: `taken` are those that stand at a place.
void read_extras(JsonReader& reader, const Json& json, const OpForm& form, Op& op, KernelReader& kernels) {
  if (!reader.object(json, kOpKeys)) return;
  for (std::size_t i = 0; i < form.count; ++i)
    if (const std::string_view key = kOpFields[form.positions[i]].key; member_of(json, key))
      return reader.fail(fmt::format("'{}' of a {} has a place in its list", key, name(form.kind)),
                         fmt::format("write it as value {}", i + 1));
  read_members(reader, json, std::span(kOpFields), op);
  with_member(reader, json, kComputesKey, false, [&](const Json& member) { kernels.read(reader, member, op); });
}

void read_op(JsonReader& reader, const Json& json, Op& op, KernelReader& kernels) {
  if (!reader.array(json)) return;
  const JsonList list = list_of(json);
  const std::size_t size = list.size();
  if (size == 0) return reader.fail("an op begins with its kind, as in [\"free\", 3]");
  auto item = list.begin();
  {
    const auto place = reader.at(std::size_t{0});
    reader.read(*item, op.kind);
  }
  if (reader.failed()) return;
  const OpForm& form = kOpForms[static_cast<std::size_t>(op.kind)];
  const Json last = item_of(list, size - 1);
  const bool extras = size > 1 && last.is_object();
  const std::size_t count = size - 1 - (extras ? 1 : 0);
  if (count < form.required || count > form.count)
    return reader.fail(fmt::format("a {} has {} to {} values behind its kind, not {}", name(op.kind), form.required,
                                   form.count, count));
  for (std::size_t i = 0; i < count && !reader.failed(); ++i) {
    const auto place = reader.at(i + 1);
    kOpFields[form.positions[i]].read(reader, *++item, op);
  }
  if (op.kind == OpKind::kernel) op.kernel.label = op.label;
  if (op.kind == OpKind::copy) op.copy.label = op.label;
  if (extras) {
    const auto place = reader.at(size - 1);
    read_extras(reader, last, form, op, kernels);
  }
}

void read_program(JsonReader& reader, const Json& json, Program& program, KernelReader& kernels) {
  kernels.begin(program);
  reader.read_list(json, program.ops, [&](const Json& item, Op& op) { read_op(reader, item, op, kernels); });
}

void read_losses(JsonReader& reader, const Json& json, std::vector<Program>& steps) {
  std::vector<TensorId> losses;
  reader.read(json, losses);
  if (reader.failed()) return;
  if (losses.size() != steps.size())
    return reader.fail(fmt::format("{} losses for {} steps", losses.size(), steps.size()));
  for (std::size_t i = 0; i < losses.size(); ++i) steps[i].loss = losses[i];
}

/// At any depth, the first in the order of the file.
std::optional<std::string> repeated_key(const Json& json) {
  if (json.is_array())
    for (const Json item : list_of(json))
      if (auto key = repeated_key(item)) return key;
  if (!json.is_object()) return std::nullopt;
  std::set<std::string_view> seen;
  for (const auto [key, value] : object_of(json)) {
    if (!seen.insert(key).second) return std::string(key);
    if (auto below = repeated_key(value)) return below;
  }
  return std::nullopt;
}

void read_settings(JsonReader& reader, const Json& json, Settings& settings) {
  if (!json.is_object()) return reader.fail("an object is wanted here");
  if (const auto key = repeated_key(json))
    return reader.fail(fmt::format("the key '{}' occurs twice in one object", *key));
  const nlohmann::json members = plain(json);  // in the order of their keys
  for (const auto& [key, value] : members.items()) {
    const auto set = set_setting(settings, key, json_text(value));
    if (!set) return reader.fail(set.error().what, set.error().hint);
    const auto wanted = value.is_string() ? check_is_text(settings, key, value.get<std::string>()) : Result<void>();
    if (!wanted) return reader.fail(key + ": " + wanted.error().what, wanted.error().hint);
  }
}

void read_unit(JsonReader& reader, const Json& json, Unit& unit) {
  if (!reader.object(json, kUnitKeys)) return;
  with_member(reader, json, "name", true, [&](const Json& member) { reader.read(member, unit.name); });
  with_member(reader, json, "parameters", true, [&](const Json& member) {
    reader.read_list(member, unit.parameters,
                     [&](const Json& item, Parameter& p) { read_array(reader, item, kParameterForm, p); });
  });
  with_member(reader, json, "groups", false, [&](const Json& member) { reader.read(member, unit.groups); });
}

void read_section(JsonReader& reader, const Json& json, SectionCost& cost) {
  if (!reader.object(json, kSectionKeys)) return;
  if (!member_of(json, "section")) return reader.fail("the key 'section' is missing");
  read_members(reader, json, std::span(kSectionFields), cost);
  with_member(reader, json, "items", true, [&](const Json& member) {
    reader.read_list(member, cost.items,
                     [&](const Json& item, SectionItem& record) { read_array(reader, item, kItemForm, record); });
  });
}

void read_segment(JsonReader& reader, const Json& json, SnapshotSegment& segment) {
  if (!reader.object(json, kSegmentKeys)) return;
  read_members(reader, json, std::span(kSegmentFields), segment);
  with_member(reader, json, "blocks", true, [&](const Json& member) {
    reader.read_list(member, segment.blocks,
                     [&](const Json& item, SnapshotBlock& block) { read_array(reader, item, kBlockForm, block); });
  });
}

void read_measured(JsonReader& reader, const Json& json, std::optional<Measured>& measured) {
  if (!reader.object(json, kMeasuredKeys)) return;
  read_members(reader, json, std::span(kMeasuredFields), measured.emplace());
}

void read_labels(JsonReader& reader, const Json& json, Labels& labels) {
  std::vector<std::string> texts;
  reader.read(json, texts);
  for (std::size_t i = 0; i < texts.size() && !reader.failed(); ++i)
    if (labels.intern(texts[i]).value != i) reader.fail(fmt::format("duplicate label '{}'", texts[i]));
}

/// Format and schema come first: a file of another kind is told so, not that a key of it is unknown.
void read_identity(JsonReader& reader, const Json& json) {
  std::string_view format;
  if (json["format"].get(format) || format != kWorkloadFormat)
    return reader.fail("is not a workload file",
                       fmt::format("a workload file begins with {{\"format\": \"{}\", \"schema\": {}", kWorkloadFormat,
                                   kWorkloadSchema));
  std::uint32_t schema = 0;
  with_member(reader, json, "schema", true, [&](const Json& member) { reader.read(member, schema); });
  if (!reader.failed() && schema != kWorkloadSchema)
    reader.fail(fmt::format("the file has schema {}, and this foreshard reads schema {}", schema, kWorkloadSchema),
                schema > kWorkloadSchema ? "read it with a newer foreshard" : "");
}

void read_workload(JsonReader& reader, const Json& json, Workload& out) {
  read_identity(reader, json);
  if (!reader.object(json, kFileKeys)) return;
  const auto member = [&](std::string_view key, bool required, auto&& read) {
    with_member(reader, json, key, required, read);
  };
  member("labels", false, [&](const Json& labels) { read_labels(reader, labels, out.labels); });
  read_members(reader, json, std::span(kWorkloadFields), out);
  member("settings", false, [&](const Json& settings) { read_settings(reader, settings, out.settings); });
  member("process_groups", false, [&](const Json& groups) {
    reader.read_list(groups, out.process_groups, [&](const Json& item, ProcessGroup& group) {
      read_array(reader, item, kProcessGroupForm, group);
    });
  });
  member("units", true, [&](const Json& units) {
    reader.read_list(units, out.units, [&](const Json& item, Unit& unit) { read_unit(reader, item, unit); });
  });
  member("measured", false, [&](const Json& measured) { read_measured(reader, measured, out.measured); });
  member("late_returns", false, [&](const Json& late) {
    reader.read_list(late, out.returns.late, [&](const Json& item, RecordedReturns::Late& entry) {
      read_array(reader, item, kLateForm, entry);
    });
  });
  member("rank_shapes", false, [&](const Json& ranks) {
    reader.read_list(ranks, out.rank_shapes,
                     [&](const Json& item, RankShape& rank) { read_array(reader, item, kRankShapeForm, rank); });
  });
  member("recorded_steps", false, [&](const Json& steps) {
    reader.read_list(steps, out.recorded,
                     [&](const Json& item, RecordedStep& step) { read_array(reader, item, kRecordedStepForm, step); });
  });
  member("initial_segments", false, [&](const Json& segments) {
    reader.read_list(segments, out.initial_segments,
                     [&](const Json& item, SnapshotSegment& segment) { read_segment(reader, item, segment); });
  });
  member("sections", false, [&](const Json& sections) {
    reader.read_list(sections, out.sections,
                     [&](const Json& item, SectionCost& cost) { read_section(reader, item, cost); });
  });
  std::vector<Kernel> table;
  member("computations", false, [&](const Json& list) {
    reader.read_list(list, table, [&](const Json& item, Kernel& what) { read(reader, item, what); });
  });
  KernelReader kernels(table);
  member("setup", false, [&](const Json& setup) { read_program(reader, setup, out.setup, kernels); });
  member("steps", true, [&](const Json& steps) {
    reader.read_list(steps, out.steps,
                     [&](const Json& item, Program& step) { read_program(reader, item, step, kernels); });
  });
  member("losses", false, [&](const Json& losses) { read_losses(reader, losses, out.steps); });
}

}  // namespace

Result<Workload> from_json(std::string_view text, std::string_view where) {
  JsonDocument document;
  const auto json = document.parse(text, where);
  FORESHARD_TRY(json);
  Workload out;
  JsonReader reader(where, out.labels);
  read_workload(reader, *json, out);
  if (reader.failed()) {
    FORESHARD_TRY(parse_strict_json(text, where));  // a key twice, of which this reader may have met another fault
    return tl::unexpected(reader.error());
  }
  if (out.sm_count == 0 && !member_of(*json, "sm_count")) out.sm_count = kUnsaidSms;
  std::erase(out.estimates, kOwnKernelsEstimate);  // of older files: a plan finds this out of the machine
  FORESHARD_TRY(check_workload(out, where));
  return out;
}

Result<Workload> stored_workload(std::string_view text, bool executed, std::string_view where) {
  auto workload = from_json(text, where);
  if (workload && executed) {
    workload->lowering = Lowering::foreshard;
    workload->settings = carried_out(workload->lowering, workload->settings);
  }
  return workload;
}

}  // namespace foreshard::traces
