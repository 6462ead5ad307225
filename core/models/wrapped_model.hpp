// What FSDP2 adds around a family's modules in a step's program: the hooks' places and the casts of forward inputs
// (fsdp2 semantics 1.2, 2.2; torch/distributed/fsdp/_fully_shard/_fsdp_state.py, PyTorch 2.11).
//
// Who: the families. One object for each microbatch's forward and backward; not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "core/models/tape.hpp"
#include "core/models/trained_model.hpp"
#include "core/settings/settings.hpp"

namespace foreshard::model {

class WrappedModel {
 public:
  /// `model.units` with `settings.units_per_group` blocks each, root first; `blocks` in all.
  /// `from_setup`: what setup handed over; kept by reference.
  WrappedModel(Tape& tape, const Settings& settings, const TrainedModel& model, std::uint32_t blocks,
               const std::vector<TensorId>& from_setup);

  /// The unsharded parameter of that number among the family's own: of the policy's param_dtype, as stored, or in
  /// float8 as gathered.
  [[nodiscard]] const Tensor& parameter(std::size_t id) const { return parameters_[id]; }
  /// Number of the root's parameters, as the family has them: the blocks' follow, block by block.
  [[nodiscard]] std::size_t root_parameters() const { return root_parameters_; }
  [[nodiscard]] TensorId from_setup(std::size_t number) const { return from_setup_[number]; }
  [[nodiscard]] Tape& tape() const { return tape_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }

  /// The root's pre-forward: casts floating inputs in place to param_dtype.
  void root_pre_forward(const std::vector<Tensor*>& inputs);
  void root_post_forward(const Tensor& output);
  /// Around block `index`: the wrapper's hooks, checkpointing if the settings say so, `forward` inside.
  /// `inputs` are all tensors that the block's forward takes; `forward` reads them from there.
  Tensor run_block(std::uint32_t index, Tensors inputs, const std::function<Tensor(const Tensors&)>& forward);
  /// … of several results. Their gradients come together; the pre-backward hook is at the last one's. `forward` may
  /// drop the inputs that it needs no longer.
  Tensors run_block_of_many(std::uint32_t index, Tensors inputs, const std::function<Tensors(Tensors&)>& forward);
  /// The experts of block `index`; where they are a unit of their own inside the block's, the wrapper's hooks around
  /// them.
  Tensor run_experts(std::uint32_t index, Tensors inputs, const std::function<Tensor(const Tensors&)>& forward);

 private:
  [[nodiscard]] UnitId unit_of(std::uint32_t block) const;
  void enter(UnitId unit, Tensors& inputs);
  void leave(UnitId unit, const Tensor& output);
  void cast_inputs(UnitId unit, const std::vector<Tensor*>& inputs);
  void register_post_backward(UnitId unit, const std::vector<Tensor*>& inputs);
  void register_pre_backward(UnitId unit, const Tensor& output);

  Tape& tape_;
  const Settings& settings_;
  const std::vector<TensorId>& from_setup_;
  std::uint32_t blocks_;
  std::size_t root_parameters_ = 0;
  std::vector<UnitId> blocks_of_experts_;  // units of blocks whose experts are the unit behind; else empty
  std::vector<Tensor> parameters_;
};

}  // namespace foreshard::model
