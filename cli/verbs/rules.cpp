// `foreshard rules [--pytorch V] [--against V]`: the rules by which PyTorch versions differ, each with its source.

#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/option_set.hpp"
#include "cli/terminal/output.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/settings/pytorch_version.hpp"
#include "core/settings/settings_table.hpp"
#include "core/settings/version_rules.hpp"

namespace foreshard::cli {
namespace {

struct RulesOptions {
  std::string pytorch;
  std::string against;
  bool markdown = false;
  bool json = false;
};

std::string_view word(RuleArea area) {
  constexpr std::string_view kWords[] = {"FSDP2", "allocator", "CUDA's libraries"};
  return kWords[static_cast<std::size_t>(area)];
}
std::string_view word(RuleEffect moves) {
  constexpr std::string_view kWords[] = {"nothing", "bytes", "time", "bytes and time"};
  return kWords[static_cast<std::size_t>(moves)];
}
std::string word(const VersionRule& rule) {
  switch (rule.planned) {
    case RulePlanned::yes:
      return "yes";
    case RulePlanned::setting:
      return std::string(rule.setting);
    case RulePlanned::not_met:
      return "never met";
    case RulePlanned::no:
      return "no";
  }
  return {};
}
bool may_be_older(const VersionRule& rule) {
  return rule.maybe_since > 0 && rule.maybe_since < rule.since;
}
/// "2.13", or "2.14 (2.13?)" where an older one may have it.
std::string since(const VersionRule& rule) {
  return version_name(rule.since) +
         (may_be_older(rule) ? fmt::format(" ({}?)", version_name(rule.maybe_since)) : std::string());
}

/// The rules that are asked for, in the table's order.
std::vector<const VersionRule*> chosen(const RulesOptions& options) {
  if (!options.against.empty()) return differing_rules(options.pytorch, options.against);
  std::vector<const VersionRule*> out;
  for (const VersionRule& rule : version_rules())
    if (options.pytorch.empty() || holds(rule.id, options.pytorch)) out.push_back(&rule);
  return out;
}

std::string title(const RulesOptions& options, std::size_t count) {
  if (!options.against.empty())
    return fmt::format("PyTorch {} against {}: {} rule{} differ{}", options.pytorch, options.against, count,
                       count == 1 ? "" : "s", count == 1 ? "s" : "");
  if (options.pytorch.empty()) return fmt::format("{} rules by which PyTorch versions differ", count);
  return fmt::format("PyTorch {} has {} of the {} rules by which versions differ", options.pytorch, count,
                     version_rules().size());
}

void print_rule(const VersionRule& rule, const RulesOptions& options, std::ostream& out) {
  out << fmt::format("\n{} ({}, since {}; moves {}; in a plan: {})\n", rule.name, word(rule.area), since(rule),
                     word(rule.moves), word(rule));
  if (options.against.empty()) {
    out << fmt::format("  now     {}\n  before  {}\n", rule.what, rule.before);
  } else {
    const bool has = holds(rule.id, options.pytorch);
    out << fmt::format("  {:<7} {}\n  {:<7} {}\n", options.pytorch, has ? rule.what : rule.before, options.against,
                       has ? rule.before : rule.what);
  }
  out << fmt::format("  source  {}\n", rule.source);
  if (!rule.unsettled.empty()) out << fmt::format("  open    {}\n", rule.unsettled);
}

void print_markdown(const std::vector<const VersionRule*>& rules, std::ostream& out) {
  out << "| rule | of | since | moves | in a plan | what it does; before it | source "
         "|\n|---|---|---|---|---|---|---|\n";
  for (const VersionRule* rule : rules)
    out << fmt::format(
        "| {} | {} | {} | {} | {} | {} *Before:* {}{} | {} |\n", rule->name, word(rule->area), since(*rule),
        word(rule->moves), rule->setting.empty() ? word(*rule) : "`" + std::string(rule->setting) + "`", rule->what,
        rule->before, rule->unsettled.empty() ? std::string() : fmt::format(" *Open:* {}.", rule->unsettled),
        rule->source);
}

Json rule_json(const VersionRule& rule, const RulesOptions& options) {
  Json json = {{"rule", rule.name},
               {"area", word(rule.area)},
               {"since", version_name(rule.since)},
               {"maybe_since", may_be_older(rule) ? Json(version_name(rule.maybe_since)) : Json(nullptr)},
               {"moves", word(rule.moves)},
               {"planned", rule.planned == RulePlanned::setting ? "setting" : word(rule)},
               {"setting", rule.setting.empty() ? Json(nullptr) : Json(rule.setting)},
               {"what", rule.what},
               {"before", rule.before},
               {"source", rule.source},
               {"unsettled", rule.unsettled.empty() ? Json(nullptr) : Json(rule.unsettled)}};
  if (!options.pytorch.empty()) json["holds"] = holds(rule.id, options.pytorch);
  if (!options.against.empty()) json["holds_against"] = holds(rule.id, options.against);
  return json;
}

/// The version as a plan takes it: "2.13" of "2.13.0+cu130".
Result<void> normalise(std::string& pytorch) {
  if (pytorch.empty()) return {};
  Settings settings;
  FORESHARD_TRY(set_setting(settings, "pytorch", pytorch));
  pytorch = settings.pytorch;
  return {};
}

Result<int> rules(RulesOptions& options, Console& console) {
  if (!options.against.empty() && options.pytorch.empty()) options.pytorch = std::string(kMainPyTorch);
  FORESHARD_TRY(normalise(options.pytorch));
  FORESHARD_TRY(normalise(options.against));
  const std::vector<const VersionRule*> found = chosen(options);
  if (options.json) {
    Json json = json_result("rules");
    json["pytorch"] = options.pytorch.empty() ? Json(nullptr) : Json(options.pytorch);
    json["against"] = options.against.empty() ? Json(nullptr) : Json(options.against);
    json["main_read"] = kMainRead;
    json["rules"] = Json::array();
    for (const VersionRule* rule : found) json["rules"].push_back(rule_json(*rule, options));
    print_json(console.out, json);
    return kDone;
  }
  if (options.markdown) {
    print_markdown(found, console.out);
    return kDone;
  }
  console.out << title(options, found.size()) << fmt::format(" ({} is of {})\n", kMainPyTorch, kMainRead);
  for (const VersionRule* rule : found) print_rule(*rule, options, console.out);
  return kDone;
}

}  // namespace

Action add_rules(OptionSet& set) {
  auto options = std::make_shared<RulesOptions>();
  set.add_option("--pytorch", options->pytorch, "the rules of this version; default: all")
      .type_name(std::string(kKnownPyTorchRange))
      .suggest(kKnownPyTorch);
  set.add_option("--against", options->against, "only those in which it differs from this version")
      .type_name(std::string(kKnownPyTorchRange))
      .suggest(kKnownPyTorch);
  set.add_flag("--markdown", options->markdown, "as the table of docs/versions.md");
  set.add_flag("--json", options->json, "as JSON");
  return [options](Console& console) { return rules(*options, console); };
}

}  // namespace foreshard::cli
