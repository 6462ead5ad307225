// torch.compile of every block: what it leaves of a block's eager kernels, for families that do not write compiled
// blocks themselves (Family::compiles).
//
// Inductor joins the kernels that only move bytes between two GEMMs, attentions or hooks; what is written
// and read again inside such a group stays in registers. GEMMs and attention stay library calls. The eager
// program is rewritten by that rule, so times are close and memory is an estimate: Inductor also saves other tensors
// for backward than eager autograd does, and reuses buffers in its own order (docs/models.md).
//
// Who: generate() for ModelConfig::compiled. Pure and deterministic.
#pragma once

#include "core/models/host_calls.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::model {

/// Rewrites each step's ops inside the units' blocks (unit 1 and up; the root's embedding, head and loss stay eager).
/// A group of memory-bound kernels becomes one kernel; sums over rows (a weight's or bias' gradient) stay kernels of
/// their own. Allocations that live inside one group vanish. Host costs: a launch for each kernel that is left, none
/// for the Python in between.
void compile_blocks(Workload& workload, const HostCosts& host);

}  // namespace foreshard::model
