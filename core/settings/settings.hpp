// The options of one run: everything that `plan`, `sweep` and `run` let the user set.
//
// Option names, JSON keys and about-file keys are the same words (settings_table.hpp). An aggregate;
// defaults are PyTorch's (kCheckedPyTorch).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/device/collective.hpp"
#include "core/settings/pytorch_version.hpp"

namespace foreshard {

/// What keeps a gather buffer's memory from being reused while its collective still runs
/// (fsdp2 semantics 5.1, 5.2, 5.7; the remedies of pytorch#147168).
enum class Release : std::uint8_t {
  automatic = 0,      ///< what the PyTorch version does by itself (2.8 and later: stash)
  stash = 1,          ///< references kept until Work.wait(): freed in host order
  record_stream = 2,  ///< tensor.record_stream: freed when the allocator sees the event complete
};

/// The stream that owns all-gather buffers when the unshard is not async (third remedy of pytorch#147168).
enum class GatherAlloc : std::uint8_t {
  copy_in = 0,  ///< the all-gather copy-in stream (PyTorch)
  compute = 1,  ///< the compute stream, while the collective still runs on its own
};

/// Where an all-gather's bytes arrive (the contract of PyTorch main's AllGatherLayout; the second is foreshard's).
enum class AllGatherLayout : std::uint8_t {
  rank_major = 0,            ///< rank by rank, and a copy-out from there (DefaultAllGatherLayout)
  parameter_contiguous = 1,  ///< one buffer that all parameters of a group view: every part at its place, no copy-out
};
/// What fills an all-gather's input.
enum class AllGatherInput : std::uint8_t {
  copy_in = 0,    ///< a cast of the shards right before each all-gather (foreach_all_gather's copy-in)
  optimizer = 1,  ///< the optimizer, which writes each new parameter in the compute dtype too; foreshard's
};
/// What a reduce-scatter reads.
enum class ReduceScatterInput : std::uint8_t {
  chunk_cat = 0,  ///< a buffer that fsdp::chunk_cat fills rank by rank (foreach_reduce_scatter_copy_in)
  gradients = 1,  ///< the gradients where autograd wrote them, in symmetric memory; foreshard's
};

/// Non-reentrant activation checkpointing. The selective kinds follow torchtitan (torchtitan/models/…/parallelize.py,
/// apply_ac): they are known for generated models alone.
enum class Checkpoint : std::uint8_t {
  none = 0,
  blocks = 1,           ///< every block
  selective_op = 2,     ///< every block, but attention and every other GEMM (1st, 3rd, …) are kept
  selective_layer = 3,  ///< `checkpoint_share` of the blocks, evenly spaced
};
/// Whose kernels a model's blocks run: PyTorch's, op by op, or foreshard's own, which join them (generated models
/// alone; docs/models.md). Memory and the autograd graph follow.
enum class Kernels : std::uint8_t { eager = 0, fused = 1 };
/// The GEMMs of the blocks' linear layers in float8, as torchao's recipes name them.
enum class Float8 : std::uint8_t {
  none = 0,
  tensorwise = 1,  ///< one scale a tensor, of its largest element, found anew in every step
};
enum class Optimizer : std::uint8_t { adam = 0, adam_fused = 1, adam_single = 2, sgd = 3 };

/// What the optimizer's kernels run beside. Where they have a stream of their own, each unit's all-gather waits for
/// that unit's step, and the compute stream for none.
enum class OptimizerOverlap : std::uint8_t {
  none = 0,      ///< on the compute stream, of all parameters at once (PyTorch)
  backward = 1,  ///< each unit behind its own reduce-scatter; its gradients are freed at once
  forward = 2,   ///< behind backward, unit by unit as the next forward needs them
};

/// `reshard_after_forward` of fully_shard.
struct Reshard {
  enum class Kind : std::uint8_t { always = 0, never = 1, group = 2 };
  Kind kind = Kind::always;
  std::uint32_t group_size = 0;  ///< for `group`: ranks that keep a unit together after forward
  bool operator==(const Reshard&) const = default;
};

/// Forward and backward captured once in a CUDA graph (torch.cuda.graph) and replayed in every step behind; what
/// stands before forward and the optimizer stay outside. Gradients are None when the capture begins, or are those
/// of the steps before it (Settings::set_to_none).
struct CudaGraph {
  std::uint32_t eager_steps = 0;    ///< on the current stream, before …
  std::uint32_t warm_up_steps = 3;  ///< … those on the stream of the capture (PyTorch's documentation: three)
  [[nodiscard]] std::uint32_t before_capture() const { return eager_steps + warm_up_steps; }
  bool operator==(const CudaGraph&) const = default;
};

/// Explicit prefetch lists per module, by unit name (`--prefetch-lists FILE`). A unit that is absent
/// keeps the rule of forward_prefetch / backward_prefetch.
struct PrefetchLists {
  std::map<std::string, std::vector<std::string>> forward;
  std::map<std::string, std::vector<std::string>> backward;
  bool operator==(const PrefetchLists&) const = default;
};

struct Settings {
  // Where it runs.
  std::uint32_t gpus = 1;  ///< GPUs a node
  std::uint32_t nodes = 1;
  std::uint32_t replicate = 1;  ///< HSDP: size of the mesh's replicate dimension; 1 is plain FSDP
  /// Ranks of the mesh's tensor-parallel dimension, the innermost; FSDP2 shards the local part of DTensor parameters
  /// over the others. What each rank computes depends on it: a recording keeps its own.
  std::uint32_t tensor_parallel = 1;
  /// Neighbouring ranks of the shard dimension over which a model's experts are split (torchtitan's EP): FSDP2 shards
  /// each part over the shard_ranks() / expert_parallel ranks that hold the same experts. 1: all experts on every rank.
  std::uint32_t expert_parallel = 1;
  /// Tokens of the expert-parallel rank that gets most of them over the mean of its group, 1 (balanced routing) to
  /// expert_parallel. What is planned is that rank.
  double router_imbalance = 1;
  std::optional<std::uint32_t> batch;  ///< per GPU and microbatch
  std::optional<std::uint32_t> seq;

  // FSDP2.
  std::optional<DType> param_dtype;   ///< MixedPrecisionPolicy.param_dtype
  std::optional<DType> reduce_dtype;  ///< MixedPrecisionPolicy.reduce_dtype
  /// None: implicit; N: set_modules_to_forward_prefetch of the next N units (with their experts: prefetch.hpp).
  std::optional<std::uint32_t> forward_prefetch;
  /// None: the default rule; N: set_modules_to_backward_prefetch of the previous N units.
  std::optional<std::uint32_t> backward_prefetch;
  PrefetchLists prefetch_lists;
  bool unshard_async = false;            ///< _set_unshard_async_op(True)
  Release release = Release::automatic;  ///< of all-gathers
  /// Of reduce-scatters; none: automatic, whatever `release` is.
  std::optional<Release> reduce_scatter_release;
  GatherAlloc gather_alloc = GatherAlloc::copy_in;
  Reshard reshard_after_forward;
  std::map<std::string, Reshard> reshard_of_unit;  ///< per unit, by name; overrides reshard_after_forward
  bool root_reshard_explicit = true;  ///< reshard_after_forward was passed for the root (2.8+: then it is honoured)
  Transport all_gather = Transport::nccl;
  Transport reduce_scatter = Transport::nccl;
  AllGatherLayout all_gather_layout = AllGatherLayout::rank_major;
  AllGatherInput all_gather_input = AllGatherInput::copy_in;
  ReduceScatterInput reduce_scatter_input = ReduceScatterInput::chunk_cat;
  /// FSDPModule.set_separate_reduce_scatter_group(True) (PyTorch 2.13): reduce-scatters have a communicator of their
  /// own and no longer queue behind all-gathers.
  bool separate_reduce_scatter_group = false;
  /// FSDPModule.set_reduce_scatter_max_input_buffers (PyTorch 2.13): reduce-scatter inputs in flight at most; before
  /// the next one is made, the compute stream waits for the oldest.
  std::uint32_t reduce_scatter_max_input_buffers = 1;
  std::uint32_t units_per_group = 1;  ///< blocks given to fully_shard together
  /// fully_shard(embedding) and fully_shard([norm, head]) before the root: first and last of the units, of which the
  /// last stays gathered after forward unless `reshard_of_unit` names it (torchtitan wraps its models so).
  bool fully_shard_embedding_and_head = false;
  bool post_optimizer_event = false;  ///< set_post_optim_event: gathers wait for it instead of for the compute stream

  // The training step.
  std::uint32_t accumulate = 1;
  bool accumulate_with_sync = false;  ///< reduce in every microbatch (set_requires_gradient_sync left True)
  /// optimizer.zero_grad(set_to_none=…). False: sharded gradients stay allocated from the first step on, are zeroed
  /// before each forward, and FSDP2 adds what it reduces to them (foreach_reduce, to_accumulate_grad).
  bool set_to_none = true;
  Checkpoint checkpoint = Checkpoint::none;
  std::uint32_t checkpoint_share = 50;  ///< percent of the blocks that selective_layer checkpoints
  Kernels kernels = Kernels::eager;
  Float8 float8 = Float8::none;
  /// torchao's enable_fsdp_float8_all_gather: the weights that `float8` multiplies are cast before they are gathered,
  /// by the largest element of all shards.
  bool float8_all_gather = false;
  bool offload = false;  ///< CPUOffloadPolicy(pin_memory=True)
  Optimizer optimizer = Optimizer::adam;
  OptimizerOverlap optimizer_overlap = OptimizerOverlap::none;
  std::optional<CudaGraph> cuda_graph;  ///< none: every step is issued eagerly

  // The allocator and the version.
  std::string alloc_conf;                ///< PYTORCH_ALLOC_CONF
  std::string pytorch{kCheckedPyTorch};  ///< one of kKnownPyTorch

  /// Whether a reduction can find gradients of an earlier one, and is added to them.
  [[nodiscard]] bool adds_reduced_gradients() const { return !set_to_none || (accumulate > 1 && accumulate_with_sync); }
  [[nodiscard]] std::uint32_t world() const { return gpus * nodes; }
  [[nodiscard]] std::uint32_t shard_ranks() const { return world() / (replicate * tensor_parallel); }
  /// Whether block `index` (from 0) is checkpointed in any way. Selective by layer: as evenly spaced as
  /// `checkpoint_share` allows (the rule of fms-fsdp, fms_fsdp/policies/ac_handler.py).
  [[nodiscard]] bool checkpoints_block(std::uint32_t index) const {
    constexpr std::uint32_t kHalf = 50;
    constexpr std::uint32_t kWhole = 100;
    if (checkpoint != Checkpoint::selective_layer) return checkpoint != Checkpoint::none;
    return ((index + 1) * checkpoint_share + kHalf) / kWhole > (index * checkpoint_share + kHalf) / kWhole;
  }
  bool operator==(const Settings&) const = default;
};

}  // namespace foreshard
