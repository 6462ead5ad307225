// What a unit of a model is by its place among the units: the one rule of which units are its blocks.
//
// Who: whatever treats blocks, embedding and head differently. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/settings/settings.hpp"

namespace foreshard {

enum class UnitPlace : std::uint8_t { root = 0, embedding = 1, block = 2, head = 3 };

/// Of unit `index` of `count`, as fully_shard was called: the root is the first; where embedding and head are units of
/// their own (Settings::fully_shard_embedding_and_head), they are the first and the last behind it; all others are
/// blocks, units of experts inside them among these (Unit::of_experts()).
[[nodiscard]] constexpr UnitPlace unit_place(const Settings& settings, std::size_t index, std::size_t count) {
  if (index == 0) return UnitPlace::root;
  if (!settings.fully_shard_embedding_and_head) return UnitPlace::block;
  if (index + 1 == count) return UnitPlace::head;
  return index == 1 ? UnitPlace::embedding : UnitPlace::block;
}

}  // namespace foreshard
