// What launches compute: the tape's part that binds tensors as operands (core/kernel/computation.hpp).
#include <algorithm>

#include "core/base/check.hpp"
#include "core/models/tape.hpp"

namespace foreshard::model {
namespace {

bool elementwise(Function function) {
  return function >= Function::fill && function <= Function::dropout_backward;
}

/// The tensor's memory as `shape`: dimensions of size 1, and those that it lacks in front, are read over and over.
TensorView expanded(const TensorImpl& x, const Shape& shape) {
  TensorView view;
  view.offset = x.offset;
  view.dtype = x.dtype;
  view.shape = shape;
  view.strides.assign(shape.size(), 0);
  FORESHARD_CHECK(x.shape.size() <= shape.size(), "an operand has no more dimensions than the output");
  const std::size_t lacking = shape.size() - x.shape.size();
  for (std::size_t i = 0; i < x.shape.size(); ++i)
    if (x.shape[i] == shape[lacking + i]) view.strides[lacking + i] = x.strides[i];
  return view;
}

Operand memory_of(const TensorImpl& x) {
  return x.storage ? Operand{Operand::Kind::tensor, x.storage->id().value} : x.elsewhere;
}

bool launches(const Op& op) {
  return op.kind == OpKind::kernel || op.kind == OpKind::copy;
}

}  // namespace

void Tape::write_computation(Computation what, std::initializer_list<const TensorImpl*> operands) {
  FORESHARD_CHECK(!ops_.empty() && launches(ops_.back()), "a computation belongs to the launch before it");
  const bool expands = elementwise(what.function);
  ProgramComputation made;
  for (const TensorImpl* x : operands) {
    if (x == nullptr) {
      what.operands.emplace_back().absent = true;
      made.where.emplace_back();
      continue;
    }
    what.operands.push_back(expanded(*x, expands ? (*operands.begin())->shape : x->shape));
    made.where.push_back(memory_of(*x));
    FORESHARD_CHECK(made.where.back().kind != Operand::Kind::none, "an operand lies in memory that is known");
  }
  made.computation = std::move(what);
  ops_.back().computation = static_cast<std::uint32_t>(computations_.size());
  computations_.push_back(std::move(made));
}

void Tape::computes(const Computation& what, const Tensors& operands) {
  if (!options_.computations) return;
  computes(what);
  ProgramComputation& made = computations_.back();
  for (const Tensor& x : operands) {
    made.computation.operands.push_back(expanded(*x, x->shape));
    made.where.push_back(memory_of(*x));
  }
}

void Tape::computes_sum(const Tensor& out, const Tensor& x, double alpha) {
  if (!options_.computations) return;
  Shape shape(x->shape.size(), 1);
  Shape strides(x->shape.size(), 1);
  const std::size_t lacking = shape.size() - out->shape.size();
  std::copy(out->shape.begin(), out->shape.end(), shape.begin() + static_cast<std::ptrdiff_t>(lacking));
  std::copy(out->strides.begin(), out->strides.end(), strides.begin() + static_cast<std::ptrdiff_t>(lacking));
  const Tensor whole = alias(out, std::move(shape), std::move(strides), false);
  computes({.function = Function::sum_to, .alpha = alpha}, whole, x);
}

void Tape::included() {
  if (!options_.computations) return;
  if (included_ == kNoComputation) {
    included_ = static_cast<std::uint32_t>(computations_.size());
    computations_.emplace_back();
  }
  ops_.back().computation = included_;
}

/// All or nothing: a step of which one launch is unknown has no results.
void Tape::write_computations(Program& program) {
  const auto unknown = std::find_if(program.ops.begin(), program.ops.end(),
                                    [](const Op& op) { return launches(op) && op.computation == kNoComputation; });
  if (unknown == program.ops.end()) {
    program.computations = std::move(computations_);
    return;
  }
  program.uncomputed = unknown->label;
  for (Op& op : program.ops) op.computation = kNoComputation;
}

}  // namespace foreshard::model
