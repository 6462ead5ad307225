#include "traces/pytorch/about.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/json_io.hpp"
#include "core/base/strict_json.hpp"
#include "core/base/suggest.hpp"
#include "core/settings/setting_text.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/pytorch/byte_source.hpp"
#include "traces/pytorch/json_object.hpp"

namespace foreshard::traces {

namespace {

constexpr Bytes kLimit = 256 * kMiB;  // 10,000 units of 20 parameters are some 50 MiB
constexpr std::uint32_t kSchema = 1;
constexpr std::array<std::string_view, 18> kKeys{"schema",
                                                 "torch",
                                                 "nccl",
                                                 "gpu",
                                                 "sm_count",
                                                 "gpus",
                                                 "nodes",
                                                 "replicate",
                                                 "batch",
                                                 "seq",
                                                 "settings",
                                                 "root_reshard_explicit",
                                                 "measured",
                                                 "units",
                                                 "model_config",
                                                 "tensor_parallel",
                                                 "expert_parallel",
                                                 "optimizer_param_groups"};
/// Settings with a place of their own at the top level.
constexpr std::array<std::string_view, 8> kTopLevelSettings{
    "gpus", "nodes", "replicate", "batch", "seq", "root_reshard_explicit", "tensor_parallel", "expert_parallel"};
constexpr std::array<std::string_view, 3> kMeasuredKeys{"step_ms", "host_issue_ms", "profiler"};
constexpr std::array<std::string_view, 3> kUnitKeys{"unit", "parameters", "groups"};
constexpr std::array<std::string_view, 6> kParameterKeys{"name",          "shape",           "dtype",
                                                         "requires_grad", "expert_parallel", "shard_dim"};
/// Keeps element counts, and bytes of them, far from 64 bits; the largest models have 2^42 parameters.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 48;
constexpr std::size_t kLongestValue = 64 * kKiB;
/// Longer words get no suggestion, whose cost grows with their length.
constexpr std::size_t kLongestWord = 200;
constexpr std::string_view kHint = "docs/formats.md describes about files";

Result<void> check_settings(const Settings& settings, const std::string& name) {
  auto done = check(settings);
  if (done) return {};
  done.error().kind = ErrorKind::mismatch;
  done.error().where = name;
  return done;
}

class AboutReader {
 public:
  AboutReader(const OrderedJson& root, const std::string& name, AboutParts parts)
      : root_{root, name + ", "}, name_(name), parts_(parts) {}

  Result<About> read() {
    for (const auto part : {&AboutReader::header, &AboutReader::settings, &AboutReader::measured, &AboutReader::units,
                            &AboutReader::unit_names, &AboutReader::optimizer_param_groups})
      FORESHARD_TRY((this->*part)());
    if (const OrderedJson* config = root_.find("model_config")) about_.model_config = config->dump();
    return std::move(about_);
  }

 private:
  Result<void> header();
  Result<void> settings();
  Result<void> measured();
  Result<void> units();
  Result<void> unit(std::size_t index, const OrderedJson& value);
  Result<void> groups(const JsonObject& object, Unit& unit);
  static Result<void> shard_dim(const JsonObject& object, Parameter& parameter);
  Result<Parameter> parameter(const JsonObject& object);
  Result<void> shape(const JsonObject& object, Parameter& parameter);
  Result<void> unit_names();
  Result<void> optimizer_param_groups();
  Result<std::vector<std::string>> optimizer_param_group(const OrderedJson& list, const std::string& place,
                                                         std::set<std::string>& seen) const;
  Result<void> setting(const std::string& key, const OrderedJson& value, const std::string& place);
  Result<std::vector<double>> times(const JsonObject& object, const std::string& key) const;

  JsonObject root_;
  const std::string& name_;
  AboutParts parts_;
  About about_;
  std::set<std::string> parameter_names_;
  std::set<std::string> unit_names_;
};

Result<void> AboutReader::header() {
  FORESHARD_TRY(root_.check_keys(kKeys));
  auto schema = root_.count("schema", 1);
  FORESHARD_TRY(schema);
  if (*schema != kSchema)
    return fail(ErrorKind::input, fmt::format("schema {} is not known, this version reads {}", *schema, kSchema),
                root_.place_of("schema"), "use a newer foreshard, or write the file again");
  for (const auto& [key, out] : {std::pair{"torch", &about_.torch}, {"nccl", &about_.nccl}, {"gpu", &about_.gpu}}) {
    const bool needed = out == &about_.torch && parts_ == AboutParts::whole;
    if (!needed && root_.find(key) == nullptr) continue;
    auto text = root_.text(key);
    FORESHARD_TRY(text);
    *out = std::move(*text);
  }
  if (root_.find("sm_count") != nullptr) {
    auto count = root_.count("sm_count", 1);
    FORESHARD_TRY(count);
    about_.sm_count = *count;
  }
  return {};
}

Result<void> AboutReader::setting(const std::string& key, const OrderedJson& value, const std::string& place) {
  const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
  if (value.is_string() && text.size() > kLongestValue)
    return fail(ErrorKind::input, "the text is longer than 64 KiB", place);
  auto set = set_setting(about_.settings, key, text);
  if (set) {
    if (auto wanted = value.is_string() ? check_is_text(about_.settings, key, text) : Result<void>(); !wanted) {
      wanted.error().where = place;
      return wanted;
    }
    about_.given.push_back(key);
    return {};
  }
  Error error = set.error();
  error.kind = ErrorKind::input;
  error.where = place;
  return tl::unexpected(std::move(error));
}

Result<void> AboutReader::settings() {
  if (root_.find("torch") != nullptr) FORESHARD_TRY(setting("pytorch", about_.torch, root_.place_of("torch")));
  if (root_.find("gpus") == nullptr && parts_ == AboutParts::whole)
    return fail(ErrorKind::input, "this key is missing", root_.place_of("gpus"));
  for (const std::string_view key : kTopLevelSettings) {
    const OrderedJson* value = root_.find(std::string(key));
    if (value == nullptr) continue;
    FORESHARD_TRY(setting(std::string(key), *value, root_.place_of(key)));
  }
  if (const OrderedJson* value = root_.find("settings")) {
    std::vector<std::string_view> known;
    for (const SettingOption& row : setting_table())
      if (row.key != "pytorch" && !is_top_level(row.key)) known.push_back(row.key);
    const JsonObject object{*value, root_.place_of("settings")};
    FORESHARD_TRY(object.check_keys(known));
    for (const auto& [key, item] : value->items()) FORESHARD_TRY(setting(key, item, object.place_of(key)));
  }
  if (parts_ == AboutParts::whole) FORESHARD_TRY(check_settings(about_.settings, name_));
  return {};
}

Result<std::vector<double>> AboutReader::times(const JsonObject& object, const std::string& key) const {
  const OrderedJson* list = object.find(key);
  if (list == nullptr) return fail(ErrorKind::input, "this key is missing", object.place_of(key));
  if (!list->is_array() || list->empty())
    return fail(ErrorKind::input, "an array of times in ms is needed", object.place_of(key));
  std::vector<double> times;
  for (const OrderedJson& item : *list) {
    const double ms = item.is_number() ? item.get<double>() : -1;
    // A step of a day is a mistake of units.
    constexpr double kLongest = 86'400'000;
    if (!(ms > 0 && ms <= kLongest))
      return fail(ErrorKind::input,
                  fmt::format("{} is not a time in ms", item.is_number() ? json_text(item) : describe(item)),
                  fmt::format("{}[{}]", object.place_of(key), times.size()));
    times.push_back(ms);
  }
  return times;
}

Result<void> AboutReader::measured() {
  const OrderedJson* value = root_.find("measured");
  if (value == nullptr || value->is_null()) return {};
  const JsonObject object{*value, root_.place_of("measured")};
  FORESHARD_TRY(object.check_keys(kMeasuredKeys));
  auto step = times(object, "step_ms");
  FORESHARD_TRY(step);
  auto host = times(object, "host_issue_ms");
  FORESHARD_TRY(host);
  const OrderedJson* profiler = object.find("profiler");
  if (profiler != nullptr && !profiler->is_boolean())
    return fail(ErrorKind::input, "true or false is needed, this is " + describe(*profiler),
                object.place_of("profiler"));
  if (profiler != nullptr && profiler->get<bool>()) {
    about_.warnings.emplace_back(
        "the about file's times were measured under a profiler, which slows the host: not used");
    return {};
  }
  about_.measured = Measured{std::move(*step), std::move(*host)};
  return {};
}

Result<void> AboutReader::shape(const JsonObject& object, Parameter& parameter) {
  const OrderedJson* list = object.find("shape");
  const std::string place = object.place_of("shape");
  if (list == nullptr || !list->is_array()) return fail(ErrorKind::input, "an array of sizes is needed", place);
  if (list->empty())
    return fail(ErrorKind::mismatch, "the parameter is a scalar, which fully_shard refuses", place,
                "make it a tensor of one element");
  std::int64_t elements = 1;
  for (const OrderedJson& item : *list) {
    const bool is_size = item.is_number_unsigned() && item.get<std::uint64_t>() > 0 &&
                         item.get<std::uint64_t>() <= static_cast<std::uint64_t>(kMaxElements / elements);
    if (!is_size)
      return fail(ErrorKind::input,
                  fmt::format("{} is not a size of a parameter", item.is_number() ? json_text(item) : describe(item)),
                  fmt::format("{}[{}]", place, parameter.shape.size()),
                  fmt::format("sizes are whole numbers from 1, and all together at most 2^48 elements"));
    parameter.shape.push_back(item.get<std::int64_t>());
    elements *= parameter.shape.back();
  }
  return {};
}

/// FSDPParam.fsdp_placement's dimension (shard_placement_fn).
Result<void> AboutReader::shard_dim(const JsonObject& object, Parameter& parameter) {
  const OrderedJson* dim = object.find("shard_dim");
  if (dim == nullptr) return {};
  if (!dim->is_number_integer())
    return fail(ErrorKind::input, "a dimension is needed, this is " + describe(*dim), object.place_of("shard_dim"));
  const std::size_t dims = std::max<std::size_t>(parameter.shape.size(), 1);  // Shard(0) of a scalar too
  if (!dim->is_number_unsigned() || dim->get<std::uint64_t>() >= dims)
    return fail(
        ErrorKind::input,
        fmt::format("{} has {} dimensions, and none of number {}", parameter.name, parameter.shape.size(), dim->dump()),
        object.place_of("shard_dim"), "dimensions count from 0");
  parameter.shard_dim = dim->get<std::uint32_t>();
  return {};
}

Result<Parameter> AboutReader::parameter(const JsonObject& object) {
  FORESHARD_TRY(object.check_keys(kParameterKeys));
  Parameter parameter;
  auto name = object.text("name");
  FORESHARD_TRY(name);
  parameter.name = std::move(*name);
  if (parameter.name.empty()) return fail(ErrorKind::input, "the name is empty", object.place_of("name"));
  if (!parameter_names_.insert(parameter.name).second)
    return fail(ErrorKind::mismatch, fmt::format("the parameter '{}' is named twice", parameter.name),
                object.place_of("name"), "a parameter belongs to one unit; a tied one is listed once");
  FORESHARD_TRY(shape(object, parameter));
  auto dtype = object.text("dtype");
  FORESHARD_TRY(dtype);
  const auto known = parse_dtype(*dtype);
  if (!known) {
    std::vector<std::string_view> words;
    for (const DTypeInfo& info : kDTypes) words.push_back(info.name);
    return fail(ErrorKind::input, fmt::format("unknown dtype '{}'", *dtype), object.place_of("dtype"),
                suggestion(*dtype, words));
  }
  parameter.dtype = *known;
  for (const auto& [key, member] : {std::pair{"requires_grad", &Parameter::requires_grad},
                                    std::pair{"expert_parallel", &Parameter::expert_parallel}}) {
    const OrderedJson* flag = object.find(key);
    if (flag == nullptr) continue;
    if (!flag->is_boolean())
      return fail(ErrorKind::input, "true or false is needed, this is " + describe(*flag), object.place_of(key));
    parameter.*member = flag->get<bool>();
    if (member == &Parameter::requires_grad) about_.requires_grad_known = true;
  }
  FORESHARD_TRY(shard_dim(object, parameter));
  return parameter;
}

Result<void> AboutReader::unit(std::size_t index, const OrderedJson& value) {
  const JsonObject object{value, fmt::format("{}[{}]", root_.place_of("units"), index)};
  FORESHARD_TRY(object.check_keys(kUnitKeys));
  auto name = object.text("unit");
  FORESHARD_TRY(name);
  Unit unit{std::move(*name), {}};
  if (unit.name.empty() != (index == 0))
    return fail(ErrorKind::mismatch,
                index == 0 ? fmt::format("the first unit must be the root, whose name is empty, not '{}'", unit.name)
                           : std::string("only the first unit is the root, with the empty name"),
                object.place_of("unit"));
  if (!unit_names_.insert(unit.name).second)
    return fail(ErrorKind::mismatch, fmt::format("the unit '{}' is named twice", unit.name), object.place_of("unit"));
  const OrderedJson* list = object.find("parameters");
  if (list == nullptr || !list->is_array())
    return fail(ErrorKind::input, "an array of parameters is needed", object.place_of("parameters"));
  // The root may own nothing: all its parameters can lie in other units.
  if (list->empty() && index > 0)
    return fail(ErrorKind::mismatch, fmt::format("the unit '{}' has no parameters", unit.name),
                object.place_of("parameters"), "leave it out: FSDP2 does nothing for it");
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto parsed = parameter({(*list)[i], fmt::format("{}[{}]", object.place_of("parameters"), i)});
    FORESHARD_TRY(parsed);
    unit.parameters.push_back(std::move(*parsed));
  }
  FORESHARD_TRY(groups(object, unit));
  about_.units.push_back(std::move(unit));
  return {};
}

/// `groups`, where there are any: how many parameters each FSDPParamGroup has, all together the unit's.
Result<void> AboutReader::groups(const JsonObject& object, Unit& unit) {
  const OrderedJson* list = object.find("groups");
  if (list == nullptr) return {};
  std::uint64_t left = unit.parameters.size();
  const auto counted = [&left](const OrderedJson& count) {
    if (!count.is_number_unsigned() || count.get<std::uint64_t>() == 0 || count.get<std::uint64_t>() > left)
      return false;
    left -= count.get<std::uint64_t>();
    return true;
  };
  if (!list->is_array() || !std::all_of(list->begin(), list->end(), counted) || left > 0)
    return fail(
        ErrorKind::mismatch,
        fmt::format("numbers of parameters, each at least 1 and {} together, are needed here", unit.parameters.size()),
        object.place_of("groups"), "one for each mesh, in the order in which their parameters are listed");
  for (const OrderedJson& count : *list) unit.groups.push_back(count.get<std::uint32_t>());
  if (unit.groups.size() < 2) unit.groups.clear();
  return {};
}

Result<void> AboutReader::units() {
  const OrderedJson* list = root_.find("units");
  if (list == nullptr && parts_ == AboutParts::some) return {};
  if (list == nullptr) return fail(ErrorKind::input, "this key is missing", root_.place_of("units"));
  if (!list->is_array() || list->empty())
    return fail(ErrorKind::input, "a list of at least one FSDP unit is needed", root_.place_of("units"));
  for (std::size_t i = 0; i < list->size(); ++i) FORESHARD_TRY(unit(i, (*list)[i]));
  if (parameter_names_.empty()) return fail(ErrorKind::mismatch, "no unit has a parameter", root_.place_of("units"));
  return {};
}

// Settings that name units must name those of the file.
Result<void> AboutReader::unit_names() {
  if (about_.units.empty()) return {};
  const std::vector<std::string_view> known(unit_names_.begin(), unit_names_.end());
  const auto check_name = [&](const std::string& unit, std::string_view key) -> Result<void> {
    if (unit_names_.contains(unit)) return {};
    const auto near = unit.size() > kLongestWord ? std::nullopt : nearest(unit, known);
    return fail(ErrorKind::mismatch, fmt::format("'{}' is no unit of this file", unit),
                root_.place_of("settings") + "." + std::string(key),
                near ? fmt::format("did you mean '{}'?", *near) : std::string());
  };
  for (const auto& [unit, unused] : about_.settings.reshard_of_unit) FORESHARD_TRY(check_name(unit, "reshard_of_unit"));
  for (const auto* lists : {&about_.settings.prefetch_lists.forward, &about_.settings.prefetch_lists.backward}) {
    for (const auto& [unit, targets] : *lists) {
      FORESHARD_TRY(check_name(unit, "prefetch_lists"));
      for (const std::string& target : targets) FORESHARD_TRY(check_name(target, "prefetch_lists"));
    }
  }
  return {};
}

/// Every parameter is one of the file's units, and in one group.
Result<std::vector<std::string>> AboutReader::optimizer_param_group(const OrderedJson& list, const std::string& place,
                                                                    std::set<std::string>& seen) const {
  if (!list.is_array() || list.empty()) return fail(ErrorKind::input, "an array of parameters' names is needed", place);
  std::vector<std::string> names;
  for (const OrderedJson& item : list) {
    const std::string at = fmt::format("{}[{}]", place, names.size());
    if (!item.is_string()) return fail(ErrorKind::input, "a name is needed, this is " + describe(item), at);
    names.push_back(item.get<std::string>());
    if (!parameter_names_.contains(names.back()))
      return fail(ErrorKind::mismatch, fmt::format("no unit of this file has the parameter '{}'", names.back()), at);
    if (!seen.insert(names.back()).second)
      return fail(ErrorKind::mismatch, fmt::format("the parameter '{}' is named twice", names.back()), at);
  }
  return names;
}

Result<void> AboutReader::optimizer_param_groups() {
  const OrderedJson* list = root_.find("optimizer_param_groups");
  if (list == nullptr) return {};
  const std::string place = root_.place_of("optimizer_param_groups");
  if (!list->is_array()) return fail(ErrorKind::input, "an array of the optimizer's param_groups is needed", place);
  std::set<std::string> seen;
  for (std::size_t i = 0; i < list->size(); ++i) {
    auto group = optimizer_param_group((*list)[i], fmt::format("{}[{}]", place, i), seen);
    FORESHARD_TRY(group);
    about_.optimizer_param_groups.push_back(std::move(*group));
  }
  if (about_.optimizer_param_groups.size() < 2) about_.optimizer_param_groups.clear();
  return {};
}

}  // namespace

bool is_top_level(std::string_view key) {
  return std::find(kTopLevelSettings.begin(), kTopLevelSettings.end(), key) != kTopLevelSettings.end();
}

Result<About> parse_about(const std::string& text, const std::string& name, AboutParts parts) {
  auto root = parse_strict_ordered_json(text, name, kHint);
  FORESHARD_TRY(root);
  return AboutReader(*root, name, parts).read();
}

Result<About> read_about(const std::string& path, AboutParts parts) {
  auto source = ByteSource::open(path);
  FORESHARD_TRY(source);
  auto text = read_all(*source, kLimit);
  FORESHARD_TRY(text);
  return parse_about(*text, path, parts);
}

bool gives(const About& about, std::string_view key) {
  return std::find(about.given.begin(), about.given.end(), key) != about.given.end();
}

Result<void> check_whole(const About& about, const std::string& name) {
  const auto missing = [&](const char* key) {
    return fail(ErrorKind::input, "this key is missing", fmt::format("{}, {}", name, key));
  };
  if (about.torch.empty()) return missing("torch");
  if (!gives(about, "gpus")) return missing("gpus");
  if (about.units.empty()) return missing("units");
  return check_settings(about.settings, name);
}

}  // namespace foreshard::traces
