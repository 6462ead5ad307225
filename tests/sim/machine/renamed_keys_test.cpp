// Profiles of schemas 2 and 3 name some keys otherwise; they read as the same machine.
#include "sim/machine/renamed_keys.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/machine/merge_profile.hpp"
#include "tests/sim/machine/profile_text.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

/// The member, or nothing that changes where a profile lacks it.
Json& member(Json& object, const char* key) {
  static Json nothing;
  nothing = nullptr;
  return object.is_object() && object.contains(key) ? object[key] : nothing;
}

void give_old_name(Json& object, const char* now, const char* before) {
  if (!object.is_object() || !object.contains(now)) return;
  object[before] = object[now];
  object.erase(now);
}

/// The built-in profile as foreshard 0.1 shipped it.
Json of_schema_3(std::string_view name) {
  Json profile = Json::parse(*builtin_profile_json(name));
  profile["schema"] = 3;
  give_old_name(profile, "valid_range", "covers");
  Json& contention = member(profile, "contention");
  for (const auto& [now, before] :
       {std::pair{"tail_tile", "late_tile"}, {"with_side_kernel", "beside_side"}, {"persistent_side", "resident_side"}})
    give_old_name(contention, now, before);
  for (const char* path : {"ring", "symmetric", "copy_engine"})
    give_old_name(member(contention, path), "persistent_pressure", "resident_pressure");
  for (auto& kernels : member(contention, "classes")) give_old_name(kernels, "persistent", "resident");
  give_old_name(member(profile, "compute"), "gemms", "products");
  for (auto& table : member(profile, "collectives")) give_old_name(table, "upcasts", "widens");
  return profile;
}

TEST_CASE("a profile of schema 3 is the same machine as the one with today's keys") {
  const std::string old = of_schema_3("h200").dump();
  for (const char* word : {"late_tile", "beside_side", "resident_side", "\"resident\"", "products", "covers"}) {
    INFO(word);
    CHECK(old.find(word) != std::string::npos);
  }
  for (const char* name : {"h200", "h100", "a100"}) {
    const auto then = complete_profile(of_schema_3(name).dump(), name);
    const auto now = complete_profile(*builtin_profile_json(name), name);
    REQUIRE(then);
    REQUIRE(now);
    CHECK(then->dump() == now->dump());
  }
  const auto then = parse_profile(old, "old.json");
  const auto now = builtin_profile("h200");
  REQUIRE(then);
  CHECK(then->sources == now->sources);
  CHECK(then->contention.tail_tile == now->contention.tail_tile);
  CHECK(then->contention.with_side_kernel == now->contention.with_side_kernel);
  CHECK(then->compute.gemms.launch_us == now->compute.gemms.launch_us);
}

TEST_CASE("a change to a built-in profile may be of an older schema") {
  for (const int schema : {2, 3}) {
    const auto profile =
        parse_profile(R"({"schema": )" + std::to_string(schema) + R"(, "name": "mine", "extends": "h200",
          "contention": {"late_tile": {"value": 0.5, "unit": "ratio", "source": "a test",
            "fitted_on": "none: assumed"}},
          "collectives": [{"kind": "reduce-scatter", "transport": "nccl", "ranks": 2, "widens": true,
            "source": "a test", "fitted_on": "none: assumed", "bytes_us": [[1024, 5]]}],
          "covers": {"ranks": [2, 4], "source": "a test"}})",
                      "mine.json");
    INFO((profile ? "" : profile.error().text()));
    REQUIRE(profile);
    CHECK(profile->contention.tail_tile == 0.5);
    CHECK(profile->valid_range.ranks->most == 4);
    CHECK(std::any_of(profile->collectives.begin(), profile->collectives.end(),
                      [](const CollectiveTable& table) { return table.upcasts && table.points.size() == 1; }));
  }
}

TEST_CASE("schema 4 has one name for each key") {
  const Error old = error_of(replaced(h200(), "\"tail_tile\"", "\"late_tile\""));
  CHECK(old.what == "unknown key 'late_tile'");
  CHECK(old.where == "machine.json /contention/late_tile");
  CHECK(error_of(replaced(h200(), "\"tail_tile\"", "\"tial_tile\"")).hint == "did you mean 'tail_tile'?");
  Json both = of_schema_3("h200");
  both["contention"]["tail_tile"] = both["contention"]["late_tile"];
  const Error twice = error_of(both.dump());
  CHECK(twice.where == "machine.json /contention");
  CHECK(twice.what == "'tail_tile' is what 'late_tile' was called before, and both are here");
}

}  // namespace
}  // namespace foreshard::sim
