// What it costs the host to issue things, in eager PyTorch or in `foreshard run`: one time for each kind of call.
//
// Who: a machine profile holds them (sim/machine, "/host/calls"); the generators of core/models put them
// before each op. Host times include the Python, dispatcher and autograd work around the call, without a profiler.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/base/quantity.hpp"
#include "core/device/lowering.hpp"

namespace foreshard {

/// Kinds of host work. "launch" kinds end with one kernel launch; the others launch nothing by themselves.
enum class HostCall : std::uint8_t {
  module = 0,                ///< nn.Module.__call__ and the forward frame of one submodule
  view = 1,                  ///< an op without a kernel: view, transpose, chunk, a Python-level if
  elementwise = 2,           ///< forward: launch of an elementwise op, copy or cast
  reduction = 3,             ///< forward: launch of a norm, mean, softmax, cross-entropy piece
  gemm = 4,                  ///< forward: memset and launch of a GEMM
  attention = 5,             ///< forward: SDPA's dispatch and launch
  embedding = 6,             ///< forward: embedding lookup
  random = 7,                ///< launch of randint, randn
  backward_elementwise = 8,  ///< autograd thread: node, launch
  backward_reduction = 9,
  backward_gemm = 10,
  backward_attention = 11,
  backward_view = 12,    ///< autograd node without a kernel
  accumulate_grad = 13,  ///< AccumulateGrad of one parameter
  zero_grad = 14,        ///< per parameter
  step_begin = 15,       ///< Python between the steps' parts: loop, record_function
  forward_root = 16,     ///< FSDP: root pre-forward, per step
  pre_forward = 17,      ///< FSDP: a unit's pre-forward hook without its sections
  post_forward = 18,
  pre_backward = 19,
  post_backward = 20,         ///< without its sections
  backward_final = 21,        ///< root's post-backward callback
  all_gather = 22,            ///< section FSDP::all_gather: fixed part
  all_gather_parameter = 23,  ///< … for each parameter
  copy_out = 24,              ///< section FSDP::all_gather_copy_out: fixed part
  copy_out_parameter = 25,
  reduce = 26,  ///< section FSDP::post_backward_reduce: fixed part
  reduce_parameter = 27,
  accumulate = 28,           ///< section FSDP::post_backward_accumulate
  reshard = 29,              ///< section FSDP::post_backward_reshard
  optimizer_begin = 30,      ///< optimizer.step() until its first launch
  optimizer_launch = 31,     ///< each multi-tensor launch
  optimizer_parameter = 32,  ///< per parameter: state lookup, grouping
  all_to_all = 33,           ///< forward: a functional collective (torch.distributed._functional_collectives), issued
  all_to_all_wait = 34,  ///< forward: AsyncCollectiveTensor's wait_tensor, by itself or in the op that uses it first
  backward_all_to_all = 35,  ///< autograd node of such a collective: issue and wait_tensor
};
inline constexpr std::size_t kHostCalls = 36;

/// The optimizer on the CPU (CPUOffloadPolicy): time for a million elements of this rank's shards.
struct CpuOptimizer {
  Nanoseconds adam;           ///< torch.optim.Adam, one tensor after another
  Nanoseconds sgd;            ///< torch.optim.SGD without momentum
  std::uint32_t threads = 0;  ///< of the rank's process (OMP_NUM_THREADS) that this is; 0: not measured
  double one_thread = 0;      ///< times as long with one, which is what torchrun sets by itself
};

struct HostCosts {
  std::array<Nanoseconds, kHostCalls> time{};
  CpuOptimizer cpu_optimizer;
  Lowering program = Lowering::pytorch;  ///< whose calls were measured: a fact, which chooses nothing
  [[nodiscard]] Nanoseconds operator[](HostCall call) const { return time[static_cast<std::size_t>(call)]; }
};

/// Names in a profile's JSON, by HostCall: "module", "view", …
[[nodiscard]] std::string_view name(HostCall call);

}  // namespace foreshard
