#include "core/kernel/kernel_check.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

namespace foreshard {
namespace {

/// What an op of programs takes. One letter an operand, "?" behind one that may be absent, in front of the end
/// left out, and "*" behind one that may be there any number of times:
///   x floating, of the first x's shape            y of the first y's shape
///   m uint8 or bool, of the first x's shape       r float32, one a row of the first x (its last dimension)
///   d floating, one a column of the first x       t int64, one a row of the first x
///   1 floating, one element                       w floating            i int64              a any
///   s float32, one element                        q float8
struct Signature {
  KernelOp op;
  std::string_view operands;
  std::uint8_t outputs;
  std::uint8_t integers = 0;
  std::uint8_t scalars = 0;
};

constexpr std::array kSignatures{
    Signature{KernelOp::fused, "", 0},
    Signature{KernelOp::fill, "y", 1},
    Signature{KernelOp::copy, "yy", 1},
    Signature{KernelOp::add, "xxx", 1},
    Signature{KernelOp::sub, "xxx", 1},
    Signature{KernelOp::mul, "xxx", 1},
    Signature{KernelOp::neg, "xx", 1},
    Signature{KernelOp::mul_scalar, "xx", 1},
    Signature{KernelOp::add_scalar, "xx", 1},
    Signature{KernelOp::silu, "xx", 1},
    Signature{KernelOp::silu_backward, "xxx", 1},
    Signature{KernelOp::gelu, "xx", 1},
    Signature{KernelOp::gelu_backward, "xxx", 1},
    Signature{KernelOp::dropout, "xmx", 2, 2},
    Signature{KernelOp::dropout_backward, "xxm", 1},
    Signature{KernelOp::sum_to, "ww", 1},
    Signature{KernelOp::layer_norm, "xrrxd?d?", 3},
    Signature{KernelOp::layer_norm_backward, "xxxrrd?", 1},
    Signature{KernelOp::layer_norm_backward_weights, "d?d?xxrr", 2},
    Signature{KernelOp::rms_norm, "xrxd", 2},
    Signature{KernelOp::rms_norm_backward, "xxxrd", 1},
    Signature{KernelOp::rms_norm_backward_weight, "dxxr", 1},
    Signature{KernelOp::gemm, "wwww?", 1},
    Signature{KernelOp::attention, "wwwww", 2},
    Signature{KernelOp::attention_backward, "wwwwwwwwwa*", 3},
    Signature{KernelOp::embedding, "wwi", 1},
    Signature{KernelOp::embedding_backward, "wwi", 1},
    Signature{KernelOp::log_softmax, "xx", 1},
    Signature{KernelOp::log_softmax_backward, "xxx", 1},
    Signature{KernelOp::nll_loss, "11xt", 2},
    Signature{KernelOp::nll_loss_backward, "x1t", 1},
    Signature{KernelOp::cross_entropy, "1xxt", 2},
    Signature{KernelOp::softmax, "xx", 1},
    Signature{KernelOp::softmax_backward, "xxx", 1},
    Signature{KernelOp::causal_mask, "w", 1},
    Signature{KernelOp::cat, "www*", 1, 1},
    Signature{KernelOp::rope, "xxww", 1},
    Signature{KernelOp::rope_backward, "xxww", 1},
    Signature{KernelOp::swiglu, "xxx", 1},
    Signature{KernelOp::swiglu_backward, "xxxxx", 2},
    Signature{KernelOp::add_rms_norm, "xxrxxd", 3},
    Signature{KernelOp::add_rms_norm_backward, "xxxxrd", 1},
    Signature{KernelOp::random_normal, "w", 1, 2},
    Signature{KernelOp::random_tokens, "i", 1, 3},
    Signature{KernelOp::rotary_cos, "w", 1, 0, 1},
    Signature{KernelOp::rotary_sin, "w", 1, 0, 1},
    Signature{KernelOp::arange, "i", 1},
    Signature{KernelOp::amax, "sw", 1},
    Signature{KernelOp::cast_float8, "q?q?sws", 3},
    Signature{KernelOp::scaled_mm, "wqqss", 1, 1},
    Signature{KernelOp::transpose_float8, "qq", 1},
};

/// First operand of attention_backward that it may use as it likes.
constexpr std::size_t kAttentionScratch = 9;

const Signature* signature_of(KernelOp op) {
  const auto found =
      std::find_if(kSignatures.begin(), kSignatures.end(), [&](const Signature& s) { return s.op == op; });
  return found == kSignatures.end() ? nullptr : &*found;
}

using Shape = std::vector<std::uint64_t>;

bool floating(DType dtype) {
  return dtype == DType::float32 || dtype == DType::bfloat16 || dtype == DType::float16 || dtype == DType::float64;
}

bool takes(char letter, DType dtype) {
  switch (letter) {
    case 'r':
    case 's':
      return dtype == DType::float32;
    case 'q':
      return is_float8(dtype);
    case 't':
    case 'i':
      return dtype == DType::int64;
    case 'm':
      return dtype == DType::uint8 || dtype == DType::bool8;
    case 'y':
      return !is_float8(dtype);
    case 'a':
      return true;
    default:
      return floating(dtype);
  }
}

std::string_view wanted(char letter) {
  return letter == 'r' || letter == 's'   ? "float32"
         : letter == 'q'                  ? "float8"
         : letter == 'y'                  ? "of another dtype than float8"
         : letter == 't' || letter == 'i' ? "int64"
         : letter == 'm'                  ? "uint8 or bool"
                                          : "floating";
}

std::uint64_t last(const TensorView& view) {
  return view.shape.empty() ? 1 : view.shape.back();
}
std::uint64_t rows(const TensorView& view) {
  return last(view) == 0 ? 0 : view.numel() / last(view);
}

/// The letter of each operand that is there, with those that may be left out or repeated.
struct Operands {
  std::string letters;
  std::string optional;  ///< '?' where one may be absent, else ' '
  std::size_t least = 0;
};

Operands operands_of(const Signature& signature, std::size_t count) {
  Operands out;
  for (const char c : signature.operands) {
    if (c == '?') {
      out.optional.back() = '?';
    } else if (c == '*') {
      const char letter = out.letters.back();
      out.letters.pop_back();
      out.optional.pop_back();
      while (out.letters.size() < count) {
        out.letters += letter;
        out.optional += ' ';
      }
    } else {
      out.letters += c;
      out.optional += ' ';
    }
  }
  const std::size_t needed = out.optional.find_last_not_of('?');
  out.least = needed == std::string::npos ? 0 : needed + 1;
  return out;
}

class Check {
 public:
  Check(const Kernel& c, const Signature& signature) : c_(c), signature_(signature) {}

  std::string run() {
    check_operands();
    check_numbers();
    if (fault_.empty()) check_shapes();
    if (fault_.empty()) check_function();
    return fault_;
  }

 private:
  void fail(std::string what) {
    if (fault_.empty()) fault_ = std::move(what);
  }
  void need(bool holds, std::string_view what) {
    if (!holds) fail(std::string(what));
  }
  [[nodiscard]] const TensorView& at(std::size_t i) const { return c_.operands[i]; }
  [[nodiscard]] bool has(std::size_t i) const { return i < c_.operands.size() && !at(i).absent; }
  [[nodiscard]] const Shape& shape(std::size_t i) const { return at(i).shape; }
  /// Whether an operand, where it is there, has that shape.
  void same(std::size_t i, const Shape& wanted_shape) {
    if (has(i) && shape(i) != wanted_shape) fail(fmt::format("operand {} has not the shape that the others want", i));
  }
  bool ranks(std::size_t first, std::size_t behind, std::size_t rank) {
    for (std::size_t i = first; i < behind; ++i)
      if (shape(i).size() != rank) fail(fmt::format("operand {} has {} dimensions, not {}", i, shape(i).size(), rank));
    return fault_.empty();
  }

  void check_operands() {
    const Operands wants = operands_of(signature_, c_.operands.size());
    letters_ = wants.letters;
    if (c_.operands.size() > kMaxOperands) return fail(fmt::format("more than {} operands", kMaxOperands));
    if (c_.operands.size() < wants.least || c_.operands.size() > letters_.size())
      return fail(wants.least == letters_.size()
                      ? fmt::format("{} operands are wanted, not {}", wants.least, c_.operands.size())
                      : fmt::format("at least {} operands are wanted, not {}", wants.least, c_.operands.size()));
    for (std::size_t i = 0; i < c_.operands.size(); ++i) {
      if (at(i).absent) {
        if (wants.optional[i] != '?') return fail(fmt::format("operand {} is absent", i));
        if (!shape(i).empty() || !at(i).strides.empty() || at(i).offset != 0)
          return fail(fmt::format("operand {} is absent and has a shape", i));
        continue;
      }
      if (!takes(letters_[i], at(i).dtype))
        return fail(fmt::format("operand {} is {}, not {}", i, name(at(i).dtype), wanted(letters_[i])));
      if (!extent_of(at(i))) return fail(fmt::format("operand {} is no view that a block can hold", i));
    }
  }

  void check_numbers() {
    if (c_.integers.size() != signature_.integers)
      fail(fmt::format("{} integers are wanted, not {}", signature_.integers, c_.integers.size()));
    if (c_.scalars.size() != signature_.scalars)
      fail(fmt::format("{} scalars are wanted, not {}", signature_.scalars, c_.scalars.size()));
    const bool finite = std::isfinite(c_.alpha) &&
                        std::all_of(c_.scalars.begin(), c_.scalars.end(), [](double s) { return std::isfinite(s); });
    need(finite, "alpha and scalars are finite");
    const bool attends = c_.op == KernelOp::attention || c_.op == KernelOp::attention_backward;
    need(!c_.causal || attends, "only attention is causal");
    need(!c_.accumulate || c_.op == KernelOp::gemm || c_.op == KernelOp::scaled_mm,
         "only gemm and scaled_mm accumulate");
  }

  void check_shapes() {
    const auto first_of = [&](char letter) { return letters_.find(letter); };
    for (std::size_t i = 0; i < c_.operands.size(); ++i) {
      if (at(i).absent) continue;
      const char letter = letters_[i];
      if (letter == 'y') same(i, shape(first_of('y')));
      if (letter == 'x' || letter == 'm') same(i, shape(first_of('x')));
      if ((letter == '1' || letter == 's') && at(i).numel() != 1)
        fail(fmt::format("operand {} has {} elements, not 1", i, at(i).numel()));
      if (letter != 'r' && letter != 't' && letter != 'd') continue;
      const TensorView& x = at(first_of('x'));
      const std::uint64_t elements = letter == 'd' ? last(x) : rows(x);
      if (at(i).numel() != elements)
        fail(fmt::format("operand {} has {} elements, not one a {} ({})", i, at(i).numel(),
                         letter == 'd' ? "column" : "row", elements));
    }
  }

  void check_function() {
    switch (c_.op) {
      case KernelOp::dropout:
      case KernelOp::dropout_backward:
        return need(c_.alpha >= 0 && c_.alpha < 1, "dropout's p must be in [0, 1)");
      case KernelOp::sum_to:
        return check_sum();
      case KernelOp::gemm:
        return check_gemm();
      case KernelOp::cast_float8:
        return check_cast();
      case KernelOp::scaled_mm:
        if (ranks(0, 3, 2)) check_gemm();
        return;
      case KernelOp::transpose_float8:
        if (ranks(0, 2, 2)) same(0, {shape(1)[1], shape(1)[0]});
        return need(at(0).dtype == at(1).dtype, "both are of one dtype");
      case KernelOp::attention:
      case KernelOp::attention_backward:
        return check_attention(c_.op == KernelOp::attention_backward);
      case KernelOp::embedding:
        return check_embedding(at(0), at(1));
      case KernelOp::embedding_backward:
        return check_embedding(at(1), at(0));
      case KernelOp::cat:
        return check_cat();
      case KernelOp::rope:
      case KernelOp::rope_backward:
        if (!ranks(0, 2, 4) || !ranks(2, 4, 2)) return;
        same(2, {shape(0)[1], shape(0)[3] / 2});
        same(3, {shape(0)[1], shape(0)[3] / 2});
        return need(shape(0)[3] % 2 == 0, "rope turns pairs");
      case KernelOp::causal_mask:
      case KernelOp::rotary_cos:
      case KernelOp::rotary_sin:
        ranks(0, 1, 2);
        return;
      case KernelOp::random_tokens:
        return need(c_.integers[2] > 0, "the bound of random_tokens is above 0");
      default:
        return;
    }
  }

  void check_sum() {
    if (!ranks(1, 2, shape(0).size())) return;
    for (std::size_t d = 0; d < shape(0).size(); ++d)
      need(shape(0)[d] == 1 || shape(0)[d] == shape(1)[d], "sum_to's output has each dimension of x, or 1");
  }

  void check_gemm() {
    const std::size_t rank = shape(0).size();
    if (rank != 2 && rank != 3) return fail(fmt::format("a product has 2 or 3 dimensions, not {}", rank));
    if (!ranks(1, 3, rank)) return;
    if (rank == 3) need(shape(1)[0] == shape(0)[0] && shape(2)[0] == shape(0)[0], "the operands' batches differ");
    const std::uint64_t m = shape(0)[rank - 2];
    const std::uint64_t n = shape(0)[rank - 1];
    need(shape(1)[rank - 2] == m && shape(2)[rank - 1] == n && shape(1)[rank - 1] == shape(2)[rank - 2],
         "the shapes are not those of out[m, n], a[m, k], b[k, n]");
    if (c_.op == KernelOp::gemm) same(3, {n});
  }

  void check_cast() {
    if (!ranks(3, 4, 2)) return;
    same(0, shape(3));
    same(1, {shape(3)[1], shape(3)[0]});
    need(!has(0) || !has(1) || at(0).dtype == at(1).dtype, "both casts are of one dtype");
  }

  void check_attention(bool backward) {
    // Gradients lie as what they are of; the log-sum-exp has a row of the output each.
    const std::size_t q = backward ? 4 : 2;
    const std::size_t out = backward ? 7 : 0;
    const std::size_t rows_at = backward ? 8 : 1;
    for (std::size_t i = 0; i < (backward ? 9U : 5U); ++i)
      if (i != rows_at && !ranks(i, i + 1, 4)) return;
    const Shape& queries = shape(q);
    const Shape& keys = shape(q + 1);
    need(keys[0] == queries[0] && keys[3] == queries[3], "keys have the queries' batch and head dimension");
    need(keys[1] > 0 && queries[1] % keys[1] == 0, "query heads come in groups of key heads");
    same(q + 2, keys);
    same(out, queries);
    same(rows_at, {queries[0], queries[1], queries[2]});
    need(at(rows_at).dtype == DType::float32, "the log-sum-exp is float32");
    if (!backward) return;
    same(0, queries);
    same(1, keys);
    same(2, keys);
    same(3, queries);
  }

  void check_embedding(const TensorView& rows_of, const TensorView& weight) {
    if (weight.shape.size() != 2) return fail("an embedding's weight has 2 dimensions");
    need(last(rows_of) == weight.shape[1] && rows(rows_of) == at(2).numel(),
         "an embedding has a row of its weight for each index");
  }

  void check_cat() {
    const std::size_t rank = shape(0).size();
    if (!ranks(1, c_.operands.size(), rank)) return;
    const std::int64_t along = c_.integers[0];
    if (along < 0 || static_cast<std::uint64_t>(along) >= rank)
      return fail(fmt::format("there is no dimension {}", along));
    std::uint64_t joined = 0;  // below kMaxOperands × kMaxViewBytes
    for (std::size_t i = 1; i < c_.operands.size(); ++i) {
      Shape part = shape(0);
      part[static_cast<std::size_t>(along)] = shape(i)[static_cast<std::size_t>(along)];
      same(i, part);
      joined += part[static_cast<std::size_t>(along)];
    }
    need(joined == shape(0)[static_cast<std::size_t>(along)], "the parts do not add up to the output");
  }

  const Kernel& c_;
  const Signature& signature_;
  std::string letters_;
  std::string fault_;
};

}  // namespace

bool in_programs(KernelOp op) {
  return signature_of(op) != nullptr;
}

std::size_t outputs_of(KernelOp op) {
  const Signature* signature = signature_of(op);
  return signature == nullptr ? 0 : signature->outputs;
}

bool reads_operand(const Kernel& kernel, std::size_t operand) {
  if (kernel.op == KernelOp::attention_backward && operand >= kAttentionScratch) return false;
  return operand >= outputs_of(kernel.op) || kernel.accumulate;
}

std::optional<Bytes> extent_of(const TensorView& view) {
  if (view.shape.size() != view.strides.size() || view.shape.size() > kMaxRank) return std::nullopt;
  if (view.offset > kMaxViewBytes) return std::nullopt;
  Bytes elements = 1;  // also where dimensions lie over each other: what a kernel reads of it stays in bounds
  for (const std::uint64_t size : view.shape) {
    if (size > kMaxViewBytes || (size != 0 && elements > kMaxViewBytes / itemsize(view.dtype) / size))
      return std::nullopt;
    elements *= size;
  }
  if (elements == 0) return Bytes{0};
  Bytes furthest = 0;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    const std::uint64_t steps = view.shape[d] - 1;
    if (view.strides[d] > kMaxViewBytes || (steps != 0 && view.strides[d] > kMaxViewBytes / steps)) return std::nullopt;
    furthest += steps * view.strides[d];
    if (furthest > kMaxViewBytes) return std::nullopt;
  }
  const Bytes end = view.offset + (furthest + 1) * itemsize(view.dtype);
  if (end > kMaxViewBytes) return std::nullopt;
  return end;
}

std::string fault_of(const Kernel& kernel) {
  const Signature* signature = signature_of(kernel.op);
  if (signature == nullptr) return "FSDP2's sections and the optimizer compute this, not a program";
  return Check(kernel, *signature).run();
}

}  // namespace foreshard
