// The names of collectives' kinds and transports. Transport's are the values of `--all-gather`.
#pragma once

#include "core/base/enum_names.hpp"
#include "core/device/collective.hpp"

namespace foreshard {

template <>
struct EnumNames<CollectiveKind> {
  static constexpr std::array<std::string_view, 7> kNames{"all_gather", "reduce_scatter", "all_reduce", "all_to_all",
                                                          "broadcast",  "reduce",         "send_recv"};
};
static_assert(names_end_with(CollectiveKind::send_recv));

template <>
struct EnumNames<Transport> {
  static constexpr std::array<std::string_view, 6> kNames{"nccl",        "nccl-registered", "symmetric",
                                                          "copy-engine", "low-contention",  "pull-reduce"};
};
static_assert(names_end_with(Transport::pull_reduce));

}  // namespace foreshard
