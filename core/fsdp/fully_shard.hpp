// FSDP2's state machine: what `fully_shard` (PyTorch 2.11) does at each of its hooks, in host order.
//
// Rules and names follow torch/distributed/fsdp/_fully_shard/_fsdp_state.py, _fsdp_param_group.py and
// _fsdp_collectives.py; the order of every allocation, free, event and wait was checked against recorded
// runs (fsdp2 semantics 2 to 4 and 8). One object per training process (one FSDP root).
//
// Who: core/step's StepRunner and traces/capture's recogniser call the hooks; all effects go through
// the Issuer. Deterministic, single-threaded.
#pragma once

#include <optional>
#include <vector>

#include "core/fsdp/issuer.hpp"
#include "core/fsdp/unit_plan.hpp"

namespace foreshard {

class FullyShard {
 public:
  /// `plans` and `issuer` must outlive this.
  FullyShard(const Settings& settings, const std::vector<UnitPlan>& plans, Issuer& issuer);

  // The hooks, in the order in which a step meets them.
  void zero_grad(const std::vector<UnitId>& order);  ///< frees each unit's sharded gradients, in this order
  void set_requires_gradient_sync(bool sync) { sync_ = sync; }
  void pre_forward(UnitId unit);
  void post_forward(UnitId unit);
  void pre_backward(UnitId unit);
  void post_backward(UnitId unit);
  void backward_final();     ///< _root_post_backward_final_callback of a last backward
  void optimizer_stepped();  ///< records the post-optimizer event where the settings ask for one

 private:
  enum class Sharded : std::uint8_t { sharded, sharded_post_forward, unsharded };
  enum class Training : std::uint8_t { idle, forward, pre_backward, post_backward };

  /// A gather that was issued and not yet copied out (AllGatherResult).
  struct Gather {
    BufferRef block;
    EventId event;                ///< recorded on the all-gather stream, or at launch when async
    std::optional<EventId> work;  ///< async: end of the collective on the process group's stream
    bool async = false;
    bool small = false;    ///< over the post-forward group, from clones
    bool trivial = false;  ///< shard group of one rank: no collective, no block
    StreamRole stream = StreamRole::copy_in;
  };

  struct UnitState {
    Sharded sharded = Sharded::sharded;
    Training training = Training::idle;
    std::optional<Gather> pending;
    std::vector<std::size_t> post_forward_indices;
    std::vector<BufferRef> unsharded;  ///< by parameter, while unsharded
    std::vector<BufferRef> clones;     ///< by parameter, while sharded_post_forward
    std::optional<EventId> reshard_event;
    std::vector<BufferRef> accumulated;  ///< by parameter, gradients in the reduce dtype
    BufferRef sharded_gradients;         ///< the flat block behind every .grad
    std::optional<EventId> post_reduce_event;
    BufferRef all_reduce_input;  ///< kept until finalize when HSDP casts back
    std::optional<EventId> all_reduce_event;
  };

  /// The comm context's all-gather slot: the previous unit's block and its copy-out event.
  struct GatherSlot {
    Gather gather;
    EventId copied_out;
  };
  struct ReduceSlot {
    BufferRef input;
    EventId event;
  };

  // gather.cpp
  void unshard(UnitId unit);
  void issue_gather(UnitId unit, Gather& gather);
  void gather_inputs(UnitId unit, const Gather& gather, BufferRef& flat, std::vector<BufferRef>& copies);
  void keep_rendezvous_arrays(UnitId unit, StreamRole stream);
  void wait_for_unshard(UnitId unit);
  void copy_out(UnitId unit, const Gather& gather);
  void copy_out_trivial(UnitId unit);
  void wait_gather_streams(EventId event);
  void reshard(UnitId unit);
  void reshard_to_small_group(UnitId unit);
  void free_unsharded(UnitId unit);
  void drop_gather_slot();

  // reduce.cpp
  void accumulate(UnitId unit, const std::vector<bool>& fresh);
  void keep_unreduced(UnitId unit, const std::vector<bool>& fresh);
  void reduce(UnitId unit, const std::vector<bool>& fresh);
  void reduce_collectives(UnitId unit, DType sent, Bytes input_bytes, Bytes output_bytes);
  void keep_sharded_gradients(UnitId unit, BufferRef output, Bytes output_bytes);
  void finalize(UnitId unit);

  /// Where a transport's buffers lie: NCCL's registered ones in the process group's pool over ncclMemAlloc
  /// (set_allocate_memory_from_process_group_for_comm), those of symmetric windows and of copy engines in symmetric
  /// memory (a custom AllGather's or ReduceScatter's allocate(); fsdp2 semantics 5.6, 7.2).
  [[nodiscard]] static MemoryKind memory_of(Transport transport) {
    if (transport == Transport::nccl) return MemoryKind::device;
    return transport == Transport::nccl_registered ? MemoryKind::registered : MemoryKind::symmetric;
  }
  [[nodiscard]] bool record_stream_gathers() const { return settings_.release == Release::record_stream; }
  [[nodiscard]] Pass pass_of(const UnitState& state) const {
    return state.training == Training::forward || state.training == Training::idle ? Pass::forward : Pass::backward;
  }
  UnitState& state(UnitId unit) { return states_[unit.value]; }
  [[nodiscard]] const UnitPlan& plan(UnitId unit) const { return plans_[unit.value]; }

  const Settings& settings_;
  const std::vector<UnitPlan>& plans_;
  Issuer& issuer_;
  std::vector<UnitState> states_;
  std::vector<UnitId> post_forward_order_;
  std::optional<GatherSlot> gather_slot_;
  std::optional<ReduceSlot> reduce_slot_;
  std::optional<EventId> post_optimizer_event_;
  bool sync_ = true;
  bool in_backward_ = false;
};

}  // namespace foreshard
