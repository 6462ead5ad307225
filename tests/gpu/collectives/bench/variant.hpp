// One way to run a collective, as the benchmark's command line names it.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/device/device.hpp"
#include "gpu/collectives/symm_mem_collectives.hpp"

namespace foreshard::gpu {

struct Variant {
  std::string text;
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  DType input = DType::bfloat16;   ///< of what is timed
  DType result = DType::bfloat16;  ///< of a reduce-scatter's output; NCCL's is the input's
  SymmMemTuning tuning;            ///< Transport::low_contention
};

/// "ag:nccl", "rs:symmetric", "ag:copy_engine", "ag:own,exchange=1,exchange_ctas=128",
/// "rs:own,way=staged|direct,ctas=8,
/// cluster=2,brief=16,direct=64,slots=4,longest=32,last=4,growth=150,together=2,linger=100" (sizes in MiB, growth in
/// percent, linger in us; way=direct: by the resident worker at any size); any with "in=float32|float16|bfloat16" for
/// the elements, own reduce-scatters with "out=…" for the result's.
[[nodiscard]] Result<Variant> parse_variant(std::string_view text);

}  // namespace foreshard::gpu
