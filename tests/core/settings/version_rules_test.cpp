// The table of rules by version: whole, in order, and the same seen from both sides.
#include "core/settings/version_rules.hpp"

#include <algorithm>
#include <set>
#include <string>

#include "core/settings/pytorch_version.hpp"
#include "core/settings/settings_table.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

std::set<std::string> names(const std::vector<const VersionRule*>& rules) {
  std::set<std::string> out;
  for (const VersionRule* rule : rules) out.emplace(rule->name);
  return out;
}

TEST_CASE("every rule says what it is, what was before it and where that was read") {
  std::set<std::string_view> seen;
  for (const VersionRule& rule : version_rules()) {
    CAPTURE(std::string(rule.name));
    CHECK(seen.insert(rule.name).second);
    CHECK(rule.what.ends_with('.'));
    CHECK(rule.before.ends_with('.'));
    CHECK_FALSE(rule.source.empty());
    CHECK(rule.since <= kMainMinor);
    CHECK(rule.maybe_since <= rule.since);
    if (rule.maybe_since > 0) CHECK_FALSE(rule.unsettled.empty());
    CHECK(rule.setting.empty() == (rule.planned != RulePlanned::setting));
    const auto settings = setting_table();
    if (rule.planned == RulePlanned::setting)
      CHECK(std::any_of(settings.begin(), settings.end(), [&](const auto& s) { return s.key == rule.setting; }));
    CHECK(&version_rule(rule.id) == &rule);
  }
  CHECK(seen.size() == kVersionRules);
}

TEST_CASE("rules are listed by area, and in each by version") {
  const auto rules = version_rules();
  CHECK(std::is_sorted(rules.begin(), rules.end(), [](const VersionRule& a, const VersionRule& b) {
    const auto rank = [](RuleArea area) { return area == RuleArea::allocator ? 0 : area == RuleArea::fsdp2 ? 1 : 2; };
    return std::pair(rank(a.area), a.since) < std::pair(rank(b.area), b.since);
  }));
}

TEST_CASE("a rule holds from its version on") {
  CHECK_FALSE(holds(RuleId::ties_by_creation, "2.12"));
  CHECK(holds(RuleId::ties_by_creation, "2.13"));
  CHECK(holds(RuleId::ties_by_creation, "main"));
  CHECK_FALSE(holds(RuleId::gather_freed_first, "2.14.1+cu130"));
  CHECK(holds(RuleId::gather_freed_first, "main"));
  CHECK(holds(RuleId::root_reshards, "nightly"));  // of no version: as kCheckedPyTorch
  for (const VersionRule& rule : version_rules()) CHECK(holds(rule.id, "2." + std::to_string(rule.since - 1)) == false);
}

TEST_CASE("a version without some of its rules") {
  const std::string without = without_rule("2.13", version_rule(RuleId::ties_by_creation));
  CHECK(without == "2.13~ties-by-creation");
  CHECK_FALSE(holds(RuleId::ties_by_creation, without));
  CHECK(holds(RuleId::one_wait_a_stream, without));
  CHECK(names(differing_rules("2.13", without)) == std::set<std::string>{"ties-by-creation"});
  const std::string two = without_rule(without, version_rule(RuleId::one_wait_a_stream));
  CHECK_FALSE(holds(RuleId::ties_by_creation, two));
  CHECK_FALSE(holds(RuleId::one_wait_a_stream, two));
  CHECK(pytorch_minor(two) == 13);
  CHECK(find_rule("ties-by-creation") == &version_rule(RuleId::ties_by_creation));
  CHECK(find_rule("ties") == nullptr);
  CHECK(holds(RuleId::ties_by_creation, "2.13~ties"));
}

TEST_CASE("two versions differ by the rules between them, in either direction") {
  CHECK(differing_rules("2.13", "2.13").empty());
  CHECK(names(differing_rules("2.11", "2.13")) == names(differing_rules("2.13", "2.11")));
  CHECK(names(differing_rules("2.10", "2.11")).empty());
  const auto upgrade = names(differing_rules("2.11", "2.13"));
  CHECK(upgrade.contains("ties-by-creation"));
  CHECK(upgrade.contains("one-wait-a-stream"));
  CHECK_FALSE(upgrade.contains("gather-freed-first"));
  CHECK(upgrade.size() == differing_rules("2.11", "2.12").size() + differing_rules("2.12", "2.13").size());
}

TEST_CASE("FSDP2's rules were recorded of three versions") {
  for (const char* version : {"2.11", "2.11.0+cu130", "2.13", "2.13~ties-by-creation", "main"})
    CHECK(fsdp_rules_recorded(version));
  for (const char* version : {"2.6", "2.10", "2.12", "2.14"}) CHECK_FALSE(fsdp_rules_recorded(version));
}

TEST_CASE("what may hold already is told of the versions between") {
  CHECK(names(unsettled_rules("2.11")).empty());
  CHECK(names(unsettled_rules("2.12")) == std::set<std::string>{"custom-pool-ties", "unused-gradients"});
  CHECK(names(unsettled_rules("2.13")).empty());
  CHECK(names(unsettled_rules("2.14")) == std::set<std::string>{"gradients-freed-first"});
  CHECK(names(unsettled_rules("main")).empty());
}

TEST_CASE("a version that was inferred and not read is said to be") {
  for (const RuleId id : {RuleId::symmetric_memory_call, RuleId::ties_by_creation, RuleId::gradients_freed_first})
    CHECK(version_rule(id).unsettled.find("inferred") != std::string_view::npos);
}

}  // namespace
}  // namespace foreshard
