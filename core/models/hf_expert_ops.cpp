#include "core/models/hf_expert_ops.hpp"

#include <algorithm>
#include <bit>

#include "core/base/check.hpp"
#include "core/kernel/kernel_cost.hpp"
#include "core/models/radix_sort.hpp"

namespace foreshard::model {
namespace {

// GroupMM.cu, bf16bf16_grouped_gemm_impl_sm90: of each group three pointers, three strides and the problem's shape;
// CUTLASS' tensor maps, one set a multiprocessor.
constexpr Bytes kArgumentsPerGroup = 60;
constexpr Bytes kTensorMapsPerSm = 512;

/// The same memory under a new node: what an in-place op leaves.
Tensor rebound(Tape& tape, const Tensor& x, const NodePtr& node) {
  Tensor out = tape.alias(x, x->shape, x->strides, false);
  Tape::attach(node, out);
  return out;
}

Tensor run(Tape& tape, const Tensors& inputs, const Tensor& like, std::string_view label) {
  return run_kernel(tape, inputs, like->shape, like->dtype, label);
}

/// value_selecting_reduction_backward, gather_backward: zeros of the input's size, the gradient scattered in.
Node::Apply scatter_back(Tape& tape, const Shape& shape) {
  return [&tape, shape](Node& node, const Tensors& gradients) {
    const Tensor indices = tape.unpack(node.saved[0]);
    Tensor zeros = run_kernel(tape, {}, shape, gradients[0]->dtype, "aten::zero_");
    tape.launch(Launch::elementwise, "aten::scatter_", bytes_cost(indices->bytes() + 2 * gradients[0]->bytes()));
    return Tensors{zeros};
  };
}

/// x[indices], its kernel alone.
Tensor gather_rows(Tape& tape, const Tensor& x, const Tensor& indices) {
  Shape shape = x->shape;
  shape[0] = indices->numel();
  Tensor out = tape.empty(shape, x->dtype);
  tape.launch(Launch::embedding, "aten::index",
              bytes_cost(indices->bytes() + 2 * out->bytes(), MemoryAccess::gather, out->numel(), out->dtype));
  return out;
}

void run_radix_sort(Tape& tape, const RadixSort& sort) {
  const Tensor workspace = tape.workspace(radix_sort_workspace(sort));
  launch_radix_sort(tape, sort);
}

/// zeros + _index_put_impl_(accumulate, unsafe): the indices are made linear, sorted with their numbers by as many bits
/// as rows need, then rows are added (TensorAdvancedIndexing.cpp, Indexing.cu: index_put_with_sort_kernel).
Tensor add_rows(Tape& tape, const Shape& shape, const Tensor& gradient, std::uint64_t rows) {
  Tensor out = run_kernel(tape, {}, shape, gradient->dtype, "aten::zero_");
  const Bytes ids = rows * itemsize(DType::int64);
  Tensor wrapped = tape.workspace(ids);
  tape.launch(Launch::elementwise, "aten::remainder", bytes_cost(2 * ids));
  const Tensor linear = tape.workspace(ids);
  tape.launch(Launch::elementwise, "aten::mul", bytes_cost(2 * ids));
  wrapped.reset();
  tape.launch(Launch::elementwise, "aten::div_", bytes_cost(2 * ids));
  const Tensor sorted = tape.workspace(ids);
  const Tensor original = tape.workspace(ids);
  {
    const Tensor range = tape.workspace(ids);
    tape.launch(Launch::elementwise, "aten::arange", bytes_cost(ids));
    const std::uint64_t largest = std::max<std::uint64_t>(shape[0], 2) - 1;
    run_radix_sort(tape, {.keys = rows, .bits = static_cast<std::uint32_t>(std::bit_width(largest))});
  }
  // A warp goes along a row element by element: no row is written by two (unlike embedding's backward).
  tape.launch(Launch::elementwise, "indexing_backward_kernel",
              bytes_cost(gradient->bytes() + out->bytes(), MemoryAccess::strided, gradient->numel(), gradient->dtype));
  return out;
}

/// x with zeros where the mask says: an entry of the mask stands for a row, or for an element.
Tensor filled_copy(Tape& tape, const Tensor& x, const Tensor& mask) {
  Tensor out = tape.empty_like(x);
  tape.copy(out, x, "aten::copy_");
  tape.launch(Launch::elementwise, "aten::masked_fill_",
              bytes_cost(mask->bytes() + 2 * out->bytes(), MemoryAccess::strided, out->numel(), out->dtype));
  return out;
}

Node::Apply fill_back(Tape& tape) {
  return [&tape](Node& node, const Tensors& gradients) {
    const Tensor mask = tape.unpack(node.saved[0]);
    return Tensors{filled_copy(tape, gradients[0], mask)};
  };
}

/// One product for all groups of rows; CUTLASS' kernel, not cuBLAS'. Of a weight's gradient the rows are what is added
/// up.
Tensor run_grouped(Tape& tape, const Shape& shape, DType dtype, std::uint64_t groups, const KernelMath& one,
                   GemmUse use) {
  Tensor out = tape.empty(shape, dtype);
  const Tensor arguments = tape.workspace(kArgumentsPerGroup * groups);
  tape.launch(Launch::elementwise, "prepare_grouped_gemm_data", bytes_cost(arguments->bytes()));
  const Tensor maps = tape.workspace(kTensorMapsPerSm * tape.options().sm_count);
  KernelWork cost = gemm_cost(one.m, one.n, one.k, dtype, static_cast<std::uint32_t>(groups), use);
  cost.math.ragged = use == GemmUse::wgrad ? RaggedExtent::k : RaggedExtent::m;
  tape.launch(Launch::gemm, "aten::_grouped_mm", cost);
  return out;
}

}  // namespace

Tensor softmax(Tape& tape, const Tensor& x) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor result = tape.unpack(node.saved[0]);
    Tensor out = tape.empty(result->shape, result->dtype);
    const Tensor product = run(tape, {gradients[0], result}, result, "aten::mul");
    tape.launch(Launch::reduction, "aten::_softmax_backward_data",
                bytes_cost(3 * out->bytes(), MemoryAccess::row, out->numel(), out->dtype));
    return Tensors{out};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = run_kernel(tape, {x}, x->shape, x->dtype, "aten::_softmax", Launch::reduction);
  tape.save(node, out);
  Tape::attach(node, out);
  return out;
}

Chosen topk(Tape& tape, const Tensor& x, std::uint64_t k, bool sorted) {
  const NodePtr node = tape.record({x}, scatter_back(tape, x->shape));
  Shape shape = x->shape;
  shape.back() = k;
  Chosen out{tape.empty(shape, x->dtype), tape.empty(shape, DType::int64)};
  const Bytes chosen = out.values->bytes() + out.indices->bytes();
  tape.launch(Launch::reduction, "aten::topk", bytes_cost(x->bytes() + chosen));
  if (sorted) tape.launch(Launch::reduction, "aten::topk", bytes_cost(2 * chosen));
  tape.save(node, out.indices);
  Tape::attach(node, out.values);
  return out;
}

Tensor gather_last(Tape& tape, const Tensor& x, const Tensor& indices) {
  const NodePtr node = tape.record({x}, scatter_back(tape, x->shape));
  Tensor out = run_kernel(tape, {indices}, indices->shape, x->dtype, "aten::gather");
  tape.save(node, indices);
  Tape::attach(node, out);
  return out;
}

Chosen sort(Tape& tape, const Tensor& x) {
  // Sort.cpp copies what is sorted; Sort.cu numbers it (fill_reverse_indices_kernel).
  Chosen out{tape.empty(x->shape, x->dtype), tape.empty(x->shape, DType::int64)};
  tape.copy(out.values, x, "aten::copy_");
  const Tensor numbers = run_kernel(tape, {}, x->shape, DType::int64, "fill_reverse_indices_kernel");
  run_radix_sort(tape, {.keys = x->numel()});
  return out;
}

Tensor cumsum(Tape& tape, const Tensor& x) {
  Tensor out = tape.empty(x->shape, x->dtype);
  const Tensor workspace = tape.workspace(kScanWorkspace);
  tape.launch(Launch::elementwise, "cub::DeviceScan init", bytes_cost(kScanWorkspace));
  tape.launch(Launch::reduction, "cub::DeviceScan", bytes_cost(x->bytes() + out->bytes()));
  return out;
}

Tensor sum_last(Tape& tape, const Tensor& x) {
  const auto back = [&tape, shape = x->shape](Node&, const Tensors& gradients) {
    return Tensors{expand(tape, gradients[0], shape)};
  };
  const NodePtr node = tape.record({x}, back);
  Shape shape = x->shape;
  shape.back() = 1;
  Tensor out = run_kernel(tape, {x}, shape, x->dtype, "aten::sum", Launch::reduction);
  Tape::attach(node, out);
  return out;
}

Tensor sum_middle(Tape& tape, const Tensor& x) {
  const auto back = [&tape, shape = x->shape](Node&, const Tensors& gradients) {
    return Tensors{expand(tape, unsqueeze(tape, gradients[0], 1), shape)};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = run_kernel(tape, {x}, {x->dim(0), x->dim(2)}, x->dtype, "aten::sum", Launch::reduction);
  Tape::attach(node, out);
  return out;
}

Tensor divide_in_place(Tape& tape, const Tensor& a, const Tensor& b) {
  // saved: other, a copy of self; derivatives: other (-grad * ((self / other) / other)), then self (grad / other).
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    const Tensor other = tape.unpack(node.saved[0]);
    const Tensor self = tape.unpack(node.saved[1]);
    Tensors out(2);
    {
      const Tensor once = run(tape, {self, other}, self, "aten::div");
      const Tensor twice = run(tape, {once, other}, self, "aten::div");
      const Tensor negated = run(tape, {gradients[0]}, self, "aten::neg");
      out[1] = run(tape, {negated, twice}, self, "aten::mul");
    }
    out[0] = run(tape, {gradients[0], other}, self, "aten::div");
    return out;
  };
  const NodePtr node = tape.record({a, b}, back);
  tape.save(node, b);
  if (node) {
    const Tensor before = tape.empty_like(a);
    tape.copy(before, a, "aten::clone");
    tape.save(node, before);
  }
  tape.launch(Launch::elementwise, "aten::div_",
              bytes_cost(2 * a->bytes() + b->bytes(), MemoryAccess::strided, a->numel(), a->dtype));
  return rebound(tape, a, node);
}

Tensor put_rows(Tape& tape, const Tensor& x, const Tensor& indices) {
  const auto back = [&tape](Node& node, const Tensors& gradients) {
    return Tensors{gather_rows(tape, gradients[0], tape.unpack(node.saved[0]))};
  };
  const NodePtr node = tape.record({x}, back);
  tape.save(node, indices);
  Tensor out = tape.empty(x->shape, x->dtype);
  tape.launch(Launch::embedding, "aten::index_put_",
              bytes_cost(indices->bytes() + 2 * out->bytes(), MemoryAccess::gather, out->numel(), out->dtype));
  Tape::attach(node, out);
  return out;
}

Tensor exchange_rows(Tape& tape, const Tensor& x, std::uint64_t rows) {
  const auto back = [&tape, sent = x->dim(0)](Node&, const Tensors& gradients) {
    return Tensors{tape.all_to_all(gradients[0], sent)};
  };
  const NodePtr node = tape.record({x}, back);
  Tensor out = tape.all_to_all(x, rows);
  Tape::attach(node, out);
  return out;
}

Tensor index_rows(Tape& tape, const Tensor& x, const Tensor& indices) {
  const auto back = [&tape, shape = x->shape](Node& node, const Tensors& gradients) {
    const Tensor rows = tape.unpack(node.saved[0]);
    return Tensors{add_rows(tape, shape, gradients[0], rows->numel())};
  };
  const NodePtr node = tape.record({x}, back);
  tape.save(node, indices);
  Tensor out = gather_rows(tape, x, indices);
  Tape::attach(node, out);
  return out;
}

Tensor masked_fill_in_place(Tape& tape, const Tensor& x, const Tensor& mask) {
  const NodePtr node = tape.record({x}, fill_back(tape));
  tape.save(node, mask);
  tape.launch(Launch::elementwise, "aten::masked_fill_",
              bytes_cost(mask->bytes() + 2 * x->bytes(), MemoryAccess::strided, x->numel(), x->dtype));
  return rebound(tape, x, node);
}

Tensor masked_fill(Tape& tape, const Tensor& x, const Tensor& mask) {
  const NodePtr node = tape.record({x}, fill_back(tape));
  tape.save(node, mask);
  Tensor out = filled_copy(tape, x, mask);
  Tape::attach(node, out);
  return out;
}

Tensor grouped_mm(Tape& tape, const Tensor& x, const Tensor& weights, const Tensor& offsets) {
  const std::uint64_t groups = weights->dim(0);
  const std::uint64_t k = weights->dim(1);
  const std::uint64_t n = weights->dim(2);
  const std::uint64_t rows = x->dim(0);
  const std::uint64_t each = ceil_div(rows, groups);
  // derivatives: mat2, then self; the weights' gradient has their memory order (_grouped_mm_mat2_backward).
  const auto back = [&tape, groups, k, n, rows, each](Node& node, const Tensors& gradients) {
    Tensors kept;
    for (Saved& saved : node.saved) kept.push_back(tape.unpack(saved));
    const DType dtype = gradients[0]->dtype;
    Tensors out(2);
    if (node.wants(1)) {
      const Tensor turned =
          run_grouped(tape, {groups, n, k}, dtype, groups, {.m = n, .n = k, .k = each}, GemmUse::wgrad);
      out[1] = transpose(tape, turned, -2, -1);
    }
    if (node.wants(0))
      out[0] = run_grouped(tape, {rows, k}, dtype, groups, {.m = each, .n = k, .k = n}, GemmUse::dgrad);
    return out;
  };
  const NodePtr node = tape.record({x, weights}, back);
  tape.save(node, weights);
  tape.save(node, offsets);
  if (weights->requires_grad) tape.save(node, x);
  Tensor out = run_grouped(tape, {rows, n}, x->dtype, groups, {.m = each, .n = n, .k = k}, GemmUse::forward);
  Tape::attach(node, out);
  return out;
}

}  // namespace foreshard::model
