#include "tests/contract/host_math.hpp"

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numbers>

#include "tests/contract/host_float8.hpp"
#include "tests/contract/host_optimizers.hpp"
#include "tests/contract/host_view.hpp"

namespace foreshard {
namespace {

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

float from_float16(std::uint16_t bits) {
  const int exponent = (bits >> 10U) & 0x1f;
  const int fraction = bits & 0x3ff;
  double value = 0;
  if (exponent == 0x1f)
    value = fraction == 0 ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  else if (exponent == 0)
    value = std::ldexp(fraction, -24);
  else
    value = std::ldexp(1024 + fraction, exponent - 25);
  return static_cast<float>((bits & 0x8000U) != 0 ? -value : value);
}

/// A number rounded to `digits` binary digits, to nearest even, not below the spacing 2^`lowest`.
double to_digits(double value, int digits, int lowest) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value) - digits + 1, lowest);
  return std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
}

std::uint16_t to_bfloat16(double value) {
  if (std::isnan(value)) return 0x7fc0;
  // float(value) is exact after the rounding, or infinite.
  const auto wide = std::bit_cast<std::uint32_t>(static_cast<float>(to_digits(value, 8, -133)));
  return static_cast<std::uint16_t>(wide >> 16U);
}

std::uint16_t to_float16(double value) {
  if (std::isnan(value)) return 0x7e00;
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::abs(to_digits(value, 11, -24));
  if (magnitude >= 65536) return sign | 0x7c00;
  if (magnitude < std::ldexp(1, -14)) return sign | static_cast<std::uint16_t>(std::ldexp(magnitude, 24));
  const int exponent = std::ilogb(magnitude);
  const auto fraction = static_cast<std::uint16_t>(std::ldexp(magnitude, 10 - exponent)) & 0x3ffU;
  return static_cast<std::uint16_t>(sign | (static_cast<unsigned>(exponent + 15) << 10U) | fraction);
}

template <class T>
T read(Address address) {
  T value;
  std::memcpy(&value, reinterpret_cast<const void*>(address), sizeof value);
  return value;
}

template <class T>
void write(Address address, T value) {
  std::memcpy(reinterpret_cast<void*>(address), &value, sizeof value);
}

}  // namespace

double load_element(Address address, DType dtype) {
  switch (dtype) {
    case DType::float32:
      return read<float>(address);
    case DType::bfloat16:
      return from_bfloat16(read<std::uint16_t>(address));
    case DType::float16:
      return from_float16(read<std::uint16_t>(address));
    case DType::float64:
      return read<double>(address);
    case DType::int64:
      return static_cast<double>(read<std::int64_t>(address));
    case DType::int32:
      return read<std::int32_t>(address);
    case DType::uint8:
    case DType::bool8:
      return read<std::uint8_t>(address);
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
      return from_float8(read<std::uint8_t>(address), dtype);
  }
  return 0;
}

void store_element(Address address, DType dtype, double value) {
  switch (dtype) {
    case DType::float32:
      return write(address, static_cast<float>(value));
    case DType::bfloat16:
      return write(address, to_bfloat16(value));
    case DType::float16:
      return write(address, to_float16(value));
    case DType::float64:
      return write(address, value);
    case DType::int64:
      return write(address, static_cast<std::int64_t>(value));
    case DType::int32:
      return write(address, static_cast<std::int32_t>(value));
    case DType::uint8:
      return write(address, static_cast<std::uint8_t>(value));
    case DType::bool8:
      return write(address, static_cast<std::uint8_t>(value != 0));
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
      return write(address, to_float8(to_float8_digits(value, dtype), dtype));
  }
}

double rounded_to(DType dtype, double value) {
  std::uint64_t memory = 0;
  const auto address = reinterpret_cast<Address>(&memory);
  store_element(address, dtype, value);
  return load_element(address, dtype);
}

TensorView contiguous_view(DType dtype, std::vector<std::uint64_t> shape) {
  TensorView view{0, dtype, false, std::move(shape), {}};
  view.strides.assign(view.shape.size(), 1);
  for (std::size_t d = view.shape.size(); d-- > 1;) view.strides[d - 1] = view.strides[d] * view.shape[d];
  return view;
}

namespace {

/// A kernel with its operands on host memory; operator[] counts them as kernel.hpp does.
class Call {
 public:
  Call(const Kernel& kernel, std::span<const Address> addresses) : c(kernel) {
    FORESHARD_CHECK(addresses.size() == c.operands.size(), "one address an operand");
    for (std::size_t i = 0; i < c.operands.size(); ++i) operands_.emplace_back(c.operands[i], addresses[i]);
  }
  [[nodiscard]] const HostView& operator[](std::size_t i) const {
    FORESHARD_CHECK(i < operands_.size(), "an operand is missing");
    return operands_[i];
  }
  [[nodiscard]] std::size_t count() const { return operands_.size(); }
  [[nodiscard]] bool has(std::size_t i) const { return i < operands_.size() && operands_[i].present(); }

  const Kernel& c;

 private:
  std::vector<HostView> operands_;
};

double sigmoid(double x) {
  return 1 / (1 + std::exp(-x));
}
double silu(double x) {
  return x * sigmoid(x);
}
double silu_slope(double x) {
  return sigmoid(x) * (1 + x * (1 - sigmoid(x)));
}
double gelu(double x) {
  return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
}
double gelu_slope(double x) {
  const double density = std::exp(-0.5 * x * x) / std::sqrt(2 * std::numbers::pi);
  return 0.5 * (1 + std::erf(x / std::numbers::sqrt2)) + x * density;
}

// ---- Elementwise

using Formula = std::function<double(double, double, double)>;

/// out = formula(first, second, third input); missing inputs are 0.
void elementwise(const Call& call, const Formula& formula) {
  const HostView& out = call[0];
  std::vector<HostView> inputs;
  for (std::size_t i = 1; i < call.count(); ++i) inputs.push_back(call[i].expanded(out.shape()));
  const std::uint64_t n = out.numel();
  for (std::uint64_t i = 0; i < n; ++i) {
    double x[3] = {};
    for (std::size_t k = 0; k < inputs.size(); ++k) x[k] = inputs[k][i];
    out.set(i, formula(x[0], x[1], x[2]));
  }
}

void dropout(const Call& call) {
  const HostView& out = call[0];
  const HostView& mask = call[1];
  const HostView x = call[2].expanded(out.shape());
  const double p = call.c.alpha;
  for (std::uint64_t i = 0; i < out.numel(); ++i) {
    const std::uint64_t bits = bits_of_counter(call.c.integers.at(0), call.c.integers.at(1) + i);
    const bool kept = dropout_keeps(bits, p);
    mask.set(i, kept ? 1 : 0);
    out.set(i, kept ? x[i] / (1 - p) : 0);
  }
}

// ---- Reductions and norms

void sum_to(const Call& call) {
  const HostView& out = call[0];
  const HostView& x = call[1];
  FORESHARD_CHECK(out.shape().size() == x.shape().size(), "sum_to keeps the rank");
  std::vector<double> sums(out.numel(), 0);
  for (std::uint64_t i = 0; i < x.numel(); ++i) {
    std::uint64_t rest = i;
    std::uint64_t target = 0;
    std::uint64_t step = 1;
    for (std::size_t d = x.shape().size(); d-- > 0;) {
      if (out.shape()[d] != 1) target += rest % x.shape()[d] * step;
      rest /= x.shape()[d];
      step *= out.shape()[d];
    }
    sums[target] += x[i];
  }
  for (std::uint64_t i = 0; i < sums.size(); ++i) out.set(i, call.c.alpha * sums[i]);
}

/// y = (x − mean) × rstd × weight + bias row by row; without `mean`, RMSNorm.
void norm(const Call& call, const HostView& y, const HostView* mean, const HostView& rstd, const HostView& x,
          const HostView* weight, const HostView* bias) {
  const std::uint64_t n = x.last();
  for (std::uint64_t r = 0; r < x.rows(); ++r) {
    double m = 0;
    double variance = 0;
    if (mean != nullptr)
      for (std::uint64_t i = 0; i < n; ++i) m += x[r * n + i] / static_cast<double>(n);
    for (std::uint64_t i = 0; i < n; ++i) variance += std::pow(x[r * n + i] - m, 2) / static_cast<double>(n);
    const double scale = 1 / std::sqrt(variance + call.c.alpha);
    if (mean != nullptr) mean->set(r, m);
    rstd.set(r, scale);
    for (std::uint64_t i = 0; i < n; ++i)
      y.set(r * n + i,
            (x[r * n + i] - m) * scale * (weight != nullptr ? (*weight)[i] : 1) + (bias != nullptr ? (*bias)[i] : 0));
  }
}

/// dx = rstd × (g − mean(g) − x̂ × mean(g × x̂)) with g = dy × weight; RMSNorm has no mean(g). Plus `more`.
void norm_backward(const HostView& dx, const HostView& dy, const HostView& x, const HostView* mean,
                   const HostView& rstd, const HostView* weight, const HostView* more) {
  const std::uint64_t n = x.last();
  for (std::uint64_t r = 0; r < x.rows(); ++r) {
    const double m = mean != nullptr ? (*mean)[r] : 0;
    const double scale = rstd[r];
    std::vector<double> g(n);
    std::vector<double> normed(n);
    double sum_g = 0;
    double sum_gx = 0;
    for (std::uint64_t i = 0; i < n; ++i) {
      g[i] = dy[r * n + i] * (weight != nullptr ? (*weight)[i] : 1);
      normed[i] = (x[r * n + i] - m) * scale;
      sum_g += g[i];
      sum_gx += g[i] * normed[i];
    }
    if (mean == nullptr) sum_g = 0;
    const auto count = static_cast<double>(n);
    for (std::uint64_t i = 0; i < n; ++i)
      dx.set(r * n + i,
             scale * (g[i] - sum_g / count - normed[i] * sum_gx / count) + (more != nullptr ? (*more)[r * n + i] : 0));
  }
}

void norm_backward_weights(const HostView* dweight, const HostView* dbias, const HostView& dy, const HostView& x,
                           const HostView* mean, const HostView& rstd) {
  const std::uint64_t n = x.last();
  for (std::uint64_t i = 0; i < n; ++i) {
    double weight = 0;
    double bias = 0;
    for (std::uint64_t r = 0; r < x.rows(); ++r) {
      const double m = mean != nullptr ? (*mean)[r] : 0;
      weight += dy[r * n + i] * (x[r * n + i] - m) * rstd[r];
      bias += dy[r * n + i];
    }
    if (dweight != nullptr) dweight->set(i, weight);
    if (dbias != nullptr) dbias->set(i, bias);
  }
}

void norms(const Call& call) {
  const auto optional = [&](std::size_t i) { return call.has(i) ? &call[i] : nullptr; };
  switch (call.c.op) {
    case KernelOp::layer_norm:
      return norm(call, call[0], &call[1], call[2], call[3], optional(4), optional(5));
    case KernelOp::layer_norm_backward:
      return norm_backward(call[0], call[1], call[2], &call[3], call[4], optional(5), nullptr);
    case KernelOp::layer_norm_backward_weights:
      return norm_backward_weights(optional(0), optional(1), call[2], call[3], &call[4], call[5]);
    case KernelOp::rms_norm:
      return norm(call, call[0], nullptr, call[1], call[2], &call[3], nullptr);
    case KernelOp::rms_norm_backward:
      return norm_backward(call[0], call[1], call[2], nullptr, call[3], &call[4], nullptr);
    case KernelOp::rms_norm_backward_weight:
      return norm_backward_weights(&call[0], nullptr, call[1], call[2], nullptr, call[3]);
    case KernelOp::add_rms_norm: {
      const HostView residual = call[4].expanded(call[3].shape());
      for (std::uint64_t i = 0; i < call[0].numel(); ++i) call[0].set(i, call[3][i] + residual[i]);
      return norm(call, call[1], nullptr, call[2], call[0], &call[5], nullptr);
    }
    case KernelOp::add_rms_norm_backward:
      return norm_backward(call[0], call[1], call[3], nullptr, call[4], &call[5], &call[2]);
    default:
      FORESHARD_CHECK(false, "not a norm");
  }
}

// ---- GEMMs and attention

void gemm(const Call& call) {
  const HostView& out = call[0];
  const bool batched = out.shape().size() == 3;
  const std::uint64_t batch = batched ? out.shape()[0] : 1;
  const std::size_t first = batched ? 1 : 0;
  const std::uint64_t m = out.shape()[first];
  const std::uint64_t n = out.shape()[first + 1];
  const std::uint64_t k = call[1].shape()[first + 1];
  FORESHARD_CHECK(call[1].shape()[first] == m && call[2].shape()[first] == k && call[2].shape()[first + 1] == n,
                  "gemm: shapes");
  std::vector<double> row(k);
  for (std::uint64_t g = 0; g < batch; ++g)
    for (std::uint64_t i = 0; i < m; ++i) {
      for (std::uint64_t l = 0; l < k; ++l) row[l] = call[1][(g * m + i) * k + l];
      for (std::uint64_t j = 0; j < n; ++j) {
        double sum = 0;
        for (std::uint64_t l = 0; l < k; ++l) sum += row[l] * call[2][(g * k + l) * n + j];
        const std::uint64_t place = (g * m + i) * n + j;
        out.set(place, call.c.alpha * sum + (call.has(3) ? call[3][j] : 0) + (call.c.accumulate ? out[place] : 0));
      }
    }
}

/// One query's probabilities: exp(scale × q·k − logsumexp) over the keys it sees (from 0 to its own place if causal).
struct AttentionRow {
  std::vector<double> scores;  ///< scale × q·k of the keys that are seen
  double logsumexp = 0;
};

AttentionRow attention_row(const Call& call, const HostView& q, const HostView& k, std::uint64_t b, std::uint64_t h,
                           std::uint64_t i) {
  const std::uint64_t kv = h / (q.shape()[1] / k.shape()[1]);
  const std::uint64_t keys = call.c.causal ? std::min(i + 1, k.shape()[2]) : k.shape()[2];
  AttentionRow row{std::vector<double>(keys, 0), 0};
  double largest = -std::numeric_limits<double>::infinity();
  for (std::uint64_t j = 0; j < keys; ++j) {
    for (std::uint64_t d = 0; d < q.last(); ++d)
      row.scores[j] += call.c.alpha * q.at({b, h, i, d}) * k.at({b, kv, j, d});
    largest = std::max(largest, row.scores[j]);
  }
  double sum = 0;
  for (const double score : row.scores) sum += std::exp(score - largest);
  row.logsumexp = largest + std::log(sum);
  return row;
}

void attention(const Call& call) {
  const HostView& out = call[0];
  const HostView& q = call[2];
  const HostView& v = call[4];
  for (std::uint64_t b = 0; b < q.shape()[0]; ++b)
    for (std::uint64_t h = 0; h < q.shape()[1]; ++h)
      for (std::uint64_t i = 0; i < q.shape()[2]; ++i) {
        const AttentionRow row = attention_row(call, q, call[3], b, h, i);
        const std::uint64_t kv = h / (q.shape()[1] / v.shape()[1]);
        call[1].set_at({b, h, i}, row.logsumexp);
        for (std::uint64_t d = 0; d < v.last(); ++d) {
          double sum = 0;
          for (std::uint64_t j = 0; j < row.scores.size(); ++j)
            sum += std::exp(row.scores[j] - row.logsumexp) * v.at({b, kv, j, d});
          out.set_at({b, h, i, d}, sum);
        }
      }
}

/// One query's part in the gradients of its keys and values, which stand in `dk` and `dv` [keys, head_dim].
void attention_backward_row(const Call& call, std::uint64_t b, std::uint64_t h, std::uint64_t i,
                            std::vector<double>& dk, std::vector<double>& dv) {
  const HostView& d_out = call[3];
  const HostView& q = call[4];
  const HostView& k = call[5];
  const HostView& v = call[6];
  const std::uint64_t dim = q.last();
  const std::uint64_t kv = h / (q.shape()[1] / k.shape()[1]);
  const AttentionRow row = attention_row(call, q, k, b, h, i);
  const double logsumexp = call[8].at({b, h, i});
  double delta = 0;
  for (std::uint64_t d = 0; d < dim; ++d) delta += d_out.at({b, h, i, d}) * call[7].at({b, h, i, d});
  std::vector<double> dq(dim, 0);
  for (std::uint64_t j = 0; j < row.scores.size(); ++j) {
    const double p = std::exp(row.scores[j] - logsumexp);
    double dp = 0;
    for (std::uint64_t d = 0; d < dim; ++d) {
      dp += d_out.at({b, h, i, d}) * v.at({b, kv, j, d});
      dv[j * dim + d] += p * d_out.at({b, h, i, d});
    }
    const double ds = p * (dp - delta) * call.c.alpha;
    for (std::uint64_t d = 0; d < dim; ++d) {
      dq[d] += ds * k.at({b, kv, j, d});
      dk[j * dim + d] += ds * q.at({b, h, i, d});
    }
  }
  for (std::uint64_t d = 0; d < dim; ++d) call[0].set_at({b, h, i, d}, dq[d]);
}

void attention_backward(const Call& call) {
  const HostView& q = call[4];
  const HostView& k = call[5];
  const std::uint64_t group = q.shape()[1] / k.shape()[1];
  const std::uint64_t dim = q.last();
  for (std::uint64_t b = 0; b < q.shape()[0]; ++b)
    for (std::uint64_t kv = 0; kv < k.shape()[1]; ++kv) {
      std::vector<double> dk(k.shape()[2] * dim, 0);
      std::vector<double> dv(k.shape()[2] * dim, 0);
      for (std::uint64_t h = kv * group; h < (kv + 1) * group; ++h)
        for (std::uint64_t i = 0; i < q.shape()[2]; ++i) attention_backward_row(call, b, h, i, dk, dv);
      for (std::uint64_t j = 0; j < k.shape()[2]; ++j)
        for (std::uint64_t d = 0; d < dim; ++d) {
          call[1].set_at({b, kv, j, d}, dk[j * dim + d]);
          call[2].set_at({b, kv, j, d}, dv[j * dim + d]);
        }
    }
}

// ---- Embedding, losses

void embedding(const Call& call) {
  const std::uint64_t dim = call[0].last();
  for (std::uint64_t i = 0; i < call[2].numel(); ++i)
    for (std::uint64_t d = 0; d < dim; ++d) call[0].set(i * dim + d, call[1][call[2].integer(i) * dim + d]);
}

void embedding_backward(const Call& call) {
  const std::uint64_t dim = call[0].last();
  std::vector<double> sums(call[0].numel(), 0);
  for (std::uint64_t i = 0; i < call[2].numel(); ++i)
    for (std::uint64_t d = 0; d < dim; ++d) sums[call[2].integer(i) * dim + d] += call[1][i * dim + d];
  for (std::uint64_t i = 0; i < sums.size(); ++i) call[0].set(i, sums[i]);
}

double row_logsumexp(const HostView& x, std::uint64_t row) {
  const std::uint64_t n = x.last();
  double largest = -std::numeric_limits<double>::infinity();
  for (std::uint64_t i = 0; i < n; ++i) largest = std::max(largest, x[row * n + i]);
  double sum = 0;
  for (std::uint64_t i = 0; i < n; ++i) sum += std::exp(x[row * n + i] - largest);
  return largest + std::log(sum);
}

void log_softmax(const Call& call) {
  const HostView& x = call[1];
  for (std::uint64_t r = 0; r < x.rows(); ++r) {
    const double norm_of_row = row_logsumexp(x, r);
    for (std::uint64_t i = 0; i < x.last(); ++i) call[0].set(r * x.last() + i, x[r * x.last() + i] - norm_of_row);
  }
}

void log_softmax_backward(const Call& call) {
  const HostView& dy = call[1];
  const std::uint64_t n = dy.last();
  for (std::uint64_t r = 0; r < dy.rows(); ++r) {
    double sum = 0;
    for (std::uint64_t i = 0; i < n; ++i) sum += dy[r * n + i];
    for (std::uint64_t i = 0; i < n; ++i) call[0].set(r * n + i, dy[r * n + i] - std::exp(call[2][r * n + i]) * sum);
  }
}

void softmax(const Call& call) {
  const HostView& x = call[1];
  const std::uint64_t n = x.last();
  for (std::uint64_t r = 0; r < x.rows(); ++r) {
    const double norm = row_logsumexp(x, r);
    bool none = true;
    for (std::uint64_t i = 0; i < n; ++i) none = none && x[r * n + i] == -std::numeric_limits<double>::infinity();
    for (std::uint64_t i = 0; i < n; ++i) call[0].set(r * n + i, none ? 0 : std::exp(x[r * n + i] - norm));
  }
}

void softmax_backward(const Call& call) {
  const HostView& dy = call[1];
  const HostView& y = call[2];
  const std::uint64_t n = dy.last();
  for (std::uint64_t r = 0; r < dy.rows(); ++r) {
    double sum = 0;
    for (std::uint64_t i = 0; i < n; ++i) sum += dy[r * n + i] * y[r * n + i];
    for (std::uint64_t i = 0; i < n; ++i) call[0].set(r * n + i, y[r * n + i] * (dy[r * n + i] - sum));
  }
}

void causal_mask(const Call& call) {
  const std::uint64_t keys = call[0].last();
  for (std::uint64_t i = 0; i < call[0].numel(); ++i)
    call[0].set(i, i % keys <= i / keys ? 0 : -std::numeric_limits<double>::infinity());
}

void nll_loss(const Call& call) {
  const HostView& x = call[2];
  double sum = 0;
  for (std::uint64_t r = 0; r < x.rows(); ++r) sum -= x[r * x.last() + call[3].integer(r)];
  call[0].set(0, sum / static_cast<double>(x.rows()));
  call[1].set(0, static_cast<double>(x.rows()));
}

void nll_loss_backward(const Call& call) {
  const HostView& dx = call[0];
  for (std::uint64_t i = 0; i < dx.numel(); ++i) dx.set(i, 0);
  for (std::uint64_t r = 0; r < dx.rows(); ++r)
    dx.set(r * dx.last() + call[2].integer(r), -call[1][0] / static_cast<double>(dx.rows()));
}

void cross_entropy(const Call& call) {
  const HostView& x = call[2];
  const std::uint64_t n = x.last();
  const auto rows = static_cast<double>(x.rows());
  double loss = 0;
  for (std::uint64_t r = 0; r < x.rows(); ++r) {
    const double norm_of_row = row_logsumexp(x, r);
    const auto target = static_cast<std::uint64_t>(call[3].integer(r));
    loss += (norm_of_row - x[r * n + target]) / rows;
    for (std::uint64_t i = 0; i < n; ++i)
      call[1].set(r * n + i, (std::exp(x[r * n + i] - norm_of_row) - (i == target ? 1 : 0)) / rows);
  }
  call[0].set(0, loss);
}

// ---- Shape and fused forms

void cat(const Call& call) {
  const HostView& out = call[0];
  const auto dim = static_cast<std::size_t>(call.c.integers.at(0));
  std::uint64_t inner = 1;
  for (std::size_t d = dim + 1; d < out.shape().size(); ++d) inner *= out.shape()[d];
  std::uint64_t first = 0;
  for (std::size_t p = 1; p < call.count(); ++p) {
    const std::uint64_t length = call[p].shape()[dim] * inner;
    for (std::uint64_t i = 0; i < call[p].numel(); ++i)
      out.set(i / length * out.shape()[dim] * inner + first + i % length, call[p][i]);
    first += length;
  }
}

void rope(const Call& call, bool backward) {
  const HostView& out = call[0];
  const HostView& x = call[1];
  const std::uint64_t half = x.last() / 2;
  for (std::uint64_t b = 0; b < x.shape()[0]; ++b)
    for (std::uint64_t s = 0; s < x.shape()[1]; ++s)
      for (std::uint64_t h = 0; h < x.shape()[2]; ++h)
        for (std::uint64_t d = 0; d < half; ++d) {
          const double cos = call[2].at({s, d});
          const double sin = call[3].at({s, d}) * (backward ? -1 : 1);
          const double left = x.at({b, s, h, d});
          const double right = x.at({b, s, h, half + d});
          out.set_at({b, s, h, d}, left * cos - right * sin);
          out.set_at({b, s, h, half + d}, right * cos + left * sin);
        }
}

void swiglu_backward(const Call& call) {
  const HostView& dgate = call[0];
  for (std::uint64_t i = 0; i < dgate.numel(); ++i) {
    const double dy = call[2][i];
    const double gate = call[3][i];
    const double up = call[4][i];
    dgate.set(i, dy * up * silu_slope(gate));
    call[1].set(i, dy * silu(gate));
  }
}

// ---- FSDP2's sections

void copy_in(const Call& call) {
  const HostView& flat = call[0];
  std::uint64_t first = 0;
  for (std::size_t p = 1; p < call.count(); ++p) {
    const auto padded = static_cast<std::uint64_t>(call.c.integers.at(p - 1));
    const bool placed = call.c.integers.size() > call.count() - 1;
    if (placed) first = static_cast<std::uint64_t>(call.c.integers.at(call.count() - 1 + p - 1));
    for (std::uint64_t i = 0; i < padded; ++i) flat.set(first + i, i < call[p].numel() ? call[p][i] : 0);
    first += padded;
  }
}

/// integers {ranks, padded elements a rank of each}: what lies between the parameters and the flat buffer of all ranks.
struct Places {
  std::uint64_t ranks;
  std::vector<std::uint64_t> padded;
  std::vector<std::uint64_t> first;  ///< of each, in one rank's part
  std::uint64_t total = 0;           ///< one rank's part
};

Places places(const Kernel& c) {
  Places out{static_cast<std::uint64_t>(c.integers.at(0)), {}, {}, 0};
  for (std::size_t i = 1; i < c.integers.size(); ++i) {
    out.padded.push_back(static_cast<std::uint64_t>(c.integers[i]));
    out.first.push_back(out.total);
    out.total += out.padded.back();
  }
  return out;
}

void copy_out(const Call& call) {
  const Places where = places(call.c);
  const HostView& gathered = call[call.count() - 1];
  for (std::size_t p = 0; p + 1 < call.count(); ++p)
    for (std::uint64_t i = 0; i < call[p].numel(); ++i) {
      const std::uint64_t rank = i / where.padded.at(p);
      call[p].set(i, gathered[rank * where.total + where.first[p] + i % where.padded[p]]);
    }
}

void chunk_cat(const Call& call) {
  const Places where = places(call.c);
  const HostView& flat = call[0];
  for (std::size_t p = 0; p + 1 < call.count(); ++p)
    for (std::uint64_t i = 0; i < where.ranks * where.padded.at(p); ++i) {
      const std::uint64_t rank = i / where.padded[p];
      const double value = i < call[p + 1].numel() ? call.c.alpha * call[p + 1][i] : 0;
      flat.set(rank * where.total + where.first[p] + i % where.padded[p], value);
    }
}

// ---- Data and initial values

void random(const Call& call) {
  const HostView& out = call[0];
  const auto stream = static_cast<std::uint64_t>(call.c.integers.at(0));
  const auto first = static_cast<std::uint64_t>(call.c.integers.at(1));
  for (std::uint64_t i = 0; i < out.numel(); ++i) {
    if (call.c.op == KernelOp::random_normal)
      out.set(i, static_cast<float>(call.c.alpha) * normal_of_counter(stream, first + i));
    else
      out.set(i, static_cast<double>(token_of_bits(bits_of_counter(stream, first + i),
                                                   static_cast<std::uint64_t>(call.c.integers.at(2)))));
  }
}

/// cos or sin of outer(arange(s), 1 / theta ** (arange(0, d, 2) / d)) in float32, step by step.
void rotary(const Call& call) {
  const HostView& out = call[0];
  const std::uint64_t half = out.last();
  for (std::uint64_t s = 0; s < out.shape()[0]; ++s)
    for (std::uint64_t i = 0; i < half; ++i) {
      const float exponent = static_cast<float>(2 * i) / static_cast<float>(2 * half);
      const float frequency = 1.0F / std::pow(static_cast<float>(call.c.scalars.at(0)), exponent);
      const float angle = static_cast<float>(s) * frequency;
      out.set(s * half + i, call.c.op == KernelOp::rotary_cos ? std::cos(angle) : std::sin(angle));
    }
}

void run_elementwise(const Call& call) {
  const double alpha = call.c.alpha;
  const auto with = [&](const Formula& formula) { elementwise(call, formula); };
  switch (call.c.op) {
    case KernelOp::fill:
      return with([=](double, double, double) { return alpha; });
    case KernelOp::copy:
      return with([](double x, double, double) { return x; });
    case KernelOp::add:
      return with([=](double a, double b, double) { return a + alpha * b; });
    case KernelOp::sub:
      return with([](double a, double b, double) { return a - b; });
    case KernelOp::mul:
      return with([](double a, double b, double) { return a * b; });
    case KernelOp::neg:
      return with([](double x, double, double) { return -x; });
    case KernelOp::mul_scalar:
      return with([=](double x, double, double) { return alpha * x; });
    case KernelOp::add_scalar:
      return with([=](double x, double, double) { return x + alpha; });
    case KernelOp::silu:
      return with([](double x, double, double) { return silu(x); });
    case KernelOp::silu_backward:
      return with([](double dy, double x, double) { return dy * silu_slope(x); });
    case KernelOp::gelu:
      return with([](double x, double, double) { return gelu(x); });
    case KernelOp::gelu_backward:
      return with([](double dy, double x, double) { return dy * gelu_slope(x); });
    case KernelOp::dropout:
      return dropout(call);
    case KernelOp::dropout_backward:
      return with([=](double dy, double mask, double) { return mask != 0 ? dy / (1 - alpha) : 0; });
    case KernelOp::swiglu:
      return with([](double gate, double up, double) { return silu(gate) * up; });
    default:
      FORESHARD_CHECK(false, "not elementwise");
  }
}

}  // namespace

void run_on_host(const Kernel& kernel, std::span<const Address> addresses) {
  if (kernel.op == KernelOp::fused) return;
  const Call call(kernel, addresses);
  switch (kernel.op) {
    case KernelOp::sum_to:
      return sum_to(call);
    case KernelOp::layer_norm:
    case KernelOp::layer_norm_backward:
    case KernelOp::layer_norm_backward_weights:
    case KernelOp::rms_norm:
    case KernelOp::rms_norm_backward:
    case KernelOp::rms_norm_backward_weight:
    case KernelOp::add_rms_norm:
    case KernelOp::add_rms_norm_backward:
      return norms(call);
    case KernelOp::gemm:
      return gemm(call);
    case KernelOp::attention:
      return attention(call);
    case KernelOp::attention_backward:
      return attention_backward(call);
    case KernelOp::embedding:
      return embedding(call);
    case KernelOp::embedding_backward:
      return embedding_backward(call);
    case KernelOp::log_softmax:
      return log_softmax(call);
    case KernelOp::log_softmax_backward:
      return log_softmax_backward(call);
    case KernelOp::softmax:
      return softmax(call);
    case KernelOp::softmax_backward:
      return softmax_backward(call);
    case KernelOp::causal_mask:
      return causal_mask(call);
    case KernelOp::nll_loss:
      return nll_loss(call);
    case KernelOp::nll_loss_backward:
      return nll_loss_backward(call);
    case KernelOp::cross_entropy:
      return cross_entropy(call);
    case KernelOp::cat:
      return cat(call);
    case KernelOp::rope:
    case KernelOp::rope_backward:
      return rope(call, kernel.op == KernelOp::rope_backward);
    case KernelOp::swiglu_backward:
      return swiglu_backward(call);
    case KernelOp::copy_in:
      return copy_in(call);
    case KernelOp::copy_out:
      return copy_out(call);
    case KernelOp::chunk_cat:
      return chunk_cat(call);
    case KernelOp::adam:
    case KernelOp::sgd:
    case KernelOp::foreach_lerp:
    case KernelOp::foreach_mul:
    case KernelOp::foreach_addcmul:
    case KernelOp::foreach_sqrt:
    case KernelOp::foreach_div:
    case KernelOp::foreach_add:
    case KernelOp::foreach_addcdiv:
      return optimize_on_host(kernel, addresses);
    case KernelOp::amax:
    case KernelOp::cast_float8:
    case KernelOp::scaled_mm:
    case KernelOp::transpose_float8:
    case KernelOp::shard_amaxes:
    case KernelOp::copy_in_float8:
      return run_float8_on_host(kernel, addresses);
    case KernelOp::random_normal:
    case KernelOp::random_tokens:
      return random(call);
    case KernelOp::rotary_cos:
    case KernelOp::rotary_sin:
      return rotary(call);
    case KernelOp::arange:
      for (std::uint64_t i = 0; i < call[0].numel(); ++i) call[0].set(i, static_cast<double>(i));
      return;
    default:
      return run_elementwise(call);
  }
}

}  // namespace foreshard
