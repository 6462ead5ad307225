// Depths and lists come to an order of gathers, and an order to depths and lists, which core/fsdp plans alike.
#include "sim/tune/gather_order.hpp"

#include "sim/tune/kept_units.hpp"
#include "tests/catch.hpp"
#include "tests/core/adapt/small_program.hpp"

using namespace foreshard;
using namespace foreshard::sim;
using Places = std::vector<std::uint32_t>;

namespace {

const std::vector<Unit>& units() {
  static const std::vector<Unit> kUnits = foreshard::test::small_units(4);  // and the root
  return kUnits;
}

}  // namespace

TEST_CASE("without lists each unit is gathered at its own hook, in backward by the unit that runs before it") {
  const GatherOrder order = gather_order({}, units());
  CHECK(order.forward == Places{0, 1, 2, 3, 4});
  CHECK(order.backward == Places{0, 2, 3, 4, 4});
}

TEST_CASE("a depth is so many hooks earlier") {
  Settings settings;
  settings.forward_prefetch = settings.backward_prefetch = 2;
  const GatherOrder order = gather_order(settings, units());
  CHECK(order.forward == Places{0, 1, 1, 1, 2});
  CHECK(order.backward == Places{0, 3, 4, 4, 4});
}

TEST_CASE("lists replace the depth of the units that have them") {
  Settings settings;
  settings.forward_prefetch = 1;
  settings.prefetch_lists.forward = {{units()[1].name, {units()[2].name, units()[4].name}}};
  CHECK(gather_order(settings, units()).forward == Places{0, 1, 1, 2, 1});
}

TEST_CASE("an order that is one depth is set as a depth, any other as lists, and is read again as it was") {
  Settings settings;
  GatherOrder order = gather_order(settings, units());
  order.forward = {0, 1, 1, 1, 2};
  order.backward = {0, 3, 4, 4, 4};
  set_gather_order(order, units(), settings);
  CHECK(settings.forward_prefetch == 2U);
  CHECK(settings.backward_prefetch == 2U);
  CHECK(settings.prefetch_lists == PrefetchLists{});
  order.forward = {0, 1, 1, 3, 2};
  order.backward = {0, 4, 3, 4, 4};
  set_gather_order(order, units(), settings);
  CHECK_FALSE(settings.forward_prefetch);
  CHECK_FALSE(settings.backward_prefetch);
  CHECK(settings.prefetch_lists.forward.size() == 2);
  CHECK(gather_order(settings, units()) == order);
  set_gather_order(gather_order({}, units()), units(), settings);
  CHECK(settings == Settings{});
}

TEST_CASE("the last units are kept, and none beside them") {
  Settings settings;
  CHECK(most_kept_units(settings, units()) == 4);
  keep_units(2, units(), settings);
  CHECK(settings.reshard_of_unit.size() == 2);
  CHECK(settings.reshard_of_unit.contains(units()[4].name));
  CHECK(kept_units(settings, units()) == 2);
  keep_units(0, units(), settings);
  CHECK(settings == Settings{});
  settings.fully_shard_embedding_and_head = true;  // the last unit stays gathered anyway
  keep_units(1, units(), settings);
  CHECK(settings.reshard_of_unit.contains(units()[3].name));
  CHECK(kept_units(settings, units()) == 1);
}
