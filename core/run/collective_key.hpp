// One collective over all ranks of an import of several: which rows of Run::rank_ops are the same one.
#pragma once

#include <compare>
#include <cstdint>

#include "core/run/run.hpp"

namespace foreshard {

struct CollectiveKey {
  CommunicatorId communicator;
  std::int32_t step = 0;
  std::int32_t sequence = 0;
  auto operator<=>(const CollectiveKey&) const = default;
};

/// Of a row with a sequence.
[[nodiscard]] inline CollectiveKey key_of(const RankOpRecord& row) {
  return {row.op.communicator, row.step, row.sequence};
}

}  // namespace foreshard
