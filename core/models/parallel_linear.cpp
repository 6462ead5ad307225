#include "core/models/parallel_linear.hpp"

#include "core/workload/pytorch_costs.hpp"

namespace foreshard::model {
namespace {

/// DTensor.from_local(x, mesh, [Replicate()], run_check=False).
Tensor replicated(Tape& tape, const Tensor& x) {
  const auto back = [&tape](Node&, const Tensors& gradients) {
    tape.spend(pytorch_costs::kParallelLinearHost.time());
    return Tensors{tape.all_reduce(gradients[0])};
  };
  Tensor out = tape.alias(x, x->shape, x->strides);
  Tape::attach(tape.record({x}, back), out);
  return out;
}

/// redistribute(placements=[Replicate()]) of a Partial, and to_local().
Tensor summed(Tape& tape, Tensor& partial) {
  const auto back = [&tape](Node&, const Tensors& gradients) {
    tape.spend(pytorch_costs::kParallelLinearHost.time());
    return gradients;
  };
  const NodePtr node = tape.record({partial}, back);
  Tensor out = tape.all_reduce(partial);
  partial.reset();
  Tape::attach(node, out);
  return out;
}

}  // namespace

Tensor column_linear(Tape& tape, const Tensor& x, const Tensor& weight) {
  tape.spend(HostCall::module);
  tape.spend(pytorch_costs::kParallelLinearHost.time());
  return linear(tape, replicated(tape, x), weight);
}

Tensor row_linear(Tape& tape, const Tensor& x, const Tensor& weight) {
  tape.spend(HostCall::module);
  tape.spend(pytorch_costs::kParallelLinearHost.time());
  Tensor partial = linear(tape, x, weight);
  return summed(tape, partial);
}

}  // namespace foreshard::model
