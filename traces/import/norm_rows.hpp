// Whether the steps of a trace have the batch size and sequence length of a snapshot's: both show how many rows the
// forward's layer norms have, the trace by a grid, the snapshot by the statistics that each of them allocates.
//
// native_layer_norm and _fused_rms_norm launch one block a row and make one float32 a row, rstd, for backward
// (aten/src/ATen/native/cuda/layer_norm_kernel.cu of PyTorch 2.11: launch_vectorized_layer_norm_kernel,
// layer_norm_cuda, _fused_rms_norm_cuda). So a forward makes a request of its bytes for each such kernel, whatever else
// it does.
//
// Who: import. Pure, deterministic.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "traces/capture/capture_events.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

/// How many layer norms of so many rows the forwards of a step launch.
using NormRows = std::map<std::uint32_t, std::size_t>;

/// By complete step of a trace. `hooks` are the trace's.
[[nodiscard]] std::vector<NormRows> norm_rows(const Run& run, const Hooks& hooks);

/// Requests of the forwards by complete step of a snapshot, in order. `hooks` and `events` are the snapshot's.
[[nodiscard]] std::vector<std::vector<Bytes>> forward_requests(std::span<const CaptureEvent> events,
                                                               const Hooks& hooks);

/// Some profiled step's norms have their requests in some recorded step. Steps that differ among themselves, in either
/// file, are not held against each other: the capture finds out which is of which size (traces/capture/step_sizes.hpp).
/// Fails with ErrorKind::mismatch.
[[nodiscard]] Result<void> check_norm_rows(std::span<const NormRows> profiled,
                                           std::span<const std::vector<Bytes>> requests, const std::string& trace_file,
                                           const std::string& snapshot_file);

}  // namespace foreshard::traces
