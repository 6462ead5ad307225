#include "tests/contract/host_float8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "tests/contract/host_view.hpp"

namespace foreshard {
namespace {

/// How a float8 dtype divides its bits.
struct Layout {
  int fraction_bits;
  int bias;
};
constexpr Layout layout_of(DType dtype) {
  return dtype == DType::float8_e4m3fn ? Layout{3, 7} : Layout{2, 15};
}
constexpr std::uint8_t kNaN = 0x7f;
constexpr std::uint8_t kInfinity = 0x7c;  // of e5m2
constexpr unsigned kSign = 0x80;

void amax(const Kernel& kernel, std::span<const Address> addresses) {
  const HostView x(kernel.operands.at(1), addresses[1]);
  double largest = 0;
  for (std::uint64_t i = 0; i < x.numel() && !std::isnan(largest); ++i) {
    const double magnitude = std::abs(x[i]);
    if (std::isnan(magnitude) || magnitude > largest) largest = magnitude;
  }
  HostView(kernel.operands[0], addresses[0]).set(0, largest);
}

/// The bits turned, whatever they stand for.
void transpose(const Kernel& kernel, std::span<const Address> addresses) {
  const auto bytes = [&](std::size_t i) {
    TensorView view = kernel.operands.at(i);
    view.dtype = DType::uint8;
    return HostView(view, addresses[i]);
  };
  const HostView out = bytes(0);
  const HostView x = bytes(1);
  for (std::uint64_t i = 0; i < x.shape()[0]; ++i)
    for (std::uint64_t j = 0; j < x.shape()[1]; ++j) out.set_at({j, i}, x.at({i, j}));
}

/// torchao, float8_utils.py: amax_to_scale (its EPS), and what _scaled_mm is given: the scale's reciprocal.
float scale_of(double largest, DType dtype) {
  constexpr double kLeast = 1e-12;
  return static_cast<float>(max_of_float8(dtype) / (largest < kLeast ? kLeast : largest));
}

/// A scaled number as float8 takes it.
double saturated(float scaled, DType dtype) {
  const double most = max_of_float8(dtype);
  return std::isnan(scaled) ? scaled : std::clamp<double>(scaled, -most, most);
}

void cast(const Kernel& kernel, std::span<const Address> addresses) {
  const HostView plain(kernel.operands.at(0), addresses[0]);
  const HostView transposed(kernel.operands.at(1), addresses[1]);
  const HostView x(kernel.operands.at(3), addresses[3]);
  const DType dtype = plain.present() ? plain.dtype() : transposed.dtype();
  const float scale = scale_of(HostView(kernel.operands.at(4), addresses[4])[0], dtype);
  for (std::uint64_t i = 0; i < x.shape()[0]; ++i)
    for (std::uint64_t j = 0; j < x.shape()[1]; ++j) {
      const double value = saturated(static_cast<float>(x.at({i, j})) * scale, dtype);
      if (plain.present()) plain.set_at({i, j}, value);
      if (transposed.present()) transposed.set_at({j, i}, value);
    }
  HostView(kernel.operands[2], addresses[2]).set(0, 1.0F / scale);
}

double as_bfloat16(double x) {
  return rounded_to(DType::bfloat16, x);
}

void shard_amaxes(const Kernel& kernel, std::span<const Address> addresses) {
  const HostView out(kernel.operands.at(0), addresses[0]);
  for (std::size_t p = 1; p < kernel.operands.size(); ++p) {
    const HostView x(kernel.operands[p], addresses[p]);
    const std::uint64_t numel = x.present() ? x.numel() : 0;  // a shard of nothing has no memory
    double largest = 0;
    for (std::uint64_t i = 0; i < numel && !std::isnan(largest); ++i) {
      const double magnitude = std::abs(as_bfloat16(x[i]));
      if (std::isnan(magnitude) || magnitude > largest) largest = magnitude;
    }
    out.set(p - 1, largest);
  }
}

void copy_in(const Kernel& kernel, std::span<const Address> addresses) {
  const std::size_t shards = kernel.operands.size() / 2 - 1;
  const auto view = [&](std::size_t i) { return HostView(kernel.operands.at(i), addresses[i]); };
  const HostView scales = view(shards);
  const HostView amaxes = view(2 * shards + 1);
  std::uint64_t cast = 0;
  for (std::size_t p = 0; p < shards; ++p) {
    const HostView place = view(p);
    const HostView shard = view(shards + 1 + p);
    const std::uint64_t of_shard = shard.present() ? shard.numel() : 0;
    const bool narrow = is_float8(place.dtype());
    const float scale = narrow ? scale_of(amaxes[cast], place.dtype()) : 1;
    if (narrow) scales.set(cast++, 1.0F / scale);
    for (std::uint64_t i = 0; i < place.numel(); ++i) {
      const double x = i < of_shard ? shard[i] : 0;
      place.set(i, narrow ? saturated(static_cast<float>(as_bfloat16(x)) * scale, place.dtype()) : x);
    }
  }
}

void multiply(const Kernel& kernel, std::span<const Address> addresses) {
  const HostView out(kernel.operands.at(0), addresses[0]);
  const HostView a(kernel.operands.at(1), addresses[1]);
  const HostView b(kernel.operands.at(2), addresses[2]);
  for (std::size_t i = 0; i < kernel.operands.size(); ++i)
    FORESHARD_CHECK((addresses[i] + kernel.operands[i].offset) % 16 == 0, "scaled_mm's operands lie as cuBLASLt asks");
  const double scale =
      HostView(kernel.operands.at(3), addresses[3])[0] * HostView(kernel.operands.at(4), addresses[4])[0];
  for (std::uint64_t i = 0; i < out.shape()[0]; ++i)
    for (std::uint64_t j = 0; j < out.shape()[1]; ++j) {
      double sum = 0;
      for (std::uint64_t l = 0; l < a.shape()[1]; ++l) sum += a.at({i, l}) * b.at({l, j});
      out.set_at({i, j}, scale * sum + (kernel.accumulate ? out.at({i, j}) : 0));
    }
}

}  // namespace

namespace {

double value_of(std::uint8_t bits, DType dtype) {
  const Layout layout = layout_of(dtype);
  const unsigned magnitude = bits & ~kSign;
  const int exponent = static_cast<int>(magnitude >> static_cast<unsigned>(layout.fraction_bits));
  const int one = 1 << layout.fraction_bits;
  const int fraction = static_cast<int>(magnitude) & (one - 1);
  double value = 0;
  if (magnitude == kNaN || (dtype == DType::float8_e5m2 && magnitude > kInfinity))
    value = std::numeric_limits<double>::quiet_NaN();
  else if (dtype == DType::float8_e5m2 && magnitude == kInfinity)
    value = std::numeric_limits<double>::infinity();
  else if (exponent == 0)
    value = std::ldexp(fraction, 1 - layout.bias - layout.fraction_bits);
  else
    value = std::ldexp(one + fraction, exponent - layout.bias - layout.fraction_bits);
  return (bits & kSign) != 0 ? -value : value;
}

std::array<double, 256> values_of(DType dtype) {
  std::array<double, 256> out{};
  for (std::size_t bits = 0; bits < out.size(); ++bits) out[bits] = value_of(static_cast<std::uint8_t>(bits), dtype);
  return out;
}

}  // namespace

double from_float8(std::uint8_t bits, DType dtype) {  // a million times a test: ldexp takes most of its time
  static const std::array<double, 256> kE4m3 = values_of(DType::float8_e4m3fn);
  static const std::array<double, 256> kE5m2 = values_of(DType::float8_e5m2);
  return (dtype == DType::float8_e5m2 ? kE5m2 : kE4m3)[bits];
}

double to_float8_digits(double value, DType dtype) {
  if (value == 0 || !std::isfinite(value)) return value;
  const Layout layout = layout_of(dtype);
  const int lowest = 1 - layout.bias - layout.fraction_bits;
  const int exponent = std::max(std::ilogb(value) - layout.fraction_bits, lowest);
  return std::ldexp(std::nearbyint(std::ldexp(value, -exponent)), exponent);
}

std::uint8_t to_float8(double value, DType dtype) {
  if (std::isnan(value)) return kNaN;
  const Layout layout = layout_of(dtype);
  const unsigned sign = std::signbit(value) ? kSign : 0;
  const double magnitude = std::abs(value);
  if (magnitude > max_of_float8(dtype))
    return static_cast<std::uint8_t>(sign | (dtype == DType::float8_e5m2 ? kInfinity : kNaN));
  if (magnitude < std::ldexp(1, 1 - layout.bias))
    return static_cast<std::uint8_t>(
        sign | static_cast<unsigned>(std::ldexp(magnitude, layout.bias - 1 + layout.fraction_bits)));
  const int exponent = std::ilogb(magnitude);
  const auto digits = static_cast<unsigned>(std::ldexp(magnitude, layout.fraction_bits - exponent));
  const unsigned fraction = digits - (1U << static_cast<unsigned>(layout.fraction_bits));
  const auto place = static_cast<unsigned>(exponent + layout.bias) << static_cast<unsigned>(layout.fraction_bits);
  return static_cast<std::uint8_t>(sign | place | fraction);
}

void run_float8_on_host(const Kernel& kernel, std::span<const Address> addresses) {
  FORESHARD_CHECK(addresses.size() == kernel.operands.size(), "one address an operand");
  if (kernel.op == KernelOp::amax) return amax(kernel, addresses);
  if (kernel.op == KernelOp::cast_float8) return cast(kernel, addresses);
  if (kernel.op == KernelOp::transpose_float8) return transpose(kernel, addresses);
  if (kernel.op == KernelOp::shard_amaxes) return shard_amaxes(kernel, addresses);
  if (kernel.op == KernelOp::copy_in_float8) return copy_in(kernel, addresses);
  FORESHARD_CHECK(kernel.op == KernelOp::scaled_mm, "a float8 op");
  multiply(kernel, addresses);
}

}  // namespace foreshard
