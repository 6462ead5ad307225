// What a search tries next: consistent, different, and within what is allowed.
#include "sim/tune/neighbours.hpp"

#include <algorithm>
#include <set>

#include "core/settings/settings_table.hpp"
#include "sim/sweep/candidates.hpp"
#include "tests/catch.hpp"
#include "tests/property/timed_workload.hpp"
#include "tests/sim/sweep/small_plan.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using foreshard::sim::test::base;

namespace {

struct Place {
  Settings start = base();
  MoveFamilies allowed = MoveFamilies::usual();
  Workload workload = foreshard::test::timed_workload(base(), 4, 3.0);
  std::vector<Exposed> exposed = {};
  bool short_of_memory = false;

  [[nodiscard]] Position position() const {
    return {start, allowed, start, workload, workload.units, exposed, short_of_memory};
  }
};

bool has(const Place& place, const std::vector<Neighbour>& list, const std::string& setting) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Neighbour& one) { return setting_text(place.start, one.settings) == setting; });
}

}  // namespace

TEST_CASE("neighbours are consistent, differ from where they come from and from one another, and say what they do") {
  Place place;
  place.exposed = {{CollectiveKind::all_gather, 2, true, IdleCause::prefetch, 1.5},
                   {CollectiveKind::all_gather, 3, false, IdleCause::prefetch, 0.5}};
  const auto list = neighbours(place.position());
  std::set<std::string> seen{text_of(place.start)};
  for (const Neighbour& one : list) {
    INFO(one.phrase);
    CHECK(check(one.settings));
    CHECK_FALSE(one.phrase.empty());
    CHECK(seen.insert(text_of(one.settings)).second);
    CHECK(place.allowed.holds(changed_families(place.start, one.settings)));
  }
  CHECK(has(place, list, "--reshard-after-forward false"));  // of explain --time
  CHECK(has(place, list, "--all-gather copy-engine"));
  CHECK_FALSE(has(place, list, "--reduce-dtype bfloat16"));
}

TEST_CASE("a gather that is waited for is issued earlier, or stays after forward") {
  Place place;
  place.exposed = {{CollectiveKind::all_gather, 2, true, IdleCause::prefetch, 1.5}};
  const auto list = neighbours(place.position());
  const std::string& name = place.workload.units[2].name;
  const auto keeps = std::find_if(list.begin(), list.end(), [&](const Neighbour& one) {
    return one.settings.reshard_of_unit.size() == 1 && one.settings.reshard_of_unit.contains(name);
  });
  REQUIRE(keeps != list.end());
  CHECK(keeps->phrase == name + " stays gathered after forward: backward waits 1.50 ms for it");
  const auto earlier = std::find_if(list.begin(), list.end(), [&](const Neighbour& one) {
    return one.phrase == name + " is gathered one unit earlier: backward waits 1.50 ms for it";
  });
  REQUIRE(earlier != list.end());
  const PrefetchLists& lists = earlier->settings.prefetch_lists;
  REQUIRE(lists.backward.contains(place.workload.units[4].name));
  CHECK(lists.backward.at(place.workload.units[4].name).back() == name);
}

TEST_CASE("what is kept is not changed, and what is allowed is") {
  Place place;
  place.start.reduce_dtype = DType::float32;
  place.allowed.set(MoveFamily::transport, false);
  place.allowed.set(MoveFamily::reduce_dtype, true);
  place.allowed.set(MoveFamily::batch, true);
  const auto list = neighbours(place.position());
  CHECK_FALSE(has(place, list, "--all-gather copy-engine"));
  CHECK(has(place, list, "--reduce-dtype bfloat16"));
  CHECK(has(place, list, "--batch 1 --accumulate 2"));
}

TEST_CASE("what other units are made of forgets what was said by unit") {
  Place place;
  place.start.reshard_of_unit[place.workload.units[1].name] = {Reshard::Kind::never, 0};
  for (const Neighbour& one : neighbours(place.position()))
    if (one.settings.units_per_group != 1) CHECK(one.settings.reshard_of_unit.empty());
}

TEST_CASE("neighbours of different families go together") {
  Place place;
  const auto list = neighbours(place.position());
  const auto find = [&](const std::string& setting) {
    return *std::find_if(list.begin(), list.end(),
                         [&](const Neighbour& one) { return setting_text(place.start, one.settings) == setting; });
  };
  const auto both = together(place.position(), {find("--reshard-after-forward false"), find("--all-gather copy-engine"),
                                                find("--all-gather symmetric")});
  REQUIRE(both.size() == 1);
  CHECK(setting_text(place.start, both.front().settings) == "--reshard-after-forward false --all-gather copy-engine");
}

TEST_CASE("every setting is of one family, or stays") {
  Settings other = base();
  other.seq = 7;
  CHECK_FALSE(MoveFamilies::usual().holds(changed_families(base(), other)));
  other = base();
  other.forward_prefetch = 3;
  CHECK(MoveFamilies::usual().holds(changed_families(base(), other)));
  CHECK(class_of(other) == class_of(base()));
  CHECK(with_family_of(base(), MoveFamily::prefetch, other) == base());
}

TEST_CASE("a step keeps its samples, also where a change is taken back") {
  Place place;
  place.start.accumulate = 2;
  place.allowed.set(MoveFamily::batch, true);
  const auto list = neighbours(place.position());
  CHECK(has(place, list, "--batch 4 --accumulate 1"));
  for (const Neighbour& one : list) CHECK(same_samples(place.start, one.settings));
  Settings at = place.start;
  at.batch = 4;
  at.accumulate = 1;
  const auto simpler = simpler_settings(place.start, at);
  CHECK(std::any_of(simpler.begin(), simpler.end(), [&](const Neighbour& one) { return one.settings == place.start; }));
  for (const Neighbour& one : simpler) CHECK(same_samples(place.start, one.settings));  // not 2 x 1, nor 4 x 2
}

TEST_CASE("units that are taken back take what was said by unit with them") {
  Place place;
  Settings at = place.start;
  at.units_per_group = 2;
  at.reshard_of_unit["layers.2, layers.3"] = {Reshard::Kind::never, 0};
  const auto simpler = simpler_settings(place.start, at);
  CHECK(std::any_of(simpler.begin(), simpler.end(),
                    [](const Neighbour& one) { return one.settings.units_per_group == 1; }));
  for (const Neighbour& one : simpler)
    if (one.settings.units_per_group == 1) CHECK(one.settings.reshard_of_unit.empty());
}

TEST_CASE("HSDP and smaller meshes after forward are tried of every size that divides the ranks") {
  Place place;
  place.start.nodes = 1;
  place.start.gpus = 12;
  const auto list = neighbours(place.position());
  for (const char* size : {"2", "3", "4", "6"}) {
    CHECK(has(place, list, std::string("--replicate ") + size));
    CHECK(has(place, list, std::string("--reshard-after-forward ") + size));
  }
  CHECK(has(place, list, "--replicate 12"));
  CHECK_FALSE(has(place, list, "--replicate 8"));
}
