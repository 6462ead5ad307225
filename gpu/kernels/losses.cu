// Log-softmax, negative log-likelihood and cross-entropy, a block of 1024 threads a row, since a row is a vocabulary.
// The log-sum-exp is made in one pass over the row (each thread's largest value and the sum relative to it, then a
// reduction of the block); exponentials are ex2.approx (fast_exp). cross_entropy makes dlogits and
// each row's loss in one launch; a second one, of one block, takes their mean. Sums are float32 and in a fixed order.
#include "gpu/kernels/losses.hpp"

#include <algorithm>
#include <type_traits>

#include "gpu/kernels/element.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 1024;  // one row a block: a vocabulary is long

struct Rows {
  void* data = nullptr;
  DType dtype = DType::float32;
};

/// log Σ exp of this block's row, read once: each thread keeps its largest value and the sum relative to it.
/// `shared`: two times room for one float a warp.
template <int kWidth, bool kVector>
__device__ inline float row_logsumexp(const Rows& x, std::int64_t row, std::uint32_t columns, float* shared) {
  float largest = -INFINITY;
  float sum = 0;
  const std::uint32_t step = kThreads * kWidth;
#pragma unroll 4
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns; column += step) {
    float v[kWidth];
    element::read_some<kWidth, kVector>(v, x.data, row * columns + column, columns - column, x.dtype, -INFINITY);
    float top = v[0];
#pragma unroll
    for (int k = 1; k < kWidth; ++k) top = fmaxf(top, v[k]);
    if (top > largest) {
      sum *= fast_exp(largest - top);
      largest = top;
    }
    if (largest == -INFINITY) continue;
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += fast_exp(v[k] - largest);
  }
  const float top = block_max(largest, shared);
  const float total = block_sum(largest == -INFINITY ? 0.0F : sum * fast_exp(largest - top), shared + 32);
  return top + logf(total);
}

template <int kWidth, bool kVector>
__global__ void __launch_bounds__(kThreads) log_softmax(Rows out, Rows x, std::uint32_t columns) {
  __shared__ float shared[64];
  const std::int64_t row = blockIdx.x;
  const float norm = row_logsumexp<kWidth, kVector>(x, row, columns, shared);
#pragma unroll 2
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns; column += kThreads * kWidth) {
    float v[kWidth];
    element::read_some<kWidth, kVector>(v, x.data, row * columns + column, columns - column, x.dtype, 0);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v[k] -= norm;
    element::write_some<kWidth, kVector>(out.data, row * columns + column, columns - column, out.dtype, v);
  }
}

template <int kWidth, bool kVector>
__global__ void __launch_bounds__(kThreads) log_softmax_backward(Rows dx, Rows dy, Rows out, std::uint32_t columns) {
  __shared__ float shared[64];
  const std::int64_t row = blockIdx.x;
  float sum = 0;
#pragma unroll 2
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns; column += kThreads * kWidth) {
    float v[kWidth];
    element::read_some<kWidth, kVector>(v, dy.data, row * columns + column, columns - column, dy.dtype, 0);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) sum += v[k];
  }
  sum = block_sum(sum, shared);
#pragma unroll 2
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns; column += kThreads * kWidth) {
    const std::int64_t at = row * columns + column;
    float g[kWidth];
    float y[kWidth];
    element::read_some<kWidth, kVector>(g, dy.data, at, columns - column, dy.dtype, 0);
    element::read_some<kWidth, kVector>(y, out.data, at, columns - column, out.dtype, 0);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) g[k] -= fast_exp(y[k]) * sum;
    element::write_some<kWidth, kVector>(dx.data, at, columns - column, dx.dtype, g);
  }
}

/// dlogits = (softmax − one-hot) / rows and the row's loss; dlogits may lie over logits.
template <int kWidth, bool kVector>
__global__ void __launch_bounds__(kThreads)
    cross_entropy_rows(float* losses, Rows dlogits, Rows logits, const std::int64_t* target, std::uint32_t columns,
                       float rows) {
  __shared__ float shared[64];
  const std::int64_t row = blockIdx.x;
  const std::int64_t chosen = target[row];
  const float logit = element::read<float>(logits.data, row * columns + chosen, logits.dtype);
  const float norm =
      row_logsumexp<kWidth, kVector>(logits, row, columns, shared);  // all have read `logit` behind its barriers
  if (threadIdx.x == 0) losses[row] = norm - logit;
  const float part = 1.0F / rows;
#pragma unroll 2
  for (std::uint32_t column = threadIdx.x * kWidth; column < columns; column += kThreads * kWidth) {
    const std::int64_t at = row * columns + column;
    float v[kWidth];
    element::read_some<kWidth, kVector>(v, logits.data, at, columns - column, logits.dtype, 0);
#pragma unroll
    for (int k = 0; k < kWidth; ++k) v[k] = (fast_exp(v[k] - norm) - (column + k == chosen ? 1.0F : 0.0F)) * part;
    element::write_some<kWidth, kVector>(dlogits.data, at, columns - column, dlogits.dtype, v);
  }
}

/// One block: the mean of `rows` losses, or of −log_probabilities[row, target[row]].
__global__ void __launch_bounds__(kThreads)
    mean_loss(Rows loss, Rows total_weight, const float* losses, Rows log_probabilities, const std::int64_t* target,
              std::uint32_t rows, std::uint32_t columns) {
  __shared__ float shared[64];
  float sum = 0;
  for (std::uint32_t row = threadIdx.x; row < rows; row += kThreads) {
    if (losses != nullptr)
      sum += losses[row];
    else
      sum -= element::read<float>(log_probabilities.data, static_cast<std::int64_t>(row) * columns + target[row],
                                  log_probabilities.dtype);
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x != 0) return;
  element::write<float>(loss.data, 0, loss.dtype, sum / static_cast<float>(rows));
  if (total_weight.data != nullptr)
    element::write<float>(total_weight.data, 0, total_weight.dtype, static_cast<float>(rows));
}

template <int kWidth, bool kVector>
__global__ void __launch_bounds__(256)
    nll_backward(Rows dx, Rows d_loss, const std::int64_t* target, std::uint32_t columns, float rows) {
  const std::uint32_t column = (blockIdx.x * 256 + threadIdx.x) * kWidth;
  if (column >= columns) return;
  const std::int64_t row = blockIdx.y;
  const std::int64_t chosen = target[row];
  float v[kWidth] = {};
  if (chosen >= column && chosen < column + kWidth) {
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      if (column + k == chosen) v[k] = -element::read<float>(d_loss.data, 0, d_loss.dtype) / rows;
  }
  element::write_some<kWidth, kVector>(dx.data, row * columns + column, columns - column, dx.dtype, v);
}

// ---- Launching

Rows rows_of(const Argument& a) {
  return {a.data, a.dtype()};
}

struct Sizes {
  std::uint32_t rows = 0;
  std::uint32_t columns = 0;
  int width = 0;  ///< elements at once: 8, 4, or 0 where rows do not begin on boundaries
};

Result<Sizes> sizes(const Arguments& args, std::initializer_list<std::size_t> operands, const char* name) {
  Sizes s{0, 0, 8};
  for (const std::size_t i : operands) {
    const Argument a = args[i];
    if (!a.present() || !a.contiguous() || !is_float_up_to_32(a.dtype()))
      return bad_operand(name, i, "is no contiguous tensor of float32, bfloat16 or float16");
    if (a.last() > 0x7fffffffU || a.rows() > 0x7fffffffU) return bad_operand(name, i, "is too large");
    s.rows = static_cast<std::uint32_t>(a.rows());
    s.columns = static_cast<std::uint32_t>(a.last());
    s.width = width_with(s.width, a.dtype());
  }
  for (const std::size_t i : operands)
    if (args[i].last() % static_cast<unsigned>(s.width) != 0 || !args[i].aligned(16))
      return Sizes{s.rows, s.columns, 0};
  return s;
}

Result<const std::int64_t*> indices(const Arguments& args, std::size_t operand, const char* name) {
  const Argument a = args[operand];
  if (!a.present() || a.dtype() != DType::int64 || !a.contiguous())
    return bad_operand(name, operand, "is no contiguous int64 tensor");
  return static_cast<const std::int64_t*>(a.data);
}

/// body(width, whether groups lie on boundaries), both known to the compiler.
template <class Body>
void with_width(int width, const Body& body) {
  if (width == 8)
    body(std::integral_constant<int, 8>{}, std::true_type{});
  else if (width == 4)
    body(std::integral_constant<int, 4>{}, std::true_type{});
  else
    body(std::integral_constant<int, 4>{}, std::false_type{});
}

Result<void> run_log_softmax(const Arguments& args) {
  const bool backward = args.kernel.op == KernelOp::log_softmax_backward;
  const char* name = backward ? "log_softmax_backward" : "log_softmax";
  const Result<Sizes> s = backward ? sizes(args, {0, 1, 2}, name) : sizes(args, {0, 1}, name);
  FORESHARD_TRY(s);
  if (s->rows == 0) return {};
  const Rows a = rows_of(args[0]);
  const Rows b = rows_of(args[1]);
  const Rows c = rows_of(args[2]);
  with_width(s->width, [&](auto width, auto vector) {
    if (backward)
      log_softmax_backward<width(), vector()><<<s->rows, kThreads, 0, args.stream>>>(a, b, c, s->columns);
    else
      log_softmax<width(), vector()><<<s->rows, kThreads, 0, args.stream>>>(a, b, s->columns);
  });
  return launched(name);
}

Result<void> run_nll(const Arguments& args) {
  const Result<Sizes> s = sizes(args, {2}, "nll_loss");
  const Result<const std::int64_t*> target = indices(args, 3, "nll_loss");
  FORESHARD_TRY(s);
  FORESHARD_TRY(target);
  mean_loss<<<1, kThreads, 0, args.stream>>>(rows_of(args[0]), rows_of(args[1]), nullptr, rows_of(args[2]), *target,
                                             s->rows, s->columns);
  return launched("nll_loss");
}

Result<void> run_nll_backward(const Arguments& args) {
  const Result<Sizes> s = sizes(args, {0}, "nll_loss_backward");
  const Result<const std::int64_t*> target = indices(args, 2, "nll_loss_backward");
  FORESHARD_TRY(s);
  FORESHARD_TRY(target);
  if (s->rows == 0) return {};
  if (s->rows > 65535) return bad_operand("nll_loss_backward", 0, "has more than 65535 rows");
  const auto groups = static_cast<unsigned>(s->width == 0 ? 4 : s->width);
  const dim3 grid(static_cast<unsigned>(ceil_div(s->columns, 256 * groups)), s->rows);
  const auto rows = static_cast<float>(s->rows);
  with_width(s->width, [&](auto width, auto vector) {
    nll_backward<width(), vector()>
        <<<grid, 256, 0, args.stream>>>(rows_of(args[0]), rows_of(args[1]), *target, s->columns, rows);
  });
  return launched("nll_loss_backward");
}

Result<void> run_cross_entropy(const Arguments& args, Workspace& workspace) {
  const Result<Sizes> s = sizes(args, {1, 2}, "cross_entropy");
  const Result<const std::int64_t*> target = indices(args, 3, "cross_entropy");
  FORESHARD_TRY(s);
  FORESHARD_TRY(target);
  if (s->rows == 0) return {};
  Result<void*> scratch = workspace.reserve(s->rows * sizeof(float));
  FORESHARD_TRY(scratch);
  auto* losses = static_cast<float*>(*scratch);
  const auto rows = static_cast<float>(s->rows);
  with_width(s->width, [&](auto width, auto vector) {
    cross_entropy_rows<width(), vector()>
        <<<s->rows, kThreads, 0, args.stream>>>(losses, rows_of(args[1]), rows_of(args[2]), *target, s->columns, rows);
  });
  FORESHARD_TRY(launched("cross_entropy"));
  mean_loss<<<1, kThreads, 0, args.stream>>>(rows_of(args[0]), {}, losses, {}, nullptr, s->rows, 0);
  return launched("cross_entropy");
}

}  // namespace

Result<void> run_loss(const Arguments& args, Workspace& workspace) {
  switch (args.kernel.op) {
    case KernelOp::log_softmax:
    case KernelOp::log_softmax_backward:
      return run_log_softmax(args);
    case KernelOp::nll_loss:
      return run_nll(args);
    case KernelOp::nll_loss_backward:
      return run_nll_backward(args);
    case KernelOp::cross_entropy:
      return run_cross_entropy(args, workspace);
    default:
      return device_failure("not a loss");
  }
}

}  // namespace foreshard::gpu
