// One way to run a collective, as the benchmark's command line names it.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/device/device.hpp"
#include "gpu/collectives/own_collectives.hpp"

namespace foreshard::gpu {

struct Variant {
  std::string text;
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  OwnTuning tuning;  ///< Transport::low_contention
};

/// "ag:nccl", "rs:symmetric", "ag:copy_engine", "ag:own,lanes=peer,dir=pull", "rs:own,way=staged,ctas=8,cluster=2,slot=8,
/// slots=4,chunks=8,least=1,lanes=peer|one|rotate,lane_count=2,linger=100" (MiB and us).
[[nodiscard]] Result<Variant> parse_variant(std::string_view text);

}  // namespace foreshard::gpu
