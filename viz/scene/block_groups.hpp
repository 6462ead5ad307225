// Blocks grouped by what made them: by module, by operator or by line of the user's code.
//
// Used by viz/svg (`view --by`) and viz/pack (the page's stacks). Pure; deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/enum_names.hpp"
#include "core/base/error.hpp"
#include "core/run/run.hpp"

namespace foreshard::viz {

/// What blocks are grouped by. By module and operator the numbers of repeated modules are `*`.
enum class GroupBy : std::uint8_t { module = 0, op = 1, frame = 2 };

}  // namespace foreshard::viz

namespace foreshard {

template <>
struct EnumNames<viz::GroupBy> {
  static constexpr std::array<std::string_view, 3> kNames{"module", "operator", "frame"};
};
static_assert(names_end_with(viz::GroupBy::frame));

}  // namespace foreshard

namespace foreshard::viz {

struct BlockGroups {
  std::vector<std::string> titles;      ///< [0]: of blocks that nothing names; then those that hold the most first
  std::vector<std::uint32_t> of_block;  ///< place in `titles`, by BlockId
  /// Whether any block has a name of this kind.
  [[nodiscard]] bool any() const { return titles.size() > 1; }
};

/// Fails (usage) where no block has a name of this kind.
[[nodiscard]] Result<void> check_groups(const Run& run, GroupBy by);

/// At most `most` named groups, by the most bytes that each ever holds at once; the others are one more, the last.
[[nodiscard]] BlockGroups group_blocks(const Run& run, GroupBy by, std::size_t most);

}  // namespace foreshard::viz
