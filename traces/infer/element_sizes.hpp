// Ranks of the shard group and the dtypes of parameters, gathers and reductions, from the sizes of FSDP's buffers
// (fsdp2 semantics 1.7, 2.3, 3.3): a gather's block is the ranks' flat casts, a reduce-scatter's input the ranks'
// outputs, and a gradient shard is cast back where the reduce dtype is not the original one.
//
// Sizes settle ratios of element sizes alone: which of two dtypes of one size it is, and the size itself where nothing
// is cast, the collectives' arguments in a trace say (torch/csrc/distributed/c10d/ParamCommsUtils.hpp).
//
// Who: infer.cpp. Pure, deterministic, thread-safe.
#pragma once

#include <optional>
#include <span>

#include "core/base/dtype.hpp"
#include "traces/infer/recorded_units.hpp"
#include "traces/pytorch/profiler_trace.hpp"

namespace foreshard::traces {

/// Of one group: keeps products of two groups within 32 bits.
inline constexpr std::uint64_t kMaxRanks = 32'768;

struct ElementTypes {
  std::uint32_t ranks = 0;  ///< of the shard group; 0: nothing shows it
  DType original = DType::float32;
  DType compute = DType::float32;
  DType reduce = DType::float32;
  bool casts = false;           ///< shards are cast before they are gathered
  bool from_trace = false;      ///< the trace names the dtypes
  bool size_assumed = false;    ///< no ratio and no trace: float32 is assumed
  bool word_assumed = false;    ///< two bytes, no trace: bfloat16 is assumed, not float16
  bool reduce_assumed = false;  ///< no unit reduces all of its parameters: the ratio is the one that fits
};

/// Of all units together. `trace` may be null.
[[nodiscard]] ElementTypes element_types(std::span<const RecordedUnit> units, const ProfilerTrace* trace);

}  // namespace foreshard::traces
