#include "core/models/inductor_buffers.hpp"

namespace foreshard::model {
namespace {

/// A tensor of no memory, which stands for a buffer while a graph is planned.
Tensor planned(const Shape& shape, DType dtype) {
  return Tape::elsewhere({}, shape, dtype);
}

}  // namespace

Tensor InductorBuffers::make(const Shape& shape, DType dtype) {
  Tensor wanted = planned(shape, dtype);
  const auto found = pool_.find({dtype, wanted->bytes()});
  if (found == pool_.end() || found->second.empty()) return planning_ ? wanted : tape_.empty(shape, dtype);
  Free taken = std::move(found->second.back());
  found->second.pop_back();
  if (!planning_) return tape_.alias(taken.buffer, shape, wanted->strides, false);
  reused_[taken.number] = true;
  return wanted;
}

void InductorBuffers::done(Tensor& buffer) {
  const std::size_t number = frees_++;
  const Key key{buffer->dtype, buffer->bytes()};
  if (planning_) {
    reused_.push_back(false);
    pool_[key].push_back({number, nullptr});
  } else if (reused_[number]) {
    pool_[key].push_back({number, buffer});
  }
  if (!planning_) buffer.reset();
}

}  // namespace foreshard::model
