// Where everything lies that a step computes on: tensors of the program, shards, FSDP2's buffers, gradients, states.
//
// Who: core/step's runner tells it each address and asks it for what the device is to compute, when the device runs
// real work (StepRequest::bind). One object a run; not thread-safe. Knows nothing of time.
//
// Content rules (PyTorch 2.11): shards are dim-0 chunks, padded (FSDPParam._init_sharded_param); a gather's block holds
// each rank's cast shards one behind the other (foreach_all_gather); a reduce-scatter's input holds, for each rank, its
// part of every gradient (chunk_cat); the reduced output is that rank's part of each, and becomes .grad.
#pragma once

#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "core/fsdp/issuer.hpp"
#include "core/fsdp/unit_plan.hpp"
#include "core/optimizer/optimizer_passes.hpp"
#include "core/optimizer/optimizer_state.hpp"
#include "core/step/values.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

/// A computation with its addresses, by operand. `computation` is valid until the next call of the object that gave it.
struct BoundComputation {
  const Computation* computation = nullptr;
  std::vector<Address> addresses;
};

/// One launch of the optimizer's step.
struct OptimizerCall {
  const OptimizerPass* pass = nullptr;
  Bytes bytes = 0;  ///< read and written
  BoundComputation bound;
};

class Bindings {
 public:
  /// All references must outlive this. `rank` is the global rank of this process.
  Bindings(const Workload& workload, const Settings& settings, const std::vector<UnitPlan>& plans, std::uint32_t rank,
           double learning_rate);

  /// Whether kernels have real operands; else only collectives have.
  [[nodiscard]] bool computing() const { return computing_; }
  [[nodiscard]] ShardGroup group() const { return group_; }
  /// Global ranks of a communicator, in its order.
  [[nodiscard]] std::vector<std::uint32_t> members(CommunicatorRole role, std::uint32_t post_forward_ranks) const;

  // What lies where. Setup is step −1.
  void begin_program(std::int32_t step, const Program& program);
  void set_microbatch(std::uint32_t index) { microbatch_ = index; }
  void set_tensor(TensorId tensor, Address address) { tensors_[tensor.value] = address; }
  void set_gradient(ParameterId parameter, Address address) { parameters_[parameter.value].gradient = address; }
  void drop_gradient(ParameterId parameter) { parameters_[parameter.value].has_gradient = false; }
  void keep_gradient(ParameterId parameter) { parameters_[parameter.value].has_gradient = true; }
  /// Of optimizer states, and of the step's temporaries.
  void set_state(ParameterId parameter, OptimizerSlot slot, Address address);
  /// What has to run on the buffer's stream at once: casts and copies whose source may be freed before their section
  /// ends.
  [[nodiscard]] std::optional<BoundComputation> set_buffer(BufferRef buffer, const BufferRequest& request,
                                                           Address address);
  /// Before a buffer is freed: a gradient that is added to the one of an earlier backward.
  [[nodiscard]] std::optional<BoundComputation> drop_buffer(BufferRef buffer);

  // What to compute.
  [[nodiscard]] BoundComputation bind(const ProgramComputation& computation);
  /// The fill of a shard with its initial value: normal of stream i, where i is its place in model.parameters().
  [[nodiscard]] BoundComputation initial_shard(ParameterId parameter, Address address);
  [[nodiscard]] BoundComputation zero(Address address, std::uint64_t numel, DType dtype);
  /// Everything that `role` stands for in a unit's section; empty where there is nothing to compute.
  [[nodiscard]] std::vector<BoundComputation> section(SectionRole role, UnitId unit);
  /// Begins the optimizer's step number `step` (from 1) of every parameter that has a gradient: how many launches it
  /// has, the ones that a plan prices (optimizer_launches).
  [[nodiscard]] std::size_t begin_optimizer(std::int32_t step);
  /// Launch `index` of that step, on the memory that its tensors have now.
  [[nodiscard]] OptimizerCall optimizer(std::size_t index);
  /// How many of the launches come no later than the last on this parameter; 0 where none is on it.
  [[nodiscard]] std::size_t optimizer_until(ParameterId parameter) const { return optimizer_until_[parameter.value]; }
  /// Puts in the addresses, dtype and reduction.
  void bind(CollectiveWork& work, CommunicatorRole role, UnitId unit) const;
  [[nodiscard]] std::vector<ShardedGradient> sharded_gradients() const;
  [[nodiscard]] std::optional<Address> loss(const Program& program) const;

 private:
  struct ParameterPlace {
    const Parameter* parameter = nullptr;
    UnitId unit;
    std::size_t index = 0;    ///< in its unit
    std::uint32_t place = 0;  ///< in model.parameters(); its initial values' stream too
    DType compute = DType::float32;
    DType reduce = DType::float32;
    Address shard = 0;
    Address unsharded = 0;
    Address gradient = 0;  ///< autograd's, kept after it was freed
    Address accumulated = 0;
    Address clone = 0;
    Address exp_avg = 0;
    Address exp_avg_sq = 0;
    Address sqrt = 0;         ///< of this step
    Address denominator = 0;  ///< of this step
    bool has_gradient = false;
    std::optional<std::uint64_t> reduced_at;  ///< element in the unit's sharded gradients
  };
  struct UnitPlace {
    Address gather = 0;
    bool small = false;  ///< the pending gather is over the post-forward group
    Address reduce_input = 0;
    DType sent = DType::float32;  ///< of its elements
    Address reduce_output = 0;
    Address cast_output = 0;
    BufferRef sharded;  ///< the buffer behind every .grad
    Address sharded_address = 0;
  };
  struct BufferPlace {
    BufferRequest request;
    Address address = 0;
  };
  /// A launch of the optimizer without addresses. What stays the same from step to step.
  struct OptimizerTemplate {
    const OptimizerPass* pass = nullptr;
    Bytes bytes = 0;
    Computation computation;
    std::vector<std::pair<OptimizerTensor, std::size_t>> from;  ///< by operand: its place among the gradients
  };
  using Key = std::tuple<UnitId, Function, std::vector<bool>>;

  [[nodiscard]] const std::vector<ParameterPlan>& plan_of(UnitId unit) const { return plans_[unit.value].parameters; }
  [[nodiscard]] std::uint64_t padded(const ParameterPlace& place) const;
  [[nodiscard]] std::uint64_t local(const ParameterPlace& place) const;
  [[nodiscard]] std::uint64_t part_elements(UnitId unit) const;
  [[nodiscard]] DType stored(UnitId unit) const;
  [[nodiscard]] std::vector<BoundComputation> copy_in(UnitId unit);
  [[nodiscard]] std::vector<BoundComputation> copy_out(UnitId unit);
  [[nodiscard]] std::vector<BoundComputation> chunk_cat(UnitId unit);
  [[nodiscard]] std::vector<BoundComputation> add_gradients(UnitId unit);
  [[nodiscard]] BoundComputation convert(Address to, DType to_dtype, Address from, DType from_dtype,
                                         std::uint64_t numel);
  void plan_optimizer();
  [[nodiscard]] Address optimizer_address(OptimizerTensor tensor, const ShardedGradient& gradient) const;
  [[nodiscard]] const Computation* keep(Computation computation);

  const Workload& workload_;
  const Settings& settings_;
  const std::vector<UnitPlan>& plans_;
  ShardGroup group_;
  std::uint32_t rank_;
  double learning_rate_;
  bool computing_;
  std::int32_t step_ = -1;
  std::uint32_t microbatch_ = 0;
  std::vector<ParameterPlace> parameters_;  // by ParameterId
  std::vector<UnitPlace> units_;            // by UnitId
  std::vector<BufferPlace> buffers_;        // by BufferRef
  std::vector<Address> tensors_;            // of the running program
  std::vector<Address> setup_tensors_;
  std::map<Key, Computation> cached_;  // shapes of a unit's section, which never change
  std::vector<OptimizerTemplate> optimizer_;
  std::vector<ShardedGradient> optimized_;    // what optimizer_ is for, with this step's addresses
  std::vector<std::size_t> optimizer_until_;  // by ParameterId
  std::int32_t optimizer_step_ = 0;
  std::vector<Computation> made_;  // of the last call
};

}  // namespace foreshard
