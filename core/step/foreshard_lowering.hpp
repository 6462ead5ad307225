// Foreshard's own program: what `foreshard run` issues, with real operands. One kernel where eager PyTorch launches
// several, and no metadata copies: what they carry is among the kernel's parameters.
//
// The host spends what the sections' items cost PyTorch's host where the device's host takes no time of its own, and a
// plan prices each kernel as the item it stands for.
#pragma once

#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/step/foreshard_optimizer.hpp"
#include "core/step/fsdp_collectives.hpp"
#include "core/step/fsdp_kernels.hpp"
#include "core/step/optimizer_blocks.hpp"
#include "core/step/section_player.hpp"
#include "core/step/step_lowering.hpp"

namespace foreshard {

class ForeshardLowering final : public StepLowering {
 public:
  /// Requires computes(context.workload), and shards on the device.
  explicit ForeshardLowering(const LoweringContext& context);

  void begin_program(std::int32_t step, const Program& program) override;
  void on_hook(Hook hook) override;
  void allocated(const Op& op, BlockHandle block, StreamId on) override;
  void kernel(const Op& op, StreamId on) override;
  void begin_section(Section section, ParamGroupId group, Pass pass) override;
  void issue(const FsdpOp& op, StreamRole stream) override;
  void end_section() override { player_.end(); }
  void optimizer_step(std::int32_t step) override;
  void zero_gradients() override;
  [[nodiscard]] std::uint64_t sections_missing() const override { return player_.missing(); }

 private:
  void compute(const ProgramKernel& what, const KernelWork& work, StreamId on);
  void compute_whole(KernelOp op, double alpha, std::vector<std::int64_t> integers, Address address,
                     std::uint64_t numel, DType dtype, StreamId on);
  [[nodiscard]] Address address_of(const Operand& operand) const;
  [[nodiscard]] std::vector<ShardedGradient> sharded_gradients() const;
  void add_sharded_gradients(ParamGroupId group, std::vector<ShardedGradient>& out) const;
  void read_loss();
  /// Whether the loss is still there behind the passes of the running program.
  [[nodiscard]] bool loss_outlives_passes() const;
  /// The optimizer of all parameters, or with Settings::optimizer_overlap of one group's.
  struct OptimizerPart {
    OptimizerBlocks blocks;
    ForeshardOptimizer launches;
    StreamId on = kComputeStream;
    bool stepped = false;  ///< its states are made
  };
  [[nodiscard]] OptimizerPart& optimizer_part(std::optional<ParamGroupId> group);
  /// Where the optimizer writes this parameter for the all-gather; 0: nowhere.
  [[nodiscard]] Address cast_of(ParameterId parameter) const;
  /// How many launches the step of these has.
  std::size_t step_optimizer(OptimizerPart& part, std::vector<ShardedGradient> gradients);
  void spend_optimizer(std::size_t parameters);
  void launch_optimizer(OptimizerPart& part, std::size_t& issued, std::size_t until);
  void set_optimizer_memory(const OptimizerPart& part, const OptimizerEvent& event, BlockHandle block);

  LoweringContext context_;
  ParameterMemories parameters_;
  SectionPlayer player_;
  FsdpCollectives collectives_;
  FsdpKernels kernels_;
  std::map<std::pair<UnitId, std::uint32_t>, OptimizerPart> optimizer_parts_;  // made when first stepped
  const Program* program_ = nullptr;                                           // the one that runs
  std::int32_t step_ = -1;
  std::uint32_t microbatches_ = 0;      // begun in this step
  bool loss_was_read_ = false;          // in this step
  std::vector<Address> tensors_;        // of the running program, by TensorId; a replay has those of the capture
  std::vector<Address> setup_tensors_;  // once setup is over
};

}  // namespace foreshard
