#include "core/kernel/kernel_cost.hpp"
#include "core/models/ops.hpp"
#include "core/models/radix_sort.hpp"

namespace foreshard::model {
namespace {

/// Of the many launches of embedding's backward: one that only prepares.
void launch_helper(Tape& tape, std::string_view label, Bytes bytes) {
  tape.launch_fused(Launch::elementwise, label, bytes_cost(bytes));
}

// ATen/native/cuda/Embedding.cu, EmbeddingBackwardKernel.cu (PyTorch 2.11) and CUB's temporary storage.
constexpr std::uint64_t kSortAbove = 3072;    ///< indices; fewer are added feature by feature
constexpr std::uint64_t kRowsPerThread = 10;  ///< NROWS_PER_THREAD
constexpr std::uint64_t kSortTile = 5632;  ///< DeviceRadixSort onesweep of 8-byte keys and values on sm90; of rows 4096

constexpr Bytes kUniqueWorkspace = 1279;  ///< DeviceScan and UniqueByKey: four parts of 256 and the base's slack

/// Many indices: sorted, then partial sums by segment (embedding_backward_cuda_kernel).
Tensor backward_by_segments(Tape& tape, const Tensor& gradient, const Tensor& indices, const Shape& weight) {
  const DType dtype = gradient->dtype;
  const std::uint64_t n = indices->numel();
  const Bytes ids = n * itemsize(DType::int64);
  const Tensor sorted = tape.workspace(ids);
  const Tensor original = tape.workspace(ids);
  {
    const Tensor range = tape.workspace(ids);
    launch_helper(tape, "aten::arange", ids);
    const RadixSort sort{.keys = n, .tile = kSortTile};
    const Tensor workspace = tape.workspace(radix_sort_workspace(sort));
    for (std::uint64_t pass = 0; pass < sort.passes() + 2; ++pass) launch_helper(tape, "cub::DeviceRadixSort", 4 * ids);
  }
  Tensor out = tape.empty(weight, dtype);
  launch_helper(tape, "aten::zero_", out->bytes());
  const Tensor segments = tape.workspace(ids);
  const Tensor count = tape.workspace(itemsize(DType::int64));
  {
    const Tensor unused = tape.workspace(ids);
    const Tensor unique = tape.workspace(kUniqueWorkspace);
    launch_helper(tape, "cub::UniqueByKey", 3 * ids);
    launch_helper(tape, "cub::UniqueByKey", ids);
  }
  const Tensor partials = tape.workspace(ids);
  launch_helper(tape, "krn_partials_per_segment", 2 * ids);
  const Tensor offsets = tape.workspace(ids);
  {
    const Tensor scan = tape.workspace(kUniqueWorkspace);
    launch_helper(tape, "cub::DeviceScan", ids);
    launch_helper(tape, "cub::DeviceScan", 2 * ids);
  }
  const Tensor partial_count = tape.workspace(itemsize(DType::int64));
  launch_helper(tape, "compute_num_of_partial_segments", kCubAlignment);
  const std::uint64_t most = n / kRowsPerThread + std::min(n, weight[0]);
  const Tensor partial_offsets = tape.workspace(most * itemsize(DType::int64));
  launch_helper(tape, "krn_partial_segment_offset", 3 * ids);
  const Tensor sums = tape.empty({most, weight[1]}, DType::float32);
  const std::uint64_t half = n * weight[1] / 2;  // of the elements: each of two kernels goes over all of them
  tape.launch_fused(Launch::elementwise, "compute_grad_weight",
                    bytes_cost(gradient->bytes() + n * weight[1] * 4, MemoryAccess::scatter, half, dtype));
  const KernelWork scattered = bytes_cost(n * weight[1] * (4 + itemsize(dtype)), MemoryAccess::scatter, half, dtype);
  const CostOverride second{"the second of two kernels: float32 sums in, rows out", scattered.bytes, scattered.math};
  tape.launch_priced("sum_and_scatter", {.op = KernelOp::embedding_backward}, second, out, gradient, indices);
  return out;
}

Tensor backward_by_feature(Tape& tape, const Tensor& gradient, const Tensor& indices, const Shape& weight) {
  const DType dtype = gradient->dtype;
  Tensor out = tape.empty(weight, dtype);
  launch_helper(tape, "aten::zero_", out->bytes());
  tape.launch("embedding_backward_feature_kernel", KernelOp::embedding_backward, out, gradient, indices);
  return out;
}

}  // namespace

Tensor embedding(Tape& tape, const Tensor& weight, const Tensor& indices, bool sorts) {
  const auto back = [&tape, sorts, shape = weight->shape](Node& node, const Tensors& gradients) {
    const Tensor ids = tape.unpack(node.saved[0]);
    const Tensor gradient = contiguous(tape, gradients[0]);
    return Tensors{!sorts || ids->numel() <= kSortAbove ? backward_by_feature(tape, gradient, ids, shape)
                                                        : backward_by_segments(tape, gradient, ids, shape)};
  };
  const NodePtr node = tape.record({weight}, back);
  tape.save(node, indices);
  Shape shape = indices->shape;
  shape.push_back(weight->shape[1]);
  Tensor out = tape.empty(shape, weight->dtype);
  tape.launch("aten::embedding", KernelOp::embedding, out, weight, indices);
  Tape::attach(node, out);
  return out;
}

}  // namespace foreshard::model
