// The ops that FSDP2 puts on streams: what each does, to which buffers.
//
// Who: FullyShard issues them through FsdpBackend; core/step's lowerings turn each into the kernels, copies and
// collectives of one program, PyTorch's or foreshard's own. Names of PyTorch's functions are those of
// torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py and _fsdp_param.py, 2.11.
//
// Plain data. Lists by parameter are in the order of the group's plan.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"
#include "core/device/collective.hpp"

namespace foreshard {

/// A buffer that FullyShard owns. An invalid one stands for zero bytes.
using BufferRef = Id<struct BufferRefTag>;

/// One FSDPParamGroup: the parameters of a unit that are gathered and reduced together.
struct ParamGroupId {
  UnitId unit;
  std::uint32_t index = 0;  ///< among the unit's groups
  bool operator==(const ParamGroupId&) const = default;
};

enum class CommunicatorRole : std::uint8_t {
  shard = 0,           ///< all-gathers and, unless they have their own, reduce-scatters of one mesh share it
  replicate = 1,       ///< HSDP's all-reduces
  post_forward = 2,    ///< int reshard: one communicator a unit
  reduce_scatter = 3,  ///< Settings::separate_reduce_scatter_group; else the same as `shard`
  float8_scales = 4,   ///< of the shard group's ranks, where the optimizer has a stream of its own; else `shard`
};

/// What float8 weights are cast by: one float32 of each, by ParameterPlan::float8_place. Invalid where there are none.
struct Float8Scales {
  BufferRef amaxes;  ///< the largest elements, one behind the other
  BufferRef scales;  ///< what undoes the casts, kStride apart; the copy-in writes them

  /// cuBLAS: "Starting addresses of scaling factors must be 16B aligned"; from CUDA 12.9.1 on it refuses others.
  static constexpr Bytes kStride = 16;
};

/// precompute_float8_dynamic_scale_for_fsdp of one group: the largest elements of this rank's shards.
struct ShardAmaxes {
  ParamGroupId group;
  BufferRef amaxes;
};

/// … and their maximum over the shard group, in place.
struct ReduceAmaxes {
  ParamGroupId group;
  CommunicatorRole over = CommunicatorRole::shard;
  BufferRef amaxes;
  std::uint32_t first = 0;  ///< of the weights' places
  CollectiveWork work;      ///< without addresses
};

/// all_gather_copy_in: this rank's shards, cast to the compute dtype, one behind the other into this rank's part of the
/// block. Over the post-forward group it is the parts kept after forward that are copied.
struct CopyIn {
  ParamGroupId group;
  CommunicatorRole over = CommunicatorRole::shard;
  std::vector<BufferRef> parts;  ///< by parameter, in the compute dtype; empty: the sharded parameters themselves
  BufferRef block;
  bool contiguous = false;  ///< the block is parameter-contiguous: each shard goes to its place in the parameter
  bool kept = false;        ///< the block is this rank's part alone, which the optimizer writes from then on
  Float8Scales float8;      ///< by which float8 weights are cast
};

struct AllGather {
  ParamGroupId group;
  CommunicatorRole over = CommunicatorRole::shard;
  BufferRef block;
  BufferRef input;          ///< this rank's part; invalid: it is in the block already
  CollectiveWork work;      ///< without addresses
  bool contiguous = false;  ///< as CopyIn
};

/// foreach_all_gather_copy_out: out of every rank's part of the block into the unsharded parameters.
struct CopyOut {
  ParamGroupId group;
  CommunicatorRole over = CommunicatorRole::shard;
  BufferRef block;
  std::vector<BufferRef> unsharded;  ///< by parameter
};

/// Copy-out of a shard group of one rank, straight from the sharded parameters.
struct CopyOutShards {
  ParamGroupId group;
  std::vector<BufferRef> unsharded;  ///< by parameter
};

/// to_sharded_post_forward: this rank's part of one unsharded parameter, kept after forward.
struct KeepPart {
  ParamGroupId group;
  std::size_t parameter = 0;  ///< in its group, here and below
  BufferRef unsharded;
  BufferRef part;
};

/// accumulate_unsharded_grad_if_needed: accumulated += gradient.
struct AddGradients {
  struct Sum {
    std::size_t parameter = 0;
    BufferRef accumulated;  ///< in the reduce dtype
    BufferRef gradient;     ///< in the compute dtype
  };
  ParamGroupId group;
  std::vector<Sum> sums;
};

/// to_accumulated_grad_if_needed: one gradient into the reduce dtype.
struct CastGradient {
  ParamGroupId group;
  std::size_t parameter = 0;
  BufferRef gradient;
  BufferRef accumulated;
};

/// foreach_reduce_scatter_copy_in: for each rank its part of every gradient, padded.
struct ChunkCat {
  struct Input {
    std::size_t parameter = 0;
    BufferRef gradient;
    bool accumulated = false;  ///< in the reduce dtype; else in the compute dtype
  };
  ParamGroupId group;
  std::vector<Input> inputs;  ///< of the parameters that take part
  BufferRef output;
  DType sent = DType::float32;  ///< of the output's elements
  double scale = 1;             ///< before the reduction, where the transport knows only sums
};

struct ReduceScatter {
  ParamGroupId group;
  BufferRef input;  ///< invalid where the gradients themselves are the input
  BufferRef output;
  CollectiveWork work;                     ///< without addresses
  std::vector<ChunkCat::Input> gradients;  ///< ParamGroupPlan::reduces_gradients
};

/// The reduction of a shard group of one rank: a copy.
struct CopyReduced {
  ParamGroupId group;
  BufferRef input;
  BufferRef output;
  std::uint64_t numel = 0;  ///< in the reduce dtype
};

/// HSDP's, in place.
struct AllReduce {
  ParamGroupId group;
  BufferRef gradients;
  CollectiveWork work;  ///< without addresses
};

/// _to_dtype_if_needed of the reduced gradients: back into the parameters' dtype.
struct CastBack {
  ParamGroupId group;
  BufferRef input;   ///< in the reduce dtype
  BufferRef output;  ///< in the parameters' dtype
  std::uint64_t numel = 0;
};

/// sharded_param.grad += the newly reduced gradients, in the parameters' dtype.
struct AddReduced {
  ParamGroupId group;
  BufferRef sharded_gradients;
  BufferRef reduced;
  std::uint64_t numel = 0;
};

/// CPUOffloadPolicy: reduced gradients to the host.
struct OffloadGradients {
  ParamGroupId group;
  BufferRef sharded_gradients;
};

/// Settings::optimizer_overlap: the optimizer's step of this group's parameters alone.
struct StepOptimizer {
  ParamGroupId group;
  BufferRef sharded_gradients;
};

using FsdpOp = std::variant<CopyIn, AllGather, CopyOut, CopyOutShards, KeepPart, AddGradients, CastGradient, ChunkCat,
                            ReduceScatter, CopyReduced, AllReduce, CastBack, AddReduced, OffloadGradients,
                            StepOptimizer, ShardAmaxes, ReduceAmaxes>;

[[nodiscard]] inline bool is_collective(const FsdpOp& op) {
  return std::holds_alternative<AllGather>(op) || std::holds_alternative<ReduceScatter>(op) ||
         std::holds_alternative<AllReduce>(op) || std::holds_alternative<ReduceAmaxes>(op);
}
[[nodiscard]] inline ParamGroupId group_of(const FsdpOp& op) {
  return std::visit([](const auto& o) { return o.group; }, op);
}

}  // namespace foreshard
