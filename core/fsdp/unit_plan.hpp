// Everything about one FSDP unit that the settings decide once: dtypes, sizes of all its buffers,
// prefetch targets, whether it is resharded after forward.
//
// Computed from Settings and units before the first step (FSDPParamGroup.lazy_init and
// FSDPParam.init_dtype_attrs, PyTorch 2.11); plain data afterwards.
#pragma once

#include <vector>

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "core/shard/layout.hpp"
#include "core/workload/unit.hpp"

namespace foreshard {

/// The dtypes and bytes of one parameter's buffers.
struct ParameterPlan {
  ParameterId id;
  DType compute = DType::float32;
  DType reduce = DType::float32;
  DType gathered = DType::float32;  ///< the compute dtype, or float8_e4m3fn (Parameter::gathered_in_float8)
  DType sent = DType::float32;      ///< as UnitPlan::sent
  Bytes shard = 0;                  ///< padded shard in the original dtype (H2D copy under offload)
  Bytes cast_shard = 0;             ///< padded shard in the gathered dtype: this rank's part of the all-gather
  Bytes unsharded = 0;              ///< unsharded storage in the gathered dtype
  Bytes gradient = 0;               ///< unpadded gradient in the compute dtype
  Bytes accumulated = 0;            ///< the same in the reduce dtype
  Bytes reduce_chunk = 0;           ///< padded shard in the reduce dtype: one rank's part of the reduce
  Bytes sent_chunk = 0;             ///< the same in UnitPlan::sent
  Bytes clone = 0;                  ///< int reshard: this rank's part kept after forward
  Bytes offset = 0;                 ///< parameter-contiguous: where it begins in the group's block
  Bytes kept_offset = 0;            ///< where its part begins in ParamGroupPlan::kept_input
  /// It is cut along another dimension than the first, over more than one rank: torch.cat puts its chunks together
  /// behind the copy-out, and makes them of its gradient in front of the reduce-scatter's copy-in.
  bool rechunks = false;
  std::uint32_t float8_place = 0;  ///< gathered in float8: its number among all such parameters
};

/// One FSDPParamGroup: parameters that are gathered and reduced together.
struct ParamGroupPlan {
  std::vector<ParameterPlan> parameters;
  bool casts = false;             ///< compute dtype ≠ original dtype
  bool casts_gradients = false;   ///< effective reduce dtype set and ≠ gradient dtype; as all below of those trained
  bool casts_back = false;        ///< reduce dtype ≠ original dtype
  bool divides = false;           ///< set_gradient_divide_factor: of experts (torchtitan, distributed/fsdp.py)
  std::uint32_t shard_ranks = 1;  ///< of the mesh's shard dimension, or of the part that experts are sharded over
  Bytes gather = 0;               ///< all-gather block over the shard group
  /// AllGatherLayout::parameter_contiguous: bytes of the block that the parameters view, each from `offset` on; 0: the
  /// group is gathered rank-major.
  Bytes contiguous = 0;
  /// AllGatherInput::optimizer: bytes of the buffer that always holds this rank's part of the all-gather, its cast
  /// shards one behind the other; 0: they are copied in before each.
  Bytes kept_input = 0;
  bool reduces_gradients = false;  ///< ReduceScatterInput::gradients
  /// Flat buffer of the shards that the foreach-cast casts over the shard group: those with an fsdp_pre_all_gather of
  /// their own, in float8, are cast straight into the block.
  Bytes flat_cast = 0;
  std::uint32_t float8_weights = 0;  ///< parameters that are gathered in float8 …
  std::uint32_t first_float8 = 0;    ///< … and the place of the first, which the others' follow
  Bytes small_flat = 0;              ///< flat buffer of the small group's gather
  Bytes split_metadata = 0;
  Bytes small_split_metadata = 0;
  Bytes cast_output_itemsize = 4;  ///< of the original dtype
  DType original = DType::float32;
  DType compute = DType::float32;
  DType reduce = DType::float32;  ///< sums are made in it
  /// What a reduce-scatter's input holds. PyTorch: the reduce dtype. Our own (Transport::pull_reduce) sends
  /// gradients as they are where every value of theirs is one of the reduce dtype's, and upcasts them as it adds: the
  /// same sums, half the bytes.
  DType sent = DType::float32;
};

/// One FSDPState. A unit without parameters has no group.
struct UnitPlan {
  UnitId id;
  std::vector<ParamGroupPlan> groups;     ///< one today: PyTorch 2.12 makes one for each mesh of a unit's parameters
  Reshard reshard;                        ///< after forward
  std::vector<UnitId> forward_prefetch;   ///< explicit targets (prefetch.hpp)
  std::vector<UnitId> backward_prefetch;  ///< the same; empty: the default rule
};

/// The unit of that name. Errors (usage): there is none; says which are near, or which there are. `where` is the
/// Error's.
[[nodiscard]] Result<UnitId> find_unit(const std::string& name, const std::vector<Unit>& units, std::string where);

/// Plans every unit. Fails with ErrorKind::usage when the settings do not fit the units: an int reshard
/// that does not divide the shard group, a prefetch list that names an unknown unit, …
[[nodiscard]] Result<std::vector<UnitPlan>> plan_units(const Settings& settings, const std::vector<Unit>& units,
                                                       std::uint32_t sm_count);

}  // namespace foreshard
