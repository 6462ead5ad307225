// What another PyTorch version moves, and the rule that moves it.
#include "sim/sweep/upgrade.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;

namespace {

Settings under(const char* pytorch) {
  Settings settings = foreshard::sim::test::base();
  settings.pytorch = pytorch;
  return settings;
}

Upgrade upgraded(const char* from, const Settings& to, unsigned threads = 1) {
  const Workload workload = foreshard::test::timed_workload(under(from), 4, 3.0);
  const MachineProfile& machine = foreshard::sim::test::machine();
  PredictRequest request{to, {}};
  request.threads = threads;
  const auto planned = predict(workload, machine, request);
  REQUIRE(planned);
  auto found = find_upgrade(workload, machine, request, from, *planned);
  REQUIRE(found);
  return std::move(*found);
}

const MovedByRule* moved(const Upgrade& u, RuleId id) {
  const auto it = std::find_if(u.rules.begin(), u.rules.end(), [&](const auto& one) { return one.rule->id == id; });
  return it == u.rules.end() ? nullptr : &*it;
}

}  // namespace

TEST_CASE("an upgrade is the plan under both versions, and each rule's part of it") {
  const Upgrade u = upgraded("2.11", under("main"));
  CHECK(u.from == "2.11");
  CHECK(u.to == "main");
  CHECK(u.change.reserved ==
        static_cast<std::int64_t>(u.after.reserved) - static_cast<std::int64_t>(u.before.reserved));
  CHECK(u.change.step_ms == u.after_ms - u.before_ms);
  // Every rule between the two versions is named once.
  CHECK(u.rules.size() + u.unmoved.size() + u.not_planned.size() == differing_rules("2.11", "main").size());
  std::int64_t reserved = 0;
  std::int64_t requested = 0;
  for (const MovedByRule& one : u.rules) {
    CHECK(one.change.moves());
    reserved += one.change.reserved;
    requested += one.change.requested;
  }
  CHECK(reserved == u.change.reserved);
  CHECK(requested == u.change.requested);
  CHECK(moved(u, RuleId::reduce_input_cap) == nullptr);  // nobody asks for it
}

TEST_CASE("going back moves the same the other way") {
  const Upgrade there = upgraded("2.11", under("main"));
  const Upgrade back = upgraded("main", under("2.11"));
  CHECK(back.change.reserved == -there.change.reserved);
  CHECK(back.change.requested == -there.change.requested);
  REQUIRE(back.rules.size() == there.rules.size());
  for (std::size_t i = 0; i < back.rules.size(); ++i) {
    CHECK(back.rules[i].rule == there.rules[i].rule);
    CHECK(back.rules[i].change.requested == -there.rules[i].change.requested);
  }
}

TEST_CASE("a later version without a rule of both moves what the rule does") {
  for (const auto& [from, to] : {std::pair("2.11", "2.13~root-reshards"), std::pair("2.13~root-reshards", "2.11")}) {
    INFO(from << " to " << to);
    const Upgrade u = upgraded(from, under(to));
    REQUIRE(u.change.moves());
    std::int64_t requested = 0;
    for (const MovedByRule& one : u.rules) requested += one.change.requested;
    CHECK(requested == u.change.requested);
    CHECK(std::any_of(u.rules.begin(), u.rules.end(),
                      [](const MovedByRule& one) { return one.rule->name == "root-reshards"; }));
  }
}

TEST_CASE("a setting that only the later version has is that rule's part") {
  Settings more = under("2.13");
  more.reduce_scatter_max_input_buffers = 3;
  const Upgrade u = upgraded("2.11", more);
  const auto named = [&](RuleId id) {
    return moved(u, id) != nullptr ||
           std::any_of(u.unmoved.begin(), u.unmoved.end(), [&](const VersionRule* rule) { return rule->id == id; });
  };
  CHECK(named(RuleId::reduce_input_cap));
  const Upgrade plain = upgraded("2.11", under("2.13"));
  CHECK(std::any_of(plain.not_planned.begin(), plain.not_planned.end(),
                    [](const VersionRule* rule) { return rule->id == RuleId::reduce_input_cap; }));
}

TEST_CASE("a version without one of its rules is the older one") {
  const Upgrade u = upgraded("2.13", under("2.13~one-wait-a-stream"));
  REQUIRE(u.rules.size() + u.unmoved.size() == 1);
  CHECK(u.rules.empty() == !u.change.moves());
  if (!u.rules.empty()) CHECK(u.rules[0].change.step_ms == u.change.step_ms);
}

TEST_CASE("workspaces of a GPU that is not planned are no rule of the plan") {
  const auto named = [](const std::vector<const VersionRule*>& rules, RuleId id) {
    return std::any_of(rules.begin(), rules.end(), [&](const VersionRule* rule) { return rule->id == id; });
  };
  const Upgrade u = upgraded("2.11", under("main"));
  CHECK_FALSE(named(u.unmoved, RuleId::cublas_blackwell));
  CHECK(named(u.not_planned, RuleId::cublas_blackwell));
  CHECK(named(u.not_planned, RuleId::cublas_thor));
}

TEST_CASE("the same for any number of threads") {
  const Upgrade one = upgraded("2.11", under("main"), 1);
  const Upgrade many = upgraded("2.11", under("main"), 4);
  REQUIRE(one.rules.size() == many.rules.size());
  for (std::size_t i = 0; i < one.rules.size(); ++i) {
    CHECK(one.rules[i].rule == many.rules[i].rule);
    CHECK(one.rules[i].change.reserved == many.rules[i].change.reserved);
    CHECK(one.rules[i].change.step_ms == many.rules[i].change.step_ms);
  }
}
