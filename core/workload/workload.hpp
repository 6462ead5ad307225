// A workload: what the user's program asks for in its training steps, with FSDP2's own part left out.
//
// Who: read from a capture (traces/capture), a model family or a file (traces/workload_file); walked by
// core/step, which puts FSDP2's part back at the hook places under the settings that are asked for.
// Plain data, no ownership of anything outside.
//
// A program is a list of ops in host order. `setup` runs once (process start to the first step), then step k runs
// steps[k], and past the last one the last `cycle` of them again, in order (program_of_step()). Tensors are named by
// TensorId; an op of step k that frees a tensor of an earlier step says how many steps ago it was allocated.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/base/labels.hpp"
#include "core/base/quantity.hpp"
#include "core/device/device.hpp"
#include "core/device/lowering.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/measured_steps.hpp"
#include "core/workload/process_group.hpp"
#include "core/workload/unit.hpp"

namespace foreshard {

/// What a block of memory is for. Names are drawn and stored; never renumber.
enum class MemoryCategory : std::uint8_t {
  parameters = 0,            ///< persistent shards
  unsharded_parameters = 1,  ///< gather outputs after copy-out
  gather_buffers = 2,        ///< all-gather blocks and their inputs: flat cast buffers, or kept ones
  gradients = 3,             ///< unsharded gradients, accumulated ones included
  reduce_buffers = 4,        ///< reduce-scatter inputs, and outputs that are cast back
  sharded_gradients = 5,     ///< reduce-scatter outputs that live as .grad
  optimizer_state = 6,
  optimizer_temporaries = 7,
  activations = 8,  ///< made in forward, freed in backward
  temporaries = 9,  ///< made and freed in the same pass
  inputs = 10,
  workspaces = 11,  ///< permanent library workspaces (cuBLAS)
  metadata = 12,    ///< FSDP's copy metadata, symmetric-memory arrays
  other = 13,
};

/// A place where FSDP2 or the optimizer acts (fsdp2 semantics 13.1).
enum class Hook : std::uint8_t {
  zero_grad = 0,  ///< optimizer.zero_grad(), as Settings::set_to_none has it; with a unit: of its parameters alone
  microbatch_begin = 1,
  forward_begin = 2,
  pre_forward = 3,
  post_forward = 4,
  forward_end = 5,
  backward_begin = 6,
  pre_backward = 7,
  post_backward = 8,
  backward_final = 9,  ///< the root's post-backward callback
  backward_end = 10,
  microbatch_end = 11,
  optimizer_begin = 12,
  optimizer_step = 13,  ///< where the optimizer's allocations and kernels are put back
  optimizer_end = 14,
  /// The root's outputs were cast to MixedPrecisionPolicy.output_dtype. FSDPState._post_forward (2.11) holds the last
  /// all-gather result in a local variable until it returns, behind the cast. Only where there is a cast.
  outputs_cast = 15,
};

/// How many bytes an allocation asks for: fixed, or as the shard layout decides.
struct AllocationSize {
  enum class Kind : std::uint8_t {
    fixed = 0,         ///< `bytes`
    local_shard = 1,   ///< this rank's unpadded shard of `parameter`
    padded_shard = 2,  ///< the padded shard of `parameter`
  };
  Kind kind = Kind::fixed;
  Bytes bytes = 0;  ///< the request as captured, for every kind
  ParameterId parameter;
  bool operator==(const AllocationSize&) const = default;
};

enum class OpKind : std::uint8_t {
  alloc = 0,
  free = 1,
  kernel = 2,
  copy = 3,
  hook = 4,
  synchronize = 5,  ///< the host waits for everything on the compute stream
  collective = 6,   ///< one that the program issues itself
  wait_stream = 7,  ///< Work.wait(), wait_tensor: the compute stream waits for a collective on `user_stream`
};

/// An op whose Kernel is not known: a device can only price or emulate it.
inline constexpr std::uint32_t kNoKernel = UINT32_MAX;

/// One op of the user's program.
struct Op {
  OpKind kind = OpKind::kernel;
  /// 0: the compute stream; n: the n-th further stream of the user's program. Of a free: the stream that the block was
  /// given to record_stream for, whose work so far it waits for; 0: none.
  std::uint8_t user_stream = 0;
  Nanoseconds host_before;  ///< host work between the previous op's issue and this one's

  // alloc, free
  TensorId tensor;  ///< unique within its program (setup or one step)
  std::uint32_t steps_ago =
      0;  ///< free: 0 this step's tensor, n the tensor of n steps ago; setup counts as the step before step 0
  bool from_setup = false;        ///< free: the tensor was allocated in setup
  bool before_recording = false;  ///< free: the block is older than the recording; `size.bytes` is its address
  AllocationSize size;
  MemoryCategory category = MemoryCategory::other;
  ParameterId gradient_of;  ///< alloc: this is the unsharded gradient of that parameter; FSDP frees it

  // kernel, copy
  KernelWork kernel;
  CopyWork copy;

  // collective
  UserCollective collective;
  /// wait_stream: how many collectives on the stream were issued behind the one that is waited for.
  std::uint32_t collectives_behind = 0;

  // hook
  Hook hook = Hook::zero_grad;
  UnitId unit;  ///< of hooks; of an alloc: the unit whose forward inputs this casts

  LabelId label;   ///< for pictures: the op that caused it
  LabelId module;  ///< the module that it is part of, where that is no whole unit: "layers.3.attention.wq"
  /// Place in Program::kernels: of a kernel or copy, what it computes; of an alloc of setup, what fills the block
  /// at once.
  std::uint32_t kernel_index = kNoKernel;
};

/// FSDP2's own host code, by section of its annotations (time model 1.1).
enum class Section : std::uint8_t {
  all_gather = 0,  ///< FSDP::all_gather: cast, copy-in, collective
  copy_out = 1,    ///< FSDP::all_gather_copy_out
  accumulate = 2,  ///< FSDP::post_backward_accumulate
  reshard = 3,     ///< FSDP::post_backward_reshard (no-sync casts, int-reshard clones)
  reduce = 4,      ///< FSDP::post_backward_reduce: metadata, chunk-cat, reduce-scatter, casts
  optimizer = 5,   ///< the optimizer's step: kernels between optimizer_begin and _end
  zero_grad = 6,   ///< optimizer.zero_grad(set_to_none=False) of a model; of a recording its kernels are the program's
  float8_scales = 7,  ///< torchao's precompute_float8_dynamic_scale_for_fsdp: largest elements of the weights' shards
};

enum class Pass : std::uint8_t { forward = 0, backward = 1 };

/// What one op inside a section is, which decides its stream (fsdp2 semantics 5.4b).
enum class SectionRole : std::uint8_t {
  cast = 0,  ///< foreach cast of the shards into the flat buffer
  copy_in = 1,
  collective = 2,     ///< priced by the device
  metadata_copy = 3,  ///< H2D of split or chunk-cat metadata
  split = 4,          ///< copy-out kernel
  chunk_cat = 5,
  cast_back = 6,      ///< reduce dtype to the parameters' dtype
  gradient_cast = 7,  ///< no-sync microbatch: gradient to reduce dtype
  gradient_add = 8,   ///< accumulated gradient += gradient
  clone = 9,          ///< int reshard
  offload_copy = 10,  ///< H2D of a shard, D2H of a gradient shard
  all_reduce = 11,    ///< HSDP's, priced by the device
  other = 12,         ///< an op on the compute stream that no rule names
  amax = 13,          ///< of a group's float8 weights
  cat = 14,           ///< torch.cat of chunks, of parameters that are cut along another dimension than the first
  copy_reduced = 15,  ///< what foreach_reduce does in place of a reduce-scatter over one rank: quotient, copy
};

struct SectionItem {
  SectionRole role = SectionRole::other;
  Nanoseconds host_before;
  Nanoseconds work;  ///< of kernels and copies, alone on the GPU; 0 for collectives
  KernelClass kernel_class = KernelClass::memory_bound;
  Bytes bytes = 0;  ///< of copies
  LabelId label;
};

/// What one section of one unit costs the host and the GPU, as captured.
struct SectionCost {
  Section section = Section::all_gather;
  UnitId unit;
  Pass pass = Pass::forward;
  std::vector<SectionItem> items;
  Nanoseconds host_after;   ///< from the last call to the section's end
  std::uint32_t group = 0;  ///< of the unit's (Unit::groups); one that has none of its own takes the first's
};

/// When freed blocks came back in a recording. Only blocks that were marked by record_stream can be late: their
/// events completed after further allocations had been made (caching allocator 5.2). Frees and allocations are
/// numbered from 0 in the order of the recording's free_requested and alloc entries.
struct RecordedReturns {
  struct Late {
    std::uint64_t free = 0;
    std::uint64_t allocation = 0;  ///< the first one that found the block back
    bool operator==(const Late&) const = default;
  };
  std::uint64_t frees = 0;  ///< in the recording: of later ones nothing is known
  std::vector<Late> late;   ///< ascending by `free`; any other was back at the next allocation
  bool operator==(const RecordedReturns&) const = default;
};

struct Program {
  std::vector<Op> ops;
  /// What its ops compute, for a device that runs them: of generated programs that were asked for it.
  /// All launches have one, or (where one is not known) none has: then the program can only be emulated.
  std::vector<ProgramKernel> kernels = {};
  /// The first launch whose Kernel is not known; invalid: none was asked for, or all are known. Not stored.
  LabelId uncomputed = {};
  TensorId loss = {};  ///< the last microbatch's loss, a float32 scalar, where the program computes one
};

/// What one rank of a recording is given in every step, where ranks are given other batches or lengths than others.
struct RankShape {
  std::uint32_t rank = 0;
  std::uint32_t batch = 0;  ///< samples a GPU and microbatch
  std::uint32_t seq = 0;    ///< tokens a sample; 1 of samples without a length
  bool operator==(const RankShape&) const = default;
};

/// One step of a recording whose steps differ.
struct RecordedStep {
  std::uint32_t batch = 0;  ///< samples a GPU and microbatch; 0: the recording does not show it
  std::uint32_t seq = 0;    ///< tokens a sample; 0: the recording does not show it
  bool profiled = true;     ///< its times are those of a profiled step of its size; else scaled from another one's
  bool operator==(const RecordedStep&) const = default;
};

struct Workload {
  std::string name;
  Settings settings;                          ///< those it was captured at, or the family's defaults
  Lowering lowering = Lowering::pytorch;      ///< whose program it was captured of, or is to be planned as
  Lowering host_program = Lowering::pytorch;  ///< whose program its host times were measured of
  std::vector<Unit> units;                    ///< root first
  std::vector<ProcessGroup> process_groups;   ///< those of its own collectives
  Program setup;
  std::vector<Program> steps;  ///< at least one
  std::uint32_t cycle = 1;     ///< how many of the last programs a longer run repeats, in order
  /// Each recorded step, the first included, where they differ; else empty. A plan runs them all.
  std::vector<RecordedStep> recorded;
  /// Of every recorded rank, by rank, where they differ; else empty. The programs are one rank's, whose batch and
  /// length are those of `settings`.
  std::vector<RankShape> rank_shapes;
  std::vector<SectionCost> sections;  ///< empty when no profiler trace was given: the device prices FSDP's work
  std::optional<Measured> measured;
  std::vector<double> recorded_host_ms;  ///< host time of each recorded step, under the recording of memory history
  bool has_timing = false;               ///< kernels and host times are there
  std::uint32_t sm_count =
      0;              ///< of the GPU it was captured on or made for; needed: sizes copy metadata (fsdp2 semantics 2.6)
  std::string gpu;    ///< "NVIDIA H200"
  std::string torch;  ///< "2.11.0+cu130"
  std::vector<Address> segment_addresses;         ///< addresses the driver gave, in order of cudaMalloc, and …
  std::vector<Bytes> segment_sizes;               ///< … the sizes asked for (address model)
  RecordedReturns returns;                        ///< when the recording's freed blocks came back
  std::vector<SnapshotSegment> initial_segments;  ///< what the allocator held before the recording began
  bool shards_known = false;     ///< setup's shard allocations carry their parameter (sizes can follow a mesh)
  bool optimizer_known = false;  ///< the optimizer's events are those of settings.optimizer, and were left out
  /// The optimizer's order, over all units, frozen parameters too: that of its param_groups and of each one's params.
  /// Of one group it is model.parameters().
  std::vector<ParameterId> parameters_order;
  std::vector<std::uint32_t> optimizer_param_groups;  ///< how many of them each of its param_groups has; empty: one
  std::vector<std::string> estimates;  ///< why predictions from it are estimates, one sentence each, to be shown
  Labels labels;
};

/// Place in Workload::steps of the program that step `step`, from 0, runs.
[[nodiscard]] inline std::size_t program_of_step(const Workload& workload, std::size_t step) {
  const std::size_t count = workload.steps.size();
  return step < count ? step : count - workload.cycle + (step - count) % workload.cycle;
}

/// By place in parameters_order: which of the optimizer's param_groups the parameter is in.
[[nodiscard]] inline std::vector<std::uint32_t> param_group_by_place(const Workload& workload) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t group = 0; group < workload.optimizer_param_groups.size(); ++group)
    out.insert(out.end(), workload.optimizer_param_groups[group], group);
  out.resize(workload.parameters_order.size());
  return out;
}

/// Whether every kernel of its steps says what it computes: then a device can run it with real numbers.
[[nodiscard]] inline bool computes(const Workload& workload) {
  for (const Program& step : workload.steps)
    if (step.kernels.empty() || step.uncomputed.valid()) return false;
  return !workload.steps.empty();
}

}  // namespace foreshard
