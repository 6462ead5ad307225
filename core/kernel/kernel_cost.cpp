#include "core/kernel/kernel_cost.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace foreshard {
namespace {

/// How a kernel's memory access follows from its op.
enum class Walk : std::uint8_t {
  uncounted,    ///< elements are not counted: priced by bytes at the profile's rate
  elementwise,  ///< elementwise_cost's rule
  contiguous,
  joins,  ///< CatArrayBatchedCopy, vectorised where no part has gaps
  sums,   ///< by row where the last dimension is summed, else by column
  row,    ///< and the rest as MemoryAccess
  column,
  gather,
  scatter,
  gemm,
  attention_forward,
  attention_backward,
};

/// How one op's cost follows from its operands.
struct Rule {
  KernelOp op;
  Walk walk;
  /// How often each operand's bytes count; the last one is that of all further operands. 'r': one element a row.
  std::string_view moves = "1";
  std::size_t shape = 0;  ///< the operand whose elements and dtype count
};

// Sources: ATen's CUDA kernels (PyTorch 2.11) as tools/fit_compute.py measured them: what is small next to the
// rest (statistics and weights of norms in backward, a bias of a GEMM, an attention's log-sum-exp) does not count.
constexpr std::array kRules{
    Rule{KernelOp::fill, Walk::elementwise},
    Rule{KernelOp::copy, Walk::elementwise},
    Rule{KernelOp::add, Walk::elementwise},
    Rule{KernelOp::sub, Walk::elementwise},
    Rule{KernelOp::mul, Walk::elementwise},
    Rule{KernelOp::neg, Walk::elementwise},
    Rule{KernelOp::mul_scalar, Walk::elementwise},
    Rule{KernelOp::add_scalar, Walk::elementwise},
    Rule{KernelOp::silu, Walk::elementwise},
    Rule{KernelOp::silu_backward, Walk::elementwise},
    Rule{KernelOp::gelu, Walk::elementwise},
    Rule{KernelOp::gelu_backward, Walk::elementwise},
    Rule{KernelOp::arange, Walk::elementwise},
    Rule{KernelOp::dropout, Walk::contiguous},  // out, mask; x
    Rule{KernelOp::dropout_backward, Walk::contiguous},
    Rule{KernelOp::sum_to, Walk::sums, "1", 1},
    Rule{KernelOp::layer_norm, Walk::row, "1", 3},                          // y, mean, rstd; x, …
    Rule{KernelOp::layer_norm_backward, Walk::row, "1110", 2},              // dx; dy, x, …
    Rule{KernelOp::layer_norm_backward_weights, Walk::column, "00110", 3},  // dweight, dbias; dy, x, …
    Rule{KernelOp::rms_norm, Walk::row, "1", 2},                            // y, rstd; x, weight
    Rule{KernelOp::rms_norm_backward, Walk::row, "1110", 2},                // dx; dy, x, …
    Rule{KernelOp::rms_norm_backward_weight, Walk::column, "0110", 2},      // dweight; dy, x, rstd
    Rule{KernelOp::add_rms_norm, Walk::row, "1", 3},                        // sum, y, rstd; x, residual, weight
    Rule{KernelOp::add_rms_norm_backward, Walk::row, "11110", 3},           // dsum; dy, d_residual_sum, sum, …
    Rule{KernelOp::gemm, Walk::gemm, "1110"},                               // out; a, b, bias
    Rule{KernelOp::attention, Walk::attention_forward, "10111"},            // out, logsumexp; q, k, v
    Rule{KernelOp::attention_backward, Walk::attention_backward, "111111110"},
    Rule{KernelOp::embedding, Walk::gather, "201"},               // out; weight, indices: as many rows as are written
    Rule{KernelOp::embedding_backward, Walk::scatter, "030", 1},  // dweight; d_out, indices: rows read, added, written
    Rule{KernelOp::log_softmax, Walk::row, "12", 1},              // out; x, read for its maximum and sum, and again
    Rule{KernelOp::log_softmax_backward, Walk::row},
    Rule{KernelOp::softmax, Walk::row, "1", 1},
    Rule{KernelOp::softmax_backward, Walk::row},
    Rule{KernelOp::nll_loss, Walk::uncounted, "00r1"},          // loss, total_weight; log_probabilities, target
    Rule{KernelOp::nll_loss_backward, Walk::uncounted, "r01"},  // dx, zeroed before; d_loss, target
    Rule{KernelOp::cross_entropy, Walk::row, "0121", 2},        // loss, dlogits; logits, read twice, target
    Rule{KernelOp::cat, Walk::joins},
    Rule{KernelOp::rope, Walk::contiguous},
    Rule{KernelOp::rope_backward, Walk::contiguous},
    Rule{KernelOp::swiglu, Walk::contiguous},
    Rule{KernelOp::swiglu_backward, Walk::contiguous},
    Rule{KernelOp::amax, Walk::contiguous, "01", 1},        // out; x
    Rule{KernelOp::cast_float8, Walk::contiguous, "1", 3},  // out, transposed, scale; x, amax
    Rule{KernelOp::scaled_mm, Walk::gemm, "1110"},          // out; a, b, scales
    Rule{KernelOp::transpose_float8, Walk::contiguous},
};
/// Masks, random numbers, FSDP2's sections and the optimizer.
constexpr Rule kOtherwise{KernelOp::fused, Walk::uncounted};

const Rule& rule_of(KernelOp op) {
  const auto found = std::find_if(kRules.begin(), kRules.end(), [&](const Rule& rule) { return rule.op == op; });
  return found == kRules.end() ? kOtherwise : *found;
}

Bytes bytes_of(const TensorView& view) {
  return view.absent ? 0 : view.numel() * itemsize(view.dtype);
}

/// What a kernel reads or writes of an operand that it walks once. copy_in writes this rank's places alone, of a block
/// that may be the whole group's.
Bytes bytes_of(const Kernel& kernel, std::size_t operand) {
  const TensorView& view = kernel.operands[operand];
  if (kernel.op != KernelOp::copy_in || operand > 0) return bytes_of(view);
  const std::size_t shards = std::min(kernel.operands.size() - 1, kernel.integers.size());
  std::uint64_t elements = 0;
  for (std::size_t i = 0; i < shards; ++i) elements += static_cast<std::uint64_t>(kernel.integers[i]);
  return elements * itemsize(view.dtype);
}

Bytes moved(const Kernel& kernel, const Rule& rule) {
  Bytes bytes = 0;
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
    const TensorView& view = kernel.operands[i];
    const char times = rule.moves[std::min(i, rule.moves.size() - 1)];
    if (times != 'r')
      bytes += static_cast<Bytes>(times - '0') * bytes_of(kernel, i);
    else if (!view.shape.empty() && view.shape.back() > 0)
      bytes += bytes_of(view) / view.shape.back();
  }
  if (kernel.accumulate) bytes += bytes_of(kernel.operands.front());  // reads what it adds to
  return bytes;
}

/// Whether the elements fill one stretch of memory, in whatever order of dimensions.
bool dense(const TensorView& x) {
  std::uint64_t span = 1;
  for (std::size_t i = 0; i < x.shape.size(); ++i)
    if (x.shape[i] > 0) span += (x.shape[i] - 1) * x.strides[i];
  return span == x.numel();
}

/// In row-major order.
bool contiguous(const TensorView& x) {
  std::uint64_t expected = 1;
  for (std::size_t i = x.shape.size(); i-- > 0;) {
    if (x.shape[i] != 1 && x.strides[i] != expected) return false;
    expected *= x.shape[i];
  }
  return true;
}

bool lies_like(const TensorView& a, const TensorView& b) {
  if (a.shape != b.shape) return false;
  for (std::size_t i = 0; i < a.shape.size(); ++i)
    if (a.shape[i] > 1 && a.strides[i] != b.strides[i]) return false;
  return true;
}

KernelMath elementwise_math(std::span<const TensorView> operands) {
  const TensorView& out = operands.front();
  MemoryAccess access = dense(out) ? MemoryAccess::contiguous : MemoryAccess::strided;
  DType narrowest = out.dtype;
  const TensorView* first = nullptr;
  for (const TensorView& input : operands.subspan(1)) {
    if (input.absent || input.numel() <= 1) continue;  // a scalar is a kernel argument, or cached
    if (first != nullptr && first->dtype != input.dtype) access = MemoryAccess::mixed;
    if (first == nullptr) first = &input;
    if (itemsize(input.dtype) < itemsize(narrowest)) narrowest = input.dtype;
    const bool upcasts = itemsize(input.dtype) < itemsize(out.dtype);
    if (access == MemoryAccess::contiguous && (upcasts || !lies_like(input, out))) access = MemoryAccess::strided;
  }
  return {.dtype = narrowest, .m = out.numel(), .access = access};
}

/// Heads of q and k may be wider than those of v (latent attention): the width that makes the same products. Forward
/// has one of each, backward three with q's or k's and two with v's.
std::uint64_t attention_width(const TensorView& k, const TensorView& v, bool backward) {
  return backward ? (3 * k.shape[3] + 2 * v.shape[3]) / 5 : (k.shape[3] + v.shape[3]) / 2;
}

KernelMath attention_math(const Kernel& kernel, bool backward) {
  const TensorView& q = kernel.operands[backward ? 4 : 2];
  const TensorView& k = kernel.operands[backward ? 5 : 3];
  return {backward ? KernelMath::Kind::attention_backward : KernelMath::Kind::attention_forward,
          q.dtype,
          kernel.causal,
          static_cast<std::uint32_t>(q.shape[0] * q.shape[1]),
          q.shape[2],
          k.shape[2],
          attention_width(k, kernel.operands[backward ? 6 : 4], backward)};
}

constexpr std::uint64_t kAligned = 8;   ///< elements of 16 bits in 16 bytes
constexpr std::uint64_t kFewRows = 64;  ///< of an operand: not measured as slow

/// Whether the elements from one row (or column) in memory to the next are no multiple of 8.
bool unaligned(const TensorView& x, bool operand) {
  const std::size_t column = x.shape.size() - 1;
  const std::size_t row = column - 1;
  const bool by_row = x.strides[column] == 1 || x.shape[column] == 1;
  const std::uint64_t extent = x.shape[by_row ? column : row];
  const std::uint64_t lines = x.shape[by_row ? row : column];
  const std::uint64_t leading = lines == 1 ? extent : x.strides[by_row ? row : column];
  return leading % kAligned != 0 && !(operand && extent <= kFewRows);
}

KernelMath gemm_math(const Kernel& kernel) {
  const TensorView& a = kernel.operands[1];
  const TensorView& b = kernel.operands[2];
  const std::size_t rank = a.shape.size();
  KernelMath math{KernelMath::Kind::gemm, a.dtype};
  math.batch = rank == 3 ? static_cast<std::uint32_t>(a.shape[0]) : 1;
  math.m = a.shape[rank - 2];
  math.n = b.shape[rank - 1];
  math.k = a.shape[rank - 1];
  math.unaligned = unaligned(kernel.operands[0], false) || unaligned(a, true) || unaligned(b, true);
  return math;
}

MemoryAccess access_of(const Kernel& kernel, Walk walk) {
  switch (walk) {
    case Walk::joins:
      return std::all_of(kernel.operands.begin() + 1, kernel.operands.end(), contiguous) ? MemoryAccess::contiguous
                                                                                         : MemoryAccess::concatenate;
    case Walk::sums:
      return kernel.operands[0].shape.empty() || kernel.operands[0].shape.back() == 1 ? MemoryAccess::row
                                                                                      : MemoryAccess::column;
    case Walk::row:
      return MemoryAccess::row;
    case Walk::column:
      return MemoryAccess::column;
    case Walk::gather:
      return MemoryAccess::gather;
    case Walk::scatter:
      return MemoryAccess::scatter;
    default:
      return MemoryAccess::contiguous;
  }
}

KernelMath math_of(const Kernel& kernel, const Rule& rule) {
  switch (rule.walk) {
    case Walk::uncounted:
      return {};
    case Walk::elementwise:
      return elementwise_math(kernel.operands);
    case Walk::gemm:
      return gemm_math(kernel);
    case Walk::attention_forward:
    case Walk::attention_backward:
      return attention_math(kernel, rule.walk == Walk::attention_backward);
    default:
      break;
  }
  const TensorView& shape = kernel.operands[rule.shape];
  return {.dtype = shape.dtype, .m = shape.numel(), .access = access_of(kernel, rule.walk)};
}

KernelClass class_of(Walk walk) {
  if (walk == Walk::gemm) return KernelClass::gemm;
  const bool attends = walk == Walk::attention_forward || walk == Walk::attention_backward;
  return attends ? KernelClass::attention : KernelClass::memory_bound;
}

}  // namespace

KernelWork kernel_cost(const Kernel& kernel) {
  const Rule& rule = rule_of(kernel.op);
  KernelWork cost;
  cost.kernel_class = class_of(rule.walk);
  cost.bytes = moved(kernel, rule);
  cost.math = math_of(kernel, rule);
  return cost;
}

KernelWork bytes_cost(Bytes bytes) {
  KernelWork cost;
  cost.bytes = bytes;
  return cost;
}

KernelWork bytes_cost(Bytes bytes, MemoryAccess access, std::uint64_t elements, DType dtype) {
  KernelWork cost = bytes_cost(bytes);
  cost.math = {.dtype = dtype, .m = elements, .access = access};
  return cost;
}

KernelWork elementwise_cost(std::span<const TensorView> operands) {
  KernelWork cost;
  for (const TensorView& view : operands) cost.bytes += bytes_of(view);
  cost.math = elementwise_math(operands);
  return cost;
}

KernelWork gemm_cost(std::uint64_t m, std::uint64_t n, std::uint64_t k, DType dtype, std::uint32_t batch, GemmUse use) {
  KernelWork cost;
  cost.kernel_class = KernelClass::gemm;
  cost.bytes = (m * k + k * n + m * n) * batch * itemsize(dtype);
  cost.math = {KernelMath::Kind::gemm, dtype, false, batch, m, n, k};
  const std::uint64_t left = use == GemmUse::wgrad ? m : k;  // the right operand leads with k or n
  cost.math.unaligned = n % kAligned != 0 || (left % kAligned != 0 && left > kFewRows);
  return cost;
}

double flops(const KernelMath& math) {
  const double pairs = static_cast<double>(math.m) * static_cast<double>(math.n) * (math.causal ? 0.5 : 1.0);
  double each = 0;  // for each pair of rows and element of their length
  switch (math.kind) {
    case KernelMath::Kind::bytes:
      return 0;
    case KernelMath::Kind::gemm:
      each = 2;
      break;
    case KernelMath::Kind::attention_forward:
      each = 4;  // QKᵀ and PV
      break;
    case KernelMath::Kind::attention_backward:
      each = 10;  // S and P again, dV, dP, dQ, dK
      break;
  }
  return each * pairs * static_cast<double>(math.k) * math.batch;
}

Bytes operand_bytes(const Kernel& kernel) {
  Bytes bytes = 0;
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) bytes += bytes_of(kernel, i);
  return bytes;
}

}  // namespace foreshard
