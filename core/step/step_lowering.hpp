// What the ops of a step become on a Device. The schedule is the same for every program; PyTorch's and foreshard's own
// differ in how many kernels and copies they launch for one op of it.
//
// Who: the runner and StepBackend call it in host order; PytorchLowering and ForeshardLowering implement it. One is
// made a run, by make_lowering().
#pragma once

#include <memory>

#include "core/fsdp/fully_shard.hpp"
#include "core/step/op_emitter.hpp"
#include "core/step/parameter_table.hpp"
#include "core/step/rank_mesh.hpp"
#include "core/step/section_costs.hpp"
#include "core/step/step_memory.hpp"
#include "core/step/step_runner.hpp"
#include "core/step/step_streams.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

/// What a lowering works with; all of it outlives the lowering. `fsdp` may be constructed after it.
struct LoweringContext {
  const Workload& workload;
  const Settings& settings;
  const std::vector<UnitPlan>& plans;
  const StepRequest& request;
  const ParameterTable& parameters;
  const RankMesh& mesh;
  StepStreams& streams;
  StepMemory& memory;
  OpEmitter& emitter;
  RunRecorder& recorder;
  const FullyShard& fsdp;
};

class StepLowering {
 public:
  virtual ~StepLowering() = default;

  // The user's program.
  /// Setup (−1) or the next step begins.
  virtual void begin_program(std::int32_t step, const Program& program) = 0;
  /// Before the runner acts on a hook of the program.
  virtual void on_hook(Hook hook) = 0;
  /// A block was allocated for this op of the program, on this stream.
  virtual void allocated(const Op& op, BlockHandle block, StreamId on) = 0;
  virtual void kernel(const Op& op, StreamId on) = 0;

  // FSDP2's part, as FsdpBackend has it.
  virtual void begin_section(Section section, ParamGroupId group, Pass pass) = 0;
  virtual void issue(const FsdpOp& op, StreamRole stream) = 0;
  virtual void end_section() = 0;

  /// optimizer.step(): its allocations, frees and kernels.
  virtual void optimizer_step(std::int32_t step) = 0;

  /// optimizer.zero_grad(set_to_none=False) of gradients that are there.
  virtual void zero_gradients() = 0;

  /// FSDP sections without a captured cost.
  [[nodiscard]] virtual std::uint64_t sections_missing() const = 0;
};

/// Whether foreshard's own program runs: asked for, of a workload that says what its kernels compute (computes()), with
/// shards on the device. Else PyTorch's ops stand in.
[[nodiscard]] bool issues_own_program(const Workload& workload, const Settings& settings, Lowering asked);

/// By issues_own_program() of the request's lowering.
[[nodiscard]] std::unique_ptr<StepLowering> make_lowering(const LoweringContext& context);

}  // namespace foreshard
