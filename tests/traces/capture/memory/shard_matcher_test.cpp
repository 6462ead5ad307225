// Which allocation is which parameter's shard: by size and order, with the root's anywhere (Module._apply).
#include "traces/capture/shard_matcher.hpp"

#include <algorithm>

#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

/// Units with this many parameters each, root first.
std::vector<Unit> units_of(std::vector<std::size_t> counts) {
  std::vector<Unit> units;
  for (std::size_t count : counts) units.push_back({"u", std::vector<Parameter>(count)});
  return units;
}

std::vector<std::uint32_t> order_of(const ShardMatch& match) {
  std::vector<std::uint32_t> out;
  for (ParameterId id : match.order) out.push_back(id.value);
  return out;
}

using Order = std::vector<std::uint32_t>;

ShardMatch match_shards(const std::vector<Bytes>& sizes, const std::vector<Bytes>& shards,
                        const std::vector<Unit>& units) {
  return traces::match_shards(sizes, shards, units, ModuleWalk::apply);
}

TEST_CASE("units in order, the root's before, between and after") {
  const auto units = units_of({2, 2, 1});  // root: 0, 1; then 2, 3; then 4
  const std::vector<Bytes> shards{10, 20, 30, 40, 50};
  CHECK(order_of(match_shards(std::vector<Bytes>{10, 30, 40, 50, 20}, shards, units)) == Order{0, 2, 3, 4, 1});
  CHECK(order_of(match_shards(std::vector<Bytes>{30, 40, 10, 20, 50}, shards, units)) == Order{2, 3, 0, 1, 4});
  CHECK(order_of(match_shards(std::vector<Bytes>{10, 20, 30, 40, 50}, shards, units)) == Order{0, 1, 2, 3, 4});
}

TEST_CASE("allocations that are no shards are left out") {
  const auto units = units_of({1, 2});
  const std::vector<Bytes> shards{10, 30, 40};
  const std::vector<Bytes> sizes{7, 30, 8, 40, 40, 10, 9};
  const ShardMatch match = match_shards(sizes, shards, units);
  REQUIRE(match.complete);
  CHECK(std::count_if(match.parameter.begin(), match.parameter.end(), [](ParameterId p) { return p.valid(); }) == 3);
  CHECK_FALSE(match.parameter[0].valid());
  CHECK(match.parameter[1] == ParameterId{1});
  CHECK(match.parameter[5] == ParameterId{0});
}

TEST_CASE("a unit is never cut by the root's parameters, which settles equal sizes") {
  const auto units = units_of({1, 2});
  const std::vector<Bytes> shards{30, 30, 30};
  // Three equal ones: the unit's come first, since the root's may also come last.
  CHECK(order_of(match_shards(std::vector<Bytes>{30, 30, 30}, shards, units)) == Order{1, 2, 0});
  const std::vector<Bytes> tricky{40, 30, 40};  // root 40, unit 30 40
  CHECK(order_of(match_shards(std::vector<Bytes>{40, 30, 40}, tricky, units)) == Order{0, 1, 2});
  // A wrong first guess is taken back: the first 30 is no shard.
  const ShardMatch match = match_shards(std::vector<Bytes>{30, 99, 40, 30, 40}, tricky, units);
  REQUIRE(match.complete);
  CHECK(match.order.size() == 3);
}

TEST_CASE("a parameter that is missing, or in another order, is not matched") {
  const auto units = units_of({1, 2});
  const std::vector<Bytes> shards{10, 30, 40};
  CHECK_FALSE(match_shards(std::vector<Bytes>{10, 30}, shards, units).complete);
  CHECK_FALSE(match_shards(std::vector<Bytes>{10, 40, 30}, shards, units).complete);
  CHECK_FALSE(match_shards(std::vector<Bytes>{}, shards, units).complete);
  const ShardMatch loose = match_shards_in_any_order(std::vector<Bytes>{40, 30, 10}, shards);
  CHECK(loose.complete);
  CHECK(loose.parameter == std::vector<ParameterId>{ParameterId{2}, ParameterId{1}, ParameterId{0}});
  CHECK_FALSE(match_shards_in_any_order(std::vector<Bytes>{40, 30}, shards).complete);
}

TEST_CASE("groups of parameters, each in order") {
  const auto units = units_of({3, 2, 2});  // root: 0 to 2; then 3, 4; then 5, 6
  const std::vector<Bytes> shards{90, 10, 90, 10, 50, 10, 50};
  const auto match = [&](std::vector<std::vector<Bytes>> groups) { return match_groups(groups, shards, units); };
  const GroupMatch decays = match({{90, 50, 50, 90}, {10, 10, 10}});
  REQUIRE(decays.complete);
  CHECK(decays.order == std::vector{ParameterId{0}, ParameterId{4}, ParameterId{6}, ParameterId{2}, ParameterId{3},
                                    ParameterId{5}, ParameterId{1}});
  CHECK(decays.counts == std::vector<std::uint32_t>{4, 3});
  const GroupMatch by_depth = match({{90, 10, 50}, {10, 50, 10, 90}});
  REQUIRE(by_depth.complete);
  CHECK(by_depth.counts == std::vector<std::uint32_t>{3, 4});
  CHECK_FALSE(match({{90, 50, 50, 90}, {10, 10}}).complete);          // one is missing
  CHECK_FALSE(match({{90, 50, 50, 90}, {10, 10, 10, 10}}).complete);  // one is none of the model's
  CHECK_FALSE(match({{10, 10, 10, 50, 50}, {90, 90}}).complete);      // in another order
}

/// A unit of parameters with these names behind its own.
Unit unit_of(const std::string& name, const std::vector<std::string>& parameters) {
  Unit unit{name, {}};
  for (const std::string& parameter : parameters) unit.parameters.push_back({parameter, {}, DType::float32});
  return unit;
}

TEST_CASE("a unit's own parameters lie among those of units inside it") {
  const std::vector<Unit> units{unit_of("", {"norm.weight"}), unit_of("a", {"a.norm1.weight", "a.norm2.weight"}),
                                unit_of("a.b", {"a.b.weight"}), unit_of("a.c", {"a.c.weight"}),
                                unit_of("ab", {"ab.weight"})};  // not inside "a"
  const std::vector<Bytes> shards{10, 10, 10, 50, 60, 70};
  const auto order = [&](const std::vector<Bytes>& sizes) { return order_of(match_shards(sizes, shards, units)); };
  CHECK(order({10, 50, 10, 60, 70, 10}) == Order{1, 3, 2, 4, 5, 0});
  CHECK(order({50, 60, 10, 10, 70, 10}) == Order{3, 4, 1, 2, 5, 0});
  CHECK(order({10, 10, 50, 60, 10, 70}) == Order{1, 2, 3, 4, 0, 5});  // the root's between the two
  CHECK(order({10, 50, 10, 70, 60, 10}).empty());                     // nothing comes into "a" from outside
}

TEST_CASE("modules of a list may have others between them") {
  const std::vector<Unit> units{unit_of("", {}),
                                unit_of("tok, norm, head", {"tok.weight", "norm.weight", "head.weight"}),
                                unit_of("layers.0", {"layers.0.weight"}), unit_of("layers.1", {"layers.1.weight"})};
  const std::vector<Bytes> shards{90, 10, 80, 50, 50};
  const auto match = [&](const std::vector<Bytes>& sizes) { return match_shards(sizes, shards, units); };
  CHECK(order_of(match({90, 50, 50, 10, 80})) == Order{0, 3, 4, 1, 2});
  CHECK(order_of(match({90, 10, 80, 50, 50})) == Order{0, 1, 2, 3, 4});
  CHECK_FALSE(match({10, 50, 50, 90, 80}).complete);
}

TEST_CASE("Module.parameters has a module's own parameters first, and modules of a list as its name has them") {
  const std::vector<Unit> units{unit_of("", {"patch.weight", "norm.weight", "token"}),
                                unit_of("a, b", {"b.weight", "a.x.weight", "a.scale"})};
  const std::vector<Bytes> shards{10, 20, 30, 40, 50, 60};
  const std::vector<Bytes> sizes{30, 10, 60, 50, 40, 20};
  CHECK(order_of(traces::match_shards(sizes, shards, units, ModuleWalk::parameters)) == Order{2, 0, 5, 4, 3, 1});
  CHECK_FALSE(match_shards(sizes, shards, units).complete);  // Module._apply
}

TEST_CASE("neighbours of one size go as their gradients were dropped") {
  const std::vector<Unit> units{unit_of("", {}), unit_of("w1", {"w1.weight"}), unit_of("w3", {"w3.weight"}),
                                unit_of("w2", {"w2.weight"})};  // as forward calls them
  const std::vector<Bytes> shards{40, 40, 40};
  const std::vector<UnitId> dropped{UnitId{1}, UnitId{3}, UnitId{2}};
  const auto match = [&](std::span<const UnitId> order) {
    return order_of(traces::match_shards(shards, shards, units, ModuleWalk::parameters, order));
  };
  CHECK(match({}) == Order{0, 1, 2});
  CHECK(match(dropped) == Order{0, 2, 1});
}

TEST_CASE("what lies behind the last parameter is no shard, whatever was tried") {
  const std::vector<Unit> units{unit_of("", {"a"}), unit_of("u", {"u.x", "u.y"})};
  const std::vector<Bytes> shards{10, 10, 20};
  const ShardMatch match = match_shards(std::vector<Bytes>{10, 10, 20, 10}, shards, units);
  REQUIRE(match.complete);
  CHECK(std::count_if(match.parameter.begin(), match.parameter.end(), [](ParameterId p) { return p.valid(); }) == 3);
}

TEST_CASE("parameters without bytes on this rank follow their neighbour in its group") {
  const auto units = units_of({1, 3});
  const GroupMatch match =
      match_groups(std::vector<std::vector<Bytes>>{{30, 40}, {10}}, std::vector<Bytes>{10, 30, 0, 40}, units);
  REQUIRE(match.complete);
  CHECK(match.order == std::vector{ParameterId{1}, ParameterId{2}, ParameterId{3}, ParameterId{0}});
  CHECK(match.counts == std::vector<std::uint32_t>{3, 1});
}

TEST_CASE("parameters without bytes on this rank follow their neighbour") {
  const auto units = units_of({1, 3});
  const std::vector<Bytes> shards{10, 30, 0, 40};
  const ShardMatch match = match_shards(std::vector<Bytes>{30, 40, 10}, shards, units);
  REQUIRE(match.complete);
  CHECK(order_of(match) == Order{1, 2, 3, 0});
}

TEST_CASE("many equal units match in linear time") {
  std::vector<std::size_t> counts(301, 4);
  std::vector<Bytes> shards;
  std::vector<Bytes> sizes;
  for (std::size_t u = 0; u < counts.size(); ++u)
    for (Bytes b : {Bytes{64}, Bytes{64}, Bytes{64}, Bytes{64}}) shards.push_back(b);
  for (std::size_t i = 0; i < shards.size(); ++i) sizes.push_back(64);
  CHECK(match_shards(sizes, shards, units_of(counts)).complete);
}

}  // namespace
}  // namespace foreshard::traces
