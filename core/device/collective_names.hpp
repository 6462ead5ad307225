// The names in files of the kinds of collectives. Transport's are those of `--all-gather` (core/settings).
#pragma once

#include "core/base/enum_names.hpp"
#include "core/device/collective.hpp"

namespace foreshard {

template <>
struct EnumNames<CollectiveKind> {
  static constexpr std::array<std::string_view, 3> kNames{"all_gather", "reduce_scatter", "all_reduce"};
};
static_assert(names_end_with(CollectiveKind::all_reduce));

}  // namespace foreshard
