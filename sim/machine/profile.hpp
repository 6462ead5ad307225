// A machine in numbers: what a GPU, its links and its driver cost, each with its unit and its source.
//
// Who: sim/engine runs ops at these latencies and shares the GPU between them, sim/collectives prices collectives
// from the tables, traces/capture takes contention out of captured durations with the same model.
// A profile is a JSON document (docs/machines.md); those in sim/machine/profiles are built into the library.
// Plain data; parsing is pure and collects nothing outside the text it is given.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/device/device.hpp"
#include "core/models/host_calls.hpp"
#include "core/models/target_gpu.hpp"
#include "sim/machine/compute_spec.hpp"
#include "sim/machine/contention_spec.hpp"
#include "sim/machine/driver_calls.hpp"
#include "sim/machine/fitted_on.hpp"
#include "sim/machine/links.hpp"
#include "sim/machine/prediction_spec.hpp"
#include "sim/machine/valid_range.hpp"

namespace foreshard::sim {

/// What a collective occupies while it runs.
enum class CollectiveResource : std::uint8_t {
  ring = 0,         ///< SMs, some 24 of them
  symmetric = 1,    ///< SMs, some 9 of them
  copy_engine = 2,  ///< no SM
};

/// The isolated time of one kind of collective, by size. Sizes ascend.
struct CollectiveTable {
  struct Point {
    Bytes bytes = 0;  ///< whole buffer, as CollectiveWork::bytes
    Nanoseconds time;
  };
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  std::uint32_t ranks = 0;
  std::uint32_t ranks_per_node = 0;  ///< as many as `ranks` on one node
  std::vector<Point> points;
  std::string source;
  bool upcasts = false;  ///< of reductions into a wider dtype than what is sent
  /// Of what was sent, where ranks' values are added; a table that does not say: bfloat16, as `probe` had measured.
  DType dtype = DType::bfloat16;
  /// No price rests on it: it says how far those of its kind, transport and ranks are from what was measured.
  bool held_out = false;

  /// Whether it tells as much of a collective whose sums are of `other` dtype.
  [[nodiscard]] bool of_dtypes(DType other, bool other_upcasts) const {
    return !adds(kind) || (dtype == other && upcasts == other_upcasts);
  }
};

struct Latencies {
  Nanoseconds launch;                 ///< host call to earliest start on an idle stream
  Nanoseconds kernel_gap;             ///< end of one op to the start of the next of its stream
  Nanoseconds kernel_gap_all_gather;  ///< the same while an all-gather ring kernel is issued and not finished
  Nanoseconds copy_gap;               ///< the same before and after a memory copy
  Nanoseconds event_wait;             ///< end of an op to the start of one that waits for it on another stream
  Nanoseconds communicator_gap;       ///< end of a collective to the start of the next of its communicator
  Nanoseconds synchronize;            ///< end of what the host waited for to the host going on
  Nanoseconds long_kernel = {};       ///< added to both kernel gaps after a kernel of …
  Nanoseconds long_kernel_from = {};  ///< … this length or more
  Nanoseconds graph_gap;              ///< as kernel_gap, between nodes of a CUDA graph; not said: kernel_gap
  Nanoseconds graph_node = {};        ///< of the host, for each node of a cudaGraphLaunch
};

/// What single things achieve. Sizes count bytes read plus bytes written unless named otherwise.
struct Rates {
  double hbm = 0;               ///< bytes a second
  double pcie = 0;              ///< bytes a second, one direction, bytes counted once
  double peer = 0;              ///< bytes a second, one direction, bytes counted once
  Nanoseconds copy_overhead;    ///< of one cudaMemcpyAsync on the device
  Nanoseconds kernel_overhead;  ///< of a kernel, in addition to the time of its bytes
  double memory_bound = 0;      ///< bytes a second: elementwise kernels, copy-out
  double gather_copy = 0;       ///< bytes a second: cast and copy-in of an all-gather
  double gemm_bf16 = 0;         ///< FLOP a second
  double gemm_fp32 = 0;         ///< FLOP a second
  double attention_share = 0;   ///< rate of fused attention over that of large GEMMs
};

/// The GPU's data sheet: what nothing exceeds. What single kernels achieve is in other sections.
struct GpuPeaks {
  double clock_hz = 0;         ///< the highest SM clock
  double matrix_bfloat16 = 0;  ///< FLOP a second of dense GEMMs, here and below
  double matrix_float16 = 0;
  double matrix_float8 = 0;     ///< 0: the profile does not say, or the GPU has no float8
  double vector_float32 = 0;    ///< FLOP a second outside the matrix units
  double memory_bandwidth = 0;  ///< bytes a second, HBM
  Bytes l2 = 0;

  /// Of GEMMs of 16 bits and less. A float8 that is not said counts as bfloat16.
  [[nodiscard]] double matrix(DType dtype) const {
    if (dtype == DType::float16) return matrix_float16;
    return is_float8(dtype) && matrix_float8 > 0 ? matrix_float8 : matrix_bfloat16;
  }
};

struct MachineProfile {
  std::string name;
  std::string description;
  std::uint32_t sm_count = 0;
  std::uint32_t compute_capability = TargetGpu::kHopper;  ///< as TargetGpu's
  Bytes memory_total = 0;                                 ///< cudaMemGetInfo's total
  Bytes memory_other = 0;  ///< context, libraries, NCCL: taken outside the caching allocator
  GpuPeaks peaks;
  std::uint32_t launch_queue = 0;  ///< unfinished ops of one stream at which a launch blocks
  Latencies latencies;
  DriverCalls driver_calls;
  ContentionSpec contention;
  std::vector<CollectiveTable> collectives;
  Links links;
  NcclConstants nccl;
  TableRules table_rules;
  Network network;
  Rates rates;
  ComputeSpec compute;
  HostCosts host_calls;           ///< what issuing costs, and whose program's calls: models are generated with it
  bool host_calls_known = false;  ///< the profile has "/host/calls"
  PredictionSpec prediction;
  ValidRange valid_range;
  /// Where each constant is from: its place in the JSON ("/latencies/launch") and its source, in file order.
  std::vector<std::pair<std::string, std::string>> sources;
  Provenance provenance;  ///< what each was fitted on

  [[nodiscard]] TargetGpu gpu() const {
    TargetGpu gpu{sm_count, compute_capability};
    gpu.l2 = peaks.l2;
    return gpu;
  }
};

/// Reads a profile. `where` names the text in errors ("h200.json"). `"extends": "h200"` takes everything that the text
/// does not say from a built-in profile (merge_profile.hpp). Refused (input): unknown keys, with the nearest known
/// word; a key twice; a missing constant, source or (from schema 3 on) fitted_on, a wrong unit (with the conversion), a
/// value that is negative or beyond what its unit can mean, sizes that do not ascend, two tables for the same thing.
/// Schema 2 is read too: its constants may leave fitted_on out (Provenance says "not stated").
[[nodiscard]] Result<MachineProfile> parse_profile(std::string_view json, std::string_view where);

/// The JSON of a profile that is built in, by name; an error names the known ones.
[[nodiscard]] Result<std::string_view> builtin_profile_json(std::string_view name);
[[nodiscard]] Result<MachineProfile> builtin_profile(std::string_view name);
/// The same, read once for all who ask, from any thread; null where none is called so.
[[nodiscard]] const MachineProfile* find_builtin_profile(std::string_view name);
[[nodiscard]] std::span<const std::string_view> builtin_profile_names();
/// The one of a GPU as cudaDeviceProp.name calls it: "NVIDIA A100-SXM4-40GB" is a100-40, "NVIDIA H200" h200. A profile
/// NAME-SIZE is of GPUs whose name has SIZE "GB"; of several the one that says the size. None: it has no profile.
[[nodiscard]] std::optional<std::string_view> builtin_profile_of(std::string_view gpu);

}  // namespace foreshard::sim
