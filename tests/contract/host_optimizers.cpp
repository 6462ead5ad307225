#include "tests/contract/host_optimizers.hpp"

#include <cmath>

#include "tests/contract/host_view.hpp"

namespace foreshard {
namespace {

/// Operands list by list.
class Lists {
 public:
  Lists(const Kernel& kernel, std::span<const Address> addresses, std::size_t lists) {
    FORESHARD_CHECK(addresses.size() == kernel.operands.size(), "one address an operand");
    FORESHARD_CHECK(addresses.size() % lists == 0, "lists of different lengths");
    tensors_ = addresses.size() / lists;
    for (std::size_t i = 0; i < addresses.size(); ++i) views_.emplace_back(kernel.operands[i], addresses[i]);
  }
  [[nodiscard]] std::size_t tensors() const { return tensors_; }
  [[nodiscard]] const HostView& at(std::size_t list, std::size_t tensor) const {
    return views_[list * tensors_ + tensor];
  }

 private:
  std::size_t tensors_ = 0;
  std::vector<HostView> views_;
};

void adam(const Kernel& c, std::span<const Address> addresses) {
  const std::vector<double>& s = c.scalars;
  FORESHARD_CHECK(s.size() == 5, "adam: scalars");
  const Lists lists(c, addresses, c.casts ? 5 : 4);
  const double lr = s[0];
  const double beta1 = s[1];
  const double beta2 = s[2];
  const auto step = static_cast<double>(c.integers.at(0));
  const double correction1 = 1 - std::pow(beta1, step);
  const double correction2 = 1 - std::pow(beta2, step);
  for (std::size_t t = 0; t < lists.tensors(); ++t) {
    const HostView& p = lists.at(0, t);
    const HostView& m = lists.at(1, t);
    const HostView& v = lists.at(2, t);
    for (std::uint64_t i = 0; i < p.numel(); ++i) {
      const double g = lists.at(c.casts ? 4 : 3, t)[i] + s[4] * p[i];
      const double mean = m[i] + (1 - beta1) * (g - m[i]);
      const double square = beta2 * v[i] + (1 - beta2) * g * g;
      m.set(i, mean);
      v.set(i, square);
      p.set(i, p[i] - lr / correction1 * mean / (std::sqrt(square) / std::sqrt(correction2) + s[3]));
      if (c.casts) lists.at(3, t).set(i, p[i]);
    }
  }
}

void sgd(const Kernel& c, std::span<const Address> addresses) {
  const Lists lists(c, addresses, c.casts ? 3 : 2);
  for (std::size_t t = 0; t < lists.tensors(); ++t) {
    const HostView& p = lists.at(0, t);
    for (std::uint64_t i = 0; i < p.numel(); ++i) {
      p.set(i, p[i] - c.scalars.at(0) * (lists.at(c.casts ? 2 : 1, t)[i] + c.scalars.at(1) * p[i]));
      if (c.casts) lists.at(1, t).set(i, p[i]);
    }
  }
}

double to_float(double value) {
  return static_cast<double>(static_cast<float>(value));
}

/// Each operation on its own, rounded to float32 where the kernel rounds; float64 holds their exact products.
double pass(KernelOp op, double alpha, double a, double b, double c) {
  switch (op) {
    case KernelOp::foreach_lerp:
      if (std::abs(alpha) < 0.5) return a + alpha * to_float(b - a);
      return b - to_float(b - a) * to_float(1 - alpha);
    case KernelOp::foreach_mul:
      return a * alpha;
    case KernelOp::foreach_addcmul:
      return a + alpha * to_float(b * c);
    case KernelOp::foreach_sqrt:
      return std::sqrt(a);
    case KernelOp::foreach_div:
      return a / alpha;
    case KernelOp::foreach_add:
      return a + alpha;
    case KernelOp::foreach_addcdiv:
      return a + alpha * to_float(b / c);
    default:
      FORESHARD_CHECK(false, "not a foreach pass");
  }
}

std::size_t inputs_of(KernelOp op) {
  if (op == KernelOp::foreach_addcmul || op == KernelOp::foreach_addcdiv) return 3;
  return op == KernelOp::foreach_lerp ? 2 : 1;
}

void foreach_pass(const Kernel& c, std::span<const Address> addresses) {
  const std::size_t inputs = inputs_of(c.op);
  const Lists lists(c, addresses, 1 + inputs);
  const double alpha = to_float(c.alpha);
  for (std::size_t t = 0; t < lists.tensors(); ++t)
    for (std::uint64_t i = 0; i < lists.at(0, t).numel(); ++i) {
      double x[3] = {};
      for (std::size_t k = 0; k < inputs; ++k) x[k] = lists.at(1 + k, t)[i];
      lists.at(0, t).set(i, pass(c.op, alpha, x[0], x[1], x[2]));
    }
}

}  // namespace

void optimize_on_host(const Kernel& kernel, std::span<const Address> addresses) {
  if (kernel.op == KernelOp::adam) return adam(kernel, addresses);
  if (kernel.op == KernelOp::sgd) return sgd(kernel, addresses);
  foreach_pass(kernel, addresses);
}

}  // namespace foreshard
