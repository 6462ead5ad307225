// Which units of a model are its blocks.
#include "core/workload/unit_place.hpp"

#include <vector>

#include "tests/catch.hpp"

using namespace foreshard;

namespace {

std::vector<UnitPlace> places(bool ends_apart, std::size_t count) {
  Settings settings;
  settings.fully_shard_embedding_and_head = ends_apart;
  std::vector<UnitPlace> out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(unit_place(settings, i, count));
  return out;
}

}  // namespace

TEST_CASE("units behind the root are blocks, but for embedding and head where these are units") {
  using enum UnitPlace;
  CHECK(places(false, 4) == std::vector{root, block, block, block});
  CHECK(places(true, 5) == std::vector{root, embedding, block, block, head});
  CHECK(places(true, 3) == std::vector{root, embedding, head});
  CHECK(places(false, 1) == std::vector{root});
}
