// Eager PyTorch's program: every kernel and copy that a capture shows, or that generated costs list for PyTorch.
#pragma once

#include "core/step/fsdp_collectives.hpp"
#include "core/step/optimizer_blocks.hpp"
#include "core/step/section_player.hpp"
#include "core/step/step_lowering.hpp"

namespace foreshard {

class PytorchLowering final : public StepLowering {
 public:
  explicit PytorchLowering(const LoweringContext& context);

  void begin_program(std::int32_t, const Program&) override {}
  void on_hook(Hook) override {}
  void allocated(const Op&, BlockHandle, StreamId) override {}
  void kernel(const Op& op, StreamId on) override;
  void begin_section(Section section, ParamGroupId group, Pass pass) override { player_.begin(section, group, pass); }
  void issue(const FsdpOp& op, StreamRole stream) override;
  void end_section() override;
  void optimizer_step(std::int32_t step) override;
  void zero_gradients() override;
  [[nodiscard]] std::uint64_t sections_missing() const override { return player_.missing(); }

 private:
  StepStreams& streams_;
  OpEmitter& emitter_;
  SectionPlayer player_;
  FsdpCollectives collectives_;
  OptimizerBlocks optimizer_;
};

}  // namespace foreshard
