#include "core/kernel/kernel_cost.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

using Shape = std::vector<std::uint64_t>;

TensorView dense(const Shape& shape, DType dtype = DType::bfloat16) {
  TensorView view{0, dtype, false, shape, Shape(shape.size(), 1)};
  for (std::size_t i = shape.size(); i-- > 1;) view.strides[i - 1] = view.strides[i] * shape[i];
  return view;
}
TensorView absent() {
  TensorView view;
  view.absent = true;
  return view;
}
KernelWork cost(KernelOp op, std::vector<TensorView> operands) {
  return kernel_cost({.op = op, .operands = std::move(operands)});
}

TEST_CASE("an elementwise kernel moves each operand once; a scalar and a broadcast one by their own shape") {
  const KernelWork add = cost(KernelOp::add, {dense({4, 8}), dense({4, 8}), dense({8})});
  CHECK(add.kernel_class == KernelClass::memory_bound);
  CHECK(add.bytes == 2 * (32 + 32 + 8));
  CHECK(add.math == KernelMath{.dtype = DType::bfloat16, .m = 32, .access = MemoryAccess::strided});
  const KernelWork scaled = cost(KernelOp::mul, {dense({4, 8}), dense({4, 8}), dense({})});
  CHECK(scaled.math.access == MemoryAccess::contiguous);
}

TEST_CASE("casts that widen and operands of two dtypes have access patterns of their own") {
  const TensorView half = dense({4, 8});
  const TensorView whole = dense({4, 8}, DType::float32);
  CHECK(cost(KernelOp::copy, {half, whole}).math.access == MemoryAccess::contiguous);
  CHECK(cost(KernelOp::copy, {whole, half}).math.access == MemoryAccess::strided);
  CHECK(cost(KernelOp::mul, {whole, whole, half}).math.access == MemoryAccess::mixed);
  CHECK(cost(KernelOp::mul, {whole, whole, half}).math.dtype == DType::bfloat16);
  TensorView turned = half;
  turned.strides = {1, 4};
  CHECK(cost(KernelOp::copy, {half, turned}).math.access == MemoryAccess::strided);
}

TEST_CASE("a GEMM is its three matrices; what it accumulates into is read too, a bias is not counted") {
  const std::vector<TensorView> operands{dense({16, 32}), dense({16, 64}), dense({64, 32}), dense({32})};
  Kernel gemm{.op = KernelOp::gemm, .operands = operands};
  const KernelWork plain = kernel_cost(gemm);
  CHECK(plain.kernel_class == KernelClass::gemm);
  CHECK(plain.bytes == 2 * (16 * 32 + 16 * 64 + 64 * 32));
  CHECK(plain.math == KernelMath{KernelMath::Kind::gemm, DType::bfloat16, false, 1, 16, 32, 64});
  CHECK(plain.math == gemm_cost(16, 32, 64, DType::bfloat16).math);
  CHECK(plain.bytes == gemm_cost(16, 32, 64, DType::bfloat16).bytes);
  CHECK(flops(plain.math) == 2. * 16 * 32 * 64);
  gemm.accumulate = true;
  CHECK(kernel_cost(gemm).bytes == plain.bytes + 2 * 16 * 32);
  gemm.operands = {dense({3, 16, 32}), dense({3, 16, 64}), dense({3, 64, 32}), absent()};
  CHECK(kernel_cost(gemm).math.batch == 3);
}

/// out[m × n] = a[m × k] b[k × n], a and b as they lie or turned (column by column).
bool unaligned(std::uint64_t m, std::uint64_t n, std::uint64_t k, bool a_turned, bool b_turned) {
  const auto matrix = [](std::uint64_t rows, std::uint64_t columns, bool turned) {
    TensorView view = dense({rows, columns});
    if (turned) view.strides = {1, rows};
    return view;
  };
  return cost(KernelOp::gemm, {dense({m, n}), matrix(m, k, a_turned), matrix(k, n, b_turned)}).math.unaligned;
}

TEST_CASE("a float8 GEMM moves its operands in one byte; a cast what it reads and each copy that it writes") {
  const TensorView one = dense({}, DType::float32);
  Kernel product{.op = KernelOp::scaled_mm,
                 .operands = {dense({16, 32}), dense({16, 64}, DType::float8_e5m2),
                              dense({64, 32}, DType::float8_e4m3fn), one, one}};
  const KernelWork plain = kernel_cost(product);
  CHECK(plain.kernel_class == KernelClass::gemm);
  CHECK(plain.bytes == 2 * 16 * 32 + 16 * 64 + 64 * 32);
  CHECK(plain.math == KernelMath{KernelMath::Kind::gemm, DType::float8_e5m2, false, 1, 16, 32, 64});
  product.accumulate = true;
  CHECK(kernel_cost(product).bytes == plain.bytes + 2 * 16 * 32);
  const TensorView cast = dense({16, 32}, DType::float8_e4m3fn);
  const TensorView turned = dense({32, 16}, DType::float8_e4m3fn);
  const KernelWork both = cost(KernelOp::cast_float8, {cast, turned, one, dense({16, 32}), one});
  CHECK(both.bytes == 16 * 32 * (2 + 1 + 1) + 2 * 4);
  CHECK(both.math == KernelMath{.dtype = DType::bfloat16, .m = 16 * 32, .access = MemoryAccess::contiguous});
  CHECK(cost(KernelOp::cast_float8, {absent(), turned, one, dense({16, 32}), one}).bytes == 16 * 32 * (2 + 1) + 2 * 4);
  CHECK(cost(KernelOp::amax, {one, dense({16, 32})}).bytes == 2 * 16 * 32);
}

TEST_CASE("a GEMM is unaligned where a matrix leads with a dimension that is no multiple of eight") {
  // Tokens lead nothing: forward x wᵀ, input gradient dy w, weight gradient dyᵀ x.
  CHECK_FALSE(unaligned(2369, 4096, 1024, false, true));
  CHECK_FALSE(unaligned(2369, 1024, 4096, false, false));
  CHECK_FALSE(unaligned(4096, 1024, 2369, true, false));
  // Both sizes of a weight do.
  CHECK(unaligned(2368, 50257, 1600, false, true));
  CHECK(unaligned(2368, 1600, 50257, false, false));
  CHECK(unaligned(50257, 1600, 2368, true, false));
  CHECK(unaligned(2368, 1600, 1601, false, true));
  // The left operand's columns where it lies by row, its rows where it is turned.
  CHECK(unaligned(4096, 1024, 2369, false, false));
  CHECK(unaligned(2369, 1024, 4096, true, false));
  CHECK_FALSE(unaligned(4, 1024, 4096, true, false));  // few rows
  // The right one's rows where it is turned.
  CHECK(unaligned(4096, 1024, 2369, true, true));
  // A part of wider rows leads with their width.
  TensorView part = dense({2368, 1600});
  part.strides = {4801, 1};
  CHECK(cost(KernelOp::gemm, {dense({2368, 1024}), part, dense({1600, 1024})}).math.unaligned);
  part.strides = {4800, 1};
  CHECK_FALSE(cost(KernelOp::gemm, {dense({2368, 1024}), part, dense({1600, 1024})}).math.unaligned);
  // Scores of an odd number of keys lead with it, in either batch of products.
  CHECK(cost(KernelOp::gemm, {dense({8, 2368, 2369}), dense({8, 2368, 64}), dense({8, 64, 2369})}).math.unaligned);
  CHECK(cost(KernelOp::gemm, {dense({8, 2368, 64}), dense({8, 2368, 2369}), dense({8, 2369, 64})}).math.unaligned);
}

TEST_CASE("a GEMM known by its sizes leads as its use lays it out") {
  const auto of = [](GemmUse use, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
    return gemm_cost(m, n, k, DType::bfloat16, 1, use).math.unaligned;
  };
  CHECK_FALSE(of(GemmUse::forward, 2369, 4096, 1024));
  CHECK_FALSE(of(GemmUse::dgrad, 2369, 1024, 4096));
  CHECK_FALSE(of(GemmUse::wgrad, 4096, 1024, 2369));
  CHECK(of(GemmUse::forward, 2368, 50257, 1600));
  CHECK(of(GemmUse::dgrad, 2368, 1600, 50257));
  CHECK(of(GemmUse::wgrad, 50257, 1600, 2368));
}

TEST_CASE("attention is its queries, keys, values and results; the log-sum-exp is not counted") {
  const TensorView q = dense({2, 4, 16, 64});
  const TensorView k = dense({2, 2, 32, 64});
  const TensorView sums = dense({2, 4, 16}, DType::float32);
  const Bytes q_bytes = 2 * 2 * 4 * 16 * 64;
  const Bytes k_bytes = 2 * 2 * 2 * 32 * 64;
  const KernelWork forward = kernel_cost({.op = KernelOp::attention, .causal = true, .operands = {q, sums, q, k, k}});
  CHECK(forward.kernel_class == KernelClass::attention);
  CHECK(forward.bytes == 2 * q_bytes + 2 * k_bytes);
  CHECK(forward.math == KernelMath{KernelMath::Kind::attention_forward, DType::bfloat16, true, 8, 16, 32, 64});
  CHECK(flops(forward.math) == 4. * 8 * 16 * 32 * 64 / 2);
  const KernelWork backward =
      cost(KernelOp::attention_backward, {q, k, k, q, q, k, k, q, sums, dense({1000}, DType::uint8)});
  CHECK(backward.bytes == 4 * q_bytes + 4 * k_bytes);
  CHECK(backward.math.kind == KernelMath::Kind::attention_backward);
}

TEST_CASE("norms go by rows, and their weights' gradients by columns") {
  const TensorView x = dense({10, 64});
  const TensorView row = dense({10, 1}, DType::float32);
  const TensorView weight = dense({64});
  CHECK(cost(KernelOp::rms_norm, {x, row, x, weight}).bytes == 2 * 2 * 640 + 4 * 10 + 2 * 64);
  CHECK(cost(KernelOp::rms_norm, {x, row, x, weight}).math.access == MemoryAccess::row);
  CHECK(cost(KernelOp::rms_norm_backward, {x, x, x, row, weight}).bytes == 3 * 2 * 640);
  const KernelWork weights = cost(KernelOp::layer_norm_backward_weights, {weight, absent(), x, x, row, row});
  CHECK(weights.bytes == 2 * 2 * 640);
  CHECK(weights.math == KernelMath{.dtype = DType::bfloat16, .m = 640, .access = MemoryAccess::column});
  CHECK(cost(KernelOp::sum_to, {dense({1, 64}), x}).math.access == MemoryAccess::column);
  CHECK(cost(KernelOp::sum_to, {dense({10, 1}), x}).math.access == MemoryAccess::row);
}

TEST_CASE("an embedding moves the rows it takes, not its table") {
  const TensorView table = dense({50000, 64});
  const TensorView rows = dense({8, 64});
  const TensorView indices = dense({8}, DType::int64);
  const KernelWork forward = cost(KernelOp::embedding, {rows, table, indices});
  CHECK(forward.bytes == 2 * 2 * 8 * 64 + 8 * 8);
  CHECK(forward.math.access == MemoryAccess::gather);
  const KernelWork backward = cost(KernelOp::embedding_backward, {table, rows, indices});
  CHECK(backward.bytes == 3 * 2 * 8 * 64);
  CHECK(backward.math == KernelMath{.dtype = DType::bfloat16, .m = 8 * 64, .access = MemoryAccess::scatter});
}

TEST_CASE("a loss reads one score a row") {
  const TensorView scores = dense({8, 1000}, DType::float32);
  const TensorView target = dense({8}, DType::int64);
  const TensorView one = dense({}, DType::float32);
  CHECK(cost(KernelOp::nll_loss, {one, one, scores, target}).bytes == 8 * (8 + 4));
  CHECK(cost(KernelOp::nll_loss_backward, {scores, one, target}).bytes == 8 * (8 + 4));
}

TEST_CASE("cat is vectorised where no part has gaps") {
  TensorView part = dense({4, 8});
  CHECK(cost(KernelOp::cat, {dense({4, 16}), part, part}).math.access == MemoryAccess::contiguous);
  CHECK(cost(KernelOp::cat, {dense({4, 16}), part, part}).bytes == 2 * 2 * 64);
  part.strides = {16, 1};
  CHECK(cost(KernelOp::cat, {dense({4, 16}), part, part}).math.access == MemoryAccess::concatenate);
}

TEST_CASE("a kernel without a rule moves its operands once, elements uncounted") {
  const KernelWork copied = cost(KernelOp::copy_out, {dense({100}), dense({100})});
  CHECK(copied.bytes == 400);
  CHECK(copied.math == KernelMath{});
}

TEST_CASE("copy_in writes this rank's places, of a block that may be the whole group's") {
  Kernel kernel;
  kernel.op = KernelOp::copy_in;
  kernel.operands = {dense({26}), dense({10}, DType::float32), dense({3}, DType::float32)};
  kernel.integers = {10, 3};
  CHECK(operand_bytes(kernel) == 2 * 13 + 4 * 13);
  kernel.integers = {10, 3, 10, 23};  // rank 1's, behind rank 0's of each parameter
  CHECK(operand_bytes(kernel) == 2 * 13 + 4 * 13);
  CHECK(kernel_cost(kernel).bytes == 2 * 13 + 4 * 13);
}

}  // namespace
}  // namespace foreshard
