// FSDP2's state machine: what `fully_shard` (PyTorch 2.11; what others do differently: fsdp_rules.hpp) does at each of
// its hooks, in host order.
//
// Rules and names follow torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _fsdp_param_group.py and
// _fsdp_collectives.py; the order of every allocation, free, event and wait was checked against recorded
// runs (fsdp2 semantics 2 to 4 and 8). One object per training process (one FSDP root).
//
// Who: core/step's StepRunner and traces/capture's recogniser call the hooks; all effects go through
// the FsdpBackend. Deterministic, single-threaded.
#pragma once

#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "core/fsdp/fsdp_backend.hpp"
#include "core/fsdp/fsdp_rules.hpp"
#include "core/fsdp/unit_plan.hpp"

namespace foreshard {

class FullyShard {
 public:
  /// `plans` and `backend` must outlive this.
  FullyShard(const Settings& settings, const std::vector<UnitPlan>& plans, FsdpBackend& backend);

  // The hooks, in the order in which a step meets them.
  void zero_grad(const std::vector<UnitId>& order);  ///< frees each unit's sharded gradients, in this order
  void set_requires_gradient_sync(bool sync) { sync_ = sync; }
  /// FSDPModule.set_is_last_backward(): what a backward leaves to wait for or to use stays for the next where it is not
  /// the last one.
  void set_is_last_backward(bool last) { last_backward_ = last; }
  void pre_forward(UnitId unit);
  /// `casts_outputs`: of the root, whose MixedPrecisionPolicy.output_dtype casts its outputs: outputs_cast() follows.
  void post_forward(UnitId unit, bool casts_outputs = false);
  /// The cast is done: FSDPState._post_forward returns, and with it goes the last all-gather result. Only after a
  /// post_forward(root, true), once.
  void outputs_cast();
  void reshard(UnitId unit);  ///< FSDPModule.reshard(): by the program, between its passes
  void pre_backward(UnitId unit);
  void post_backward(UnitId unit);
  void backward_final();  ///< _root_post_backward_final_callback of a last backward
  /// Settings::optimizer_overlap forward: steps every group, in the order of the units.
  void step_optimizers();
  void optimizer_stepped();  ///< records the post-optimizer event where the settings ask for one

  // What lies where now, for the kernels of the user's program and of the optimizer.
  struct Unsharded {
    BufferRef buffer;  ///< invalid while the parameter is sharded
    Bytes offset = 0;  ///< in it
  };
  /// The parameter `index` of the group.
  [[nodiscard]] Unsharded unsharded(ParamGroupId group, std::size_t index) const;
  /// ParamGroupPlan::kept_input of the group; invalid before its first all-gather.
  [[nodiscard]] BufferRef kept_input(ParamGroupId group) const { return state(group).kept_input; }
  /// Of the weights that are gathered in float8; invalid before the first forward, and where there are none.
  [[nodiscard]] const Float8Scales& float8_scales() const { return float8_; }
  /// The flat block behind every sharded .grad of the group; invalid after zero_grad.
  [[nodiscard]] BufferRef sharded_gradients(ParamGroupId group) const;
  /// Whether any parameter has a sharded gradient.
  [[nodiscard]] bool has_gradients() const;
  /// The group's parameters, by index, whose gradients that block holds one behind the other, each padded.
  [[nodiscard]] const std::vector<std::size_t>& reduced(ParamGroupId group) const;

 private:
  enum class Sharded : std::uint8_t { sharded, sharded_post_forward, unsharded };
  enum class Training : std::uint8_t { idle, forward, pre_backward, post_backward };

  /// An all-gather that was issued and not yet copied out (AllGatherResult).
  struct Gather {
    BufferRef block;
    EventId event;                ///< recorded on the all-gather stream, or at launch when async
    std::optional<EventId> work;  ///< async: end of the collective on the process group's stream
    bool async = false;
    bool small = false;       ///< over the post-forward group, from the parts kept after forward
    bool trivial = false;     ///< shard group of one rank: no collective, no block
    bool contiguous = false;  ///< the block is the unsharded parameters (AllGatherLayout::parameter_contiguous)
    bool kept = false;        ///< its input is GroupState::kept_input (AllGatherInput::optimizer)
    StreamRole stream = StreamRole::copy_in;

    [[nodiscard]] CommunicatorRole over() const {
      return small ? CommunicatorRole::post_forward : CommunicatorRole::shard;
    }
  };

  /// What one FSDPParamGroup holds.
  struct GroupState {
    Sharded sharded = Sharded::sharded;
    std::optional<Gather> pending;
    std::vector<std::size_t> post_forward_indices;
    std::vector<BufferRef> unsharded;                ///< by parameter, while unsharded
    BufferRef contiguous;                            ///< in their place, parameter-contiguous
    StreamRole contiguous_of = StreamRole::compute;  ///< whose memory that is
    BufferRef kept_input;                            ///< from the first all-gather on
    std::vector<BufferRef> parts;                    ///< by parameter, while sharded_post_forward
    std::optional<EventId> reshard_event;
    std::vector<BufferRef> accumulated;                    ///< by parameter, gradients in the reduce dtype
    BufferRef sharded_gradients;                           ///< the flat block behind every .grad
    StreamRole gradients_of = StreamRole::reduce_scatter;  ///< whose memory that is
    std::vector<std::size_t> reduced;                      ///< parameters of the last reduce
    std::optional<EventId> post_reduce_event;
    BufferRef all_reduce_input;            ///< kept until finalize when HSDP casts back
    std::optional<EventId> reduced_event;  ///< optimizer_overlap: the sharded gradients are whole
    std::optional<EventId> stepped;        ///< … the group's parameters are the next step's
    bool step_awaited = false;             ///< by an all-gather of the group, behind which all others come
    std::optional<EventId> all_reduce_event;
  };
  /// One FSDPState.
  struct UnitState {
    Training training = Training::idle;
    std::vector<GroupState> groups;
  };

  /// The comm context's all-gather slot: the previous group's block and its copy-out event.
  struct GatherSlot {
    Gather gather;
    EventId copied_out;
  };
  struct ReduceSlot {
    std::vector<BufferRef> input;  ///< the buffer, or the gradients themselves
    EventId event;
  };
  /// A parameter-contiguous block that was resharded, and when its last kernel is through.
  struct ReshardedSlot {
    UnitId unit;
    BufferRef block;
    EventId event;
  };
  /// optimizer_overlap backward: sharded gradients that the optimizer reads, and when it has.
  struct SteppedSlot {
    BufferRef gradients;
    StreamRole stream = StreamRole::reduce_scatter;  ///< whose memory that is
    EventId event;
  };
  /// Gradients that autograd left in this microbatch, by parameter of a group.
  using Fresh = std::vector<std::optional<BufferRef>>;

  // prefetch.cpp
  void forward_prefetch(UnitId unit);       ///< the explicit targets
  void backward_prefetch(UnitId unit);      ///< the explicit targets
  void backward_prefetch(ParamGroupId id);  ///< FSDPParamGroup._backward_prefetch: the default rule (4.4)
  /// The same of a unit of several groups: `index` is the place of the group's forward in the post-forward order.
  void backward_prefetch_groups(ParamGroupId id, std::size_t index);
  /// FSDPParamGroup._prefetch_unshard: the target gathers as if it were in that pass.
  void prefetch(UnitId target, Training pass);
  void prefetch(ParamGroupId target, Training pass);

  // all_gather.cpp
  void unshard(ParamGroupId id);
  void all_gather(ParamGroupId id, Gather& gather);
  void copy_in(ParamGroupId id, const Gather& gather, StreamRole memory);
  std::vector<BufferRef> allocate_inputs(ParamGroupId id, const Gather& gather);
  void keep_rendezvous_arrays(ParamGroupId id, StreamRole stream);
  void wait_for_unshard(ParamGroupId id);
  void copy_out(ParamGroupId id, const Gather& gather);
  void free_chunks(const std::vector<BufferRef>& chunks);
  void use_in_place(ParamGroupId id, const Gather& gather);
  void reshard_contiguous(ParamGroupId id);
  /// Frees resharded blocks, all but those of the unit that was resharded last, or all.
  void free_resharded_blocks(bool all);
  [[nodiscard]] BufferRef copy_out_shards(ParamGroupId id);
  void wait_gather_streams(EventId event);
  void reshard(ParamGroupId id);
  void reshard_to_small_group(ParamGroupId id);
  void free_unsharded(ParamGroupId id);
  void free_all(std::vector<BufferRef>& buffers);
  void complete_partial_units();
  void drop_gather_slot();
  void drop_gather_slot_behind_backward();

  // float8_scales.cpp
  void make_float8_scales();
  void find_float8_amaxes();
  void find_float8_amaxes(ParamGroupId id);
  void reduce_float8_amaxes(ParamGroupId id, std::uint32_t first, std::uint32_t count, StreamRole stream);

  // reduce_scatter.cpp
  void post_backward(ParamGroupId id);
  void accumulate(ParamGroupId id, const Fresh& fresh);
  void keep_unreduced(ParamGroupId id, const Fresh& fresh);
  void reduce(ParamGroupId id, const Fresh& fresh);
  [[nodiscard]] ChunkCat chunk_cat_of(ParamGroupId id, const Fresh& fresh) const;
  Allocation copy_in_gradients(ParamGroupId id, ChunkCat& cat, const std::vector<Bytes>& chunks, Bytes bytes,
                               MemoryKind kind);
  [[nodiscard]] std::vector<BufferRef> free_copied_gradients(ParamGroupId id, const ChunkCat& cat, BufferRef chunked);
  [[nodiscard]] BufferRef rechunk_gradients(ParamGroupId id, ChunkCat& cat);
  /// Waits for and frees the oldest reduce-scatter inputs until fewer than `most` are in flight.
  void free_reduce_inputs(std::size_t most);
  void free_reduce_input(const ReduceSlot& slot);
  /// FSDPState._root_post_backward_final_callback: those that are left.
  void free_last_reduce_inputs();
  void reduce_collectives(ParamGroupId id, const ChunkCat& sent, BufferRef output, Bytes input_bytes,
                          Bytes output_bytes);
  void keep_sharded_gradients(ParamGroupId id, BufferRef output, Bytes output_bytes);
  void finalize(ParamGroupId id);
  void finalize_waits(GroupState& s);
  void note_post_reduce(GroupState& s, StreamRole stream);
  void step_optimizer(ParamGroupId id);
  void step_behind_reduce(ParamGroupId id);
  /// Frees the oldest gradients that the optimizer has read until `most` are left.
  void free_stepped_gradients(std::size_t most);
  /// The stream on which a group's gradients are whole: behind HSDP's all-reduce, else behind the reduce-scatter.
  [[nodiscard]] StreamRole post_reduce_stream() const {
    return settings_.replicate > 1 ? StreamRole::all_reduce : StreamRole::reduce_scatter;
  }

  [[nodiscard]] bool record_stream_gathers() const { return settings_.release == Release::record_stream; }
  [[nodiscard]] Pass pass_of(UnitId unit) const {
    const Training training = states_[unit.value].training;
    return training == Training::forward || training == Training::idle ? Pass::forward : Pass::backward;
  }
  /// Calls `f` with each group of the unit, in order.
  template <class F>
  void each_group(UnitId unit, F f) {
    for (std::uint32_t i = 0; i < plan(unit).groups.size(); ++i) f(ParamGroupId{unit, i});
  }
  /// The same from the last group to the first, the order in which backward reaches them.
  template <class F>
  void each_group_back(UnitId unit, F f) {
    for (auto i = static_cast<std::uint32_t>(plan(unit).groups.size()); i-- > 0;) f(ParamGroupId{unit, i});
  }
  UnitState& state(UnitId unit) { return states_[unit.value]; }
  GroupState& state(ParamGroupId id) { return states_[id.unit.value].groups[id.index]; }
  [[nodiscard]] const GroupState& state(ParamGroupId id) const { return states_[id.unit.value].groups[id.index]; }
  [[nodiscard]] const UnitPlan& plan(UnitId unit) const { return plans_[unit.value]; }
  [[nodiscard]] const ParamGroupPlan& plan(ParamGroupId id) const { return plans_[id.unit.value].groups[id.index]; }

  const Settings& settings_;
  const FsdpRules rules_;
  const std::vector<UnitPlan>& plans_;
  FsdpBackend& backend_;
  std::vector<UnitState> states_;
  std::vector<ParamGroupId> post_forward_order_;
  std::optional<GatherSlot> gather_slot_;
  std::deque<ReduceSlot> reduce_slots_;        ///< the oldest first
  std::deque<SteppedSlot> stepped_slots_;      ///< likewise
  std::deque<ReshardedSlot> resharded_slots_;  ///< likewise
  /// The last post-reduce event of each stream, by its first use in this backward.
  std::vector<std::pair<StreamRole, EventId>> last_post_reduce_;
  std::optional<EventId> post_optimizer_event_;
  Float8Scales float8_;
  bool sync_ = true;
  bool last_backward_ = true;
  bool in_backward_ = false;
};

}  // namespace foreshard
