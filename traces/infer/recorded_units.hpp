// What the requests inside FSDP's annotation ranges say of each unit, before anything is known about settings or
// parameters: sizes of its first gather, copy-out and reduction, in the order in which PyTorch makes them
// (foreach_all_gather, foreach_all_gather_copy_out and foreach_reduce of
// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py, 2.11; fsdp2 semantics 2 and 3).
//
// Who: infer.cpp. Pure, deterministic, thread-safe. Nothing here fails: what a recording does not show stays empty.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/quantity.hpp"
#include "traces/capture/capture_events.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

/// The first all-gather of a unit with its copy-out.
struct RecordedGather {
  Bytes block = 0;               ///< all-gather output, over the shard group; 0: not found
  Bytes flat_cast = 0;           ///< this rank's part in the compute dtype, where shards are cast; 0: they are not
  std::uint64_t stream = 0;      ///< of the block, raw handle
  std::vector<Bytes> unsharded;  ///< storages of the parameters, in order
  Bytes metadata = 0;            ///< of split_with_sizes_copy
  std::vector<std::uint32_t> unsharded_requests;  ///< indices of their requests
  std::uint32_t block_request = CaptureEvent::kNone;
};

/// The first reduction of a unit.
struct RecordedReduction {
  Bytes input = 0;               ///< of the reduce-scatter; 0: the unit never reduces
  Bytes output = 0;              ///< of the reduce-scatter
  Bytes cast_output = 0;         ///< gradient shards in the original dtype; 0: they are not cast back
  bool cast_elsewhere = false;   ///< the cast lies on another stream than the output: an all-reduce comes between
  std::vector<Bytes> gradients;  ///< in the parameters' order, the last one where it was found
  std::size_t count = 0;         ///< gradients that were reduced, the last one included
  bool accumulated = false;      ///< they are sums over microbatches, in the reduce dtype
  std::uint32_t input_request = CaptureEvent::kNone;
};

struct RecordedUnit {
  std::string name;  ///< the annotation's; empty: the root
  RecordedGather gather;
  RecordedReduction reduction;
  bool reduces = false;      ///< it has a range of its reduction
  bool kept = false;         ///< its parameters outlive forward
  std::uint32_t clones = 0;  ///< ranks that keep a part each after forward (an int reshard); 0: none
};

/// The units that FSDP's ranges name: the root first (with or without parameters), then by their first forward.
/// `ranges` in the order of their starts, on the clock of `events`.
[[nodiscard]] std::vector<RecordedUnit> recorded_units(std::span<const CaptureEvent> events,
                                                       std::span<const Range> ranges);

}  // namespace foreshard::traces
