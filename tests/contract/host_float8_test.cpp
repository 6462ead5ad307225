// The float8 reference: known bits of both dtypes, casts by their largest element, and a product that casts undo.
#include "tests/contract/host_float8.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <vector>

#include "tests/catch.hpp"
#include "tests/contract/host_math.hpp"

using namespace foreshard;

namespace {

constexpr DType e4m3 = DType::float8_e4m3fn;
constexpr DType e5m2 = DType::float8_e5m2;

template <class T>
Address address(std::vector<T>& values) {
  return reinterpret_cast<Address>(values.data());
}

/// Casts a float32 matrix by its own largest element; returns the elements and what undoes it.
struct CastMatrix {
  std::vector<std::uint8_t> plain, transposed;
  std::vector<float> scale{0};
};

CastMatrix cast_of(std::vector<float>& x, std::uint64_t rows, std::uint64_t columns, DType dtype) {
  CastMatrix out;
  out.plain.resize(x.size());
  out.transposed.resize(x.size());
  std::vector<float> largest{0};
  const TensorView one = contiguous_view(DType::float32, {});
  const TensorView view = contiguous_view(DType::float32, {rows, columns});
  const std::array<Address, 2> of_amax{address(largest), address(x)};
  run_on_host({.op = KernelOp::amax, .operands = {one, view}}, of_amax);
  const std::array<Address, 5> of_cast{address(out.plain), address(out.transposed), address(out.scale), address(x),
                                       address(largest)};
  run_on_host(
      {.op = KernelOp::cast_float8,
       .operands = {contiguous_view(dtype, {rows, columns}), contiguous_view(dtype, {columns, rows}), one, view, one}},
      of_cast);
  return out;
}

}  // namespace

// Two shards of a weight and a norm's of float32: cast as the whole weight is, in bfloat16.
TEST_CASE("float8: shards are cast as the whole weight") {
  std::vector<float> whole(32);
  for (std::size_t i = 0; i < whole.size(); ++i)
    whole[i] = static_cast<float>(rounded_to(DType::bfloat16, std::sin(0.7 * static_cast<double>(i * i))));
  const CastMatrix expected = cast_of(whole, 2, 16, e4m3);
  std::vector<float> wide = whole;
  for (float& x : wide) x *= 1.0001F;  // bfloat16 rounds that away
  std::vector<float> norm{1, 2, 3};
  std::vector<float> amaxes{-1, -1};
  const auto flat = [](DType dtype, std::uint64_t n) { return contiguous_view(dtype, {n}); };
  const TensorView row = flat(DType::float32, 16);
  const std::array<Address, 3> of_amaxes{address(amaxes), address(wide), address(wide) + 16 * sizeof(float)};
  run_on_host({.op = KernelOp::shard_amaxes, .operands = {flat(DType::float32, 2), row, row}}, of_amaxes);
  std::vector<float> amax{std::max(amaxes[0], amaxes[1]), 1};
  std::vector<std::uint8_t> place(20, 0xff);
  std::vector<std::uint8_t> empty(3, 0xff);  // of a shard that this rank has nothing of
  std::vector<std::uint16_t> norm_place(4, 0xffff);
  std::vector<float> scales(8, -1);  // 16 bytes apart
  TensorView apart = flat(DType::float32, 2);
  apart.strides = {4};
  TensorView absent;
  absent.absent = true;
  const std::array<Address, 8> of_cast{address(norm_place),
                                       address(place),
                                       address(empty),
                                       address(scales),
                                       address(norm),
                                       address(wide) + 16 * sizeof(float),
                                       0,
                                       address(amax)};
  run_on_host({.op = KernelOp::copy_in_float8,
               .operands = {flat(DType::bfloat16, 4), flat(e4m3, 20), flat(e4m3, 3), apart, flat(DType::float32, 3),
                            row, absent, flat(DType::float32, 2)}},
              of_cast);
  CHECK(std::equal(place.begin(), place.begin() + 16, expected.plain.begin() + 16));
  CHECK(std::all_of(place.begin() + 16, place.end(), [](std::uint8_t bits) { return bits == 0; }));
  CHECK(empty == std::vector<std::uint8_t>(3, 0));
  CHECK(scales == std::vector<float>{expected.scale[0], -1, -1, -1, 1.0F / 448, -1, -1, -1});
  CHECK(norm_place == std::vector<std::uint16_t>{0x3f80, 0x4000, 0x4040, 0});
  std::vector<std::uint8_t> turned(32);
  std::vector<std::uint8_t> plain = expected.plain;
  const std::array<Address, 2> of_turn{address(turned), address(plain)};
  run_on_host(
      {.op = KernelOp::transpose_float8, .operands = {contiguous_view(e4m3, {16, 2}), contiguous_view(e4m3, {2, 16})}},
      of_turn);
  CHECK(turned == expected.transposed);
}

TEST_CASE("float8: bits of numbers that the specification names") {
  struct Row {
    DType dtype;
    std::uint8_t bits;
    double value;
  };
  const std::vector<Row> rows{{e4m3, 0x7e, 448},     {e4m3, 0x08, 0x1p-6},  {e4m3, 0x07, 0.875 * 0x1p-6},
                              {e4m3, 0x01, 0x1p-9},  {e4m3, 0x38, 1},       {e4m3, 0xb8, -1},
                              {e5m2, 0x7b, 57'344},  {e5m2, 0x04, 0x1p-14}, {e5m2, 0x03, 0.75 * 0x1p-14},
                              {e5m2, 0x01, 0x1p-16}, {e5m2, 0x3c, 1},       {e5m2, 0x80, -0.0}};
  for (const Row& row : rows) {
    INFO(name(row.dtype) << " " << row.value);
    CHECK(from_float8(row.bits, row.dtype) == row.value);
    CHECK(to_float8(row.value, row.dtype) == row.bits);
  }
  for (const DType dtype : {e4m3, e5m2})
    for (unsigned bits = 0; bits < 256; ++bits) {
      const double value = from_float8(static_cast<std::uint8_t>(bits), dtype);
      if (!std::isnan(value)) CHECK(to_float8(value, dtype) == bits);
    }
  CHECK(std::isnan(from_float8(0x7f, e4m3)));
  CHECK(std::isinf(from_float8(0x7c, e5m2)));
  CHECK(std::isnan(from_float8(0x7d, e5m2)));
}

TEST_CASE("float8: rounding goes to nearest, ties to even") {
  CHECK(rounded_to(e4m3, 1.0625) == 1);     // between 1 and 1.125
  CHECK(rounded_to(e4m3, 1.1875) == 1.25);  // between 1.125 and 1.25
  CHECK(rounded_to(e4m3, 1.07) == 1.125);
  CHECK(rounded_to(e4m3, 0x1p-10) == 0);  // half of the smallest
  CHECK(rounded_to(e4m3, 1.5 * 0x1p-9) == 0x1p-8);
  CHECK(rounded_to(e5m2, 1.125) == 1);
  CHECK(rounded_to(e5m2, 1.375) == 1.5);
  CHECK(rounded_to(e5m2, -70'000) == -std::numeric_limits<double>::infinity());
  CHECK(std::isnan(rounded_to(e4m3, 480)));
}

TEST_CASE("float8: a cast's largest element is the dtype's largest number") {
  std::vector<float> x{0.5F, -3, 0.25F, 1, 0, 2};
  for (const DType dtype : {e4m3, e5m2}) {
    const CastMatrix cast = cast_of(x, 2, 3, dtype);
    CHECK(cast.scale[0] == 1.0F / (static_cast<float>(max_of_float8(dtype)) / 3.0F));
    CHECK(from_float8(cast.plain[1], dtype) == -max_of_float8(dtype));
    for (std::size_t i = 0; i < 6; ++i) {
      CHECK(cast.transposed[i % 3 * 2 + i / 3] == cast.plain[i]);
      CHECK(from_float8(cast.plain[i], dtype) * cast.scale[0] == Approx(x[i]).epsilon(0.13).margin(1e-6));
    }
  }
  std::vector<float> zeros(4, 0);  // torchao's EPS: no division by zero
  CHECK(cast_of(zeros, 2, 2, e4m3).plain == std::vector<std::uint8_t>(4, 0));
  std::vector<float> broken{1, std::numeric_limits<float>::quiet_NaN()};
  CHECK(cast_of(broken, 1, 2, e4m3).plain == std::vector<std::uint8_t>(2, 0x7f));
}

TEST_CASE("float8: a product of casts is near the product, and adds to what is there") {
  constexpr std::uint64_t kM = 5;
  constexpr std::uint64_t kN = 4;
  constexpr std::uint64_t kK = 64;
  std::vector<float> a(kM * kK);
  std::vector<float> b(kN * kK);
  for (std::size_t i = 0; i < a.size(); ++i) a[i] = normal_of_counter(1, i);
  for (std::size_t i = 0; i < b.size(); ++i) b[i] = normal_of_counter(2, i);
  CastMatrix a8 = cast_of(a, kM, kK, e5m2);
  CastMatrix b8 = cast_of(b, kN, kK, e4m3);
  std::vector<float> out(kM * kN, 10);
  const TensorView one = contiguous_view(DType::float32, {});
  TensorView right = contiguous_view(e4m3, {kK, kN});
  right.strides = {1, kK};
  const std::array<Address, 5> operands{address(out), address(a8.plain), address(b8.plain), address(a8.scale),
                                        address(b8.scale)};
  run_on_host(
      {.op = KernelOp::scaled_mm,
       .accumulate = true,
       .operands = {contiguous_view(DType::float32, {kM, kN}), contiguous_view(e5m2, {kM, kK}), right, one, one},
       .integers = {0}},
      operands);
  for (std::uint64_t i = 0; i < kM; ++i)
    for (std::uint64_t j = 0; j < kN; ++j) {
      double sum = 10;
      for (std::uint64_t l = 0; l < kK; ++l) sum += a[i * kK + l] * b[j * kK + l];
      CHECK(out[i * kN + j] == Approx(sum).margin(1.5));  // 8 = √64 at 6 % an element of e5m2 each
    }
}
