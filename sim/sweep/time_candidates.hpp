// The changes of settings that might make a step faster: all that `explain --time` tries. Internal to sim/sweep.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "core/device/lowering.hpp"
#include "sim/sweep/candidates.hpp"

namespace foreshard::sim {

/// Changes of one kind exclude one another; of different kinds they go together.
enum class ChangeKind : std::uint8_t {
  prefetch = 0,
  reshard = 1,
  all_gather = 2,
  reduce_scatter = 3,
  reduce_dtype = 4,
  units = 5,
  mesh = 6,
  program = 7,
  reduce_scatter_group = 8,
  ends = 9,  ///< embedding and head
  reduce_scatter_inputs = 10,
  issue = 11,  ///< what the host issues when
  gathered_dtype = 12,
};

struct TimeCandidate {
  Candidate candidate;
  ChangeKind kind = ChangeKind::prefetch;
  std::function<void(Settings&)> change;
};

struct TimeCandidatesOf {
  bool root_has_weights = false;          ///< FSDP2's root holds embedding and head: they can be units of their own
  Lowering lowering = Lowering::pytorch;  ///< a graph is offered where offers_graph() says so
  bool computes = false;                  ///< foreshard's program has its kernels' operands: it can leave copies out
};

/// Each different from `base` and from the others: prefetch lists and the async unshard, parameters kept after forward,
/// transports, a communicator of the reduce-scatters' own, more reduce-scatter inputs in flight, the gradients' dtype,
/// larger units, HSDP, what foreshard's own program leaves out, then what shapes the step itself (a CUDA graph,
/// optimizer, checkpointing, offload).
[[nodiscard]] std::vector<TimeCandidate> time_candidates(const Settings& base, const TimeCandidatesOf& of = {});

}  // namespace foreshard::sim
