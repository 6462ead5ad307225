// The float8 ops on the GPU against the host's reference: largest elements and casts bit for bit, products within
// bfloat16's rounding.
#include <fmt/format.h>

#include <limits>

#include "tests/catch.hpp"
#include "tests/gpu/kernels/rig.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

constexpr DType kE4m3 = DType::float8_e4m3fn;
constexpr DType kE5m2 = DType::float8_e5m2;
using Extents = std::vector<std::uint64_t>;

/// [rows, columns] whose columns lie without gaps.
TensorView by_columns(DType dtype, std::uint64_t rows, std::uint64_t columns) {
  return strided_view(dtype, {rows, columns}, {1, 0});
}

}  // namespace

TEST_CASE("kernels: amax", "[gpu]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  for (const DType dtype : {DType::bfloat16, DType::float16})
    for (const Extents& shape : {Extents{3, 64}, Extents{5, 7}, Extents{4097}, Extents{1}, Extents{700, 1200}}) {
      INFO(name(dtype) << " rank " << shape.size() << " first " << shape[0]);
      Case c(KernelOp::amax);
      c.add(DType::float32, {});
      c.add(dtype, shape);
      c.check({{0, 0}});
      c.change(1, [](double x) { return x > 2 ? std::numeric_limits<double>::quiet_NaN() : x; });
      c.check({{0, 0}});
    }
}

TEST_CASE("kernels: casts to float8, as they lie and transposed, are the reference's bit for bit", "[gpu]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  for (const DType from : {DType::bfloat16, DType::float16})
    for (const DType to : {kE4m3, kE5m2})
      for (const Extents& s : {Extents{16, 16}, Extents{128, 128}, Extents{48, 272}, Extents{400, 144}})
        for (const int layouts : {1, 2, 3}) {
          INFO(name(from) << " to " << name(to) << " " << s[0] << "x" << s[1] << " layouts " << layouts);
          // 3.5: nothing saturates; 0.5: much does; 0: every number is scaled out of float32's range, or is 0.
          for (const double amax : {3.5, 0.5, 0.0}) {
            Case c(KernelOp::cast_float8);
            std::vector<Output> outputs{{2, 0}};
            if ((layouts & 1) != 0)
              outputs.push_back({c.add(to, {s[0], s[1]}), 0});
            else
              c.add_absent();
            if ((layouts & 2) != 0)
              outputs.push_back({c.add(to, {s[1], s[0]}), 0});
            else
              c.add_absent();
            c.add(DType::float32, {});
            c.add(from, {s[0], s[1]});
            c.add(DType::float32, {});
            c.change(4, [amax](double) { return amax; });
            c.check(outputs);
          }
        }
}

TEST_CASE("kernels: float8 turned, the bytes as they are", "[gpu]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  for (const DType dtype : {kE4m3, kE5m2})
    for (const Extents& s : {Extents{16, 16}, Extents{128, 128}, Extents{48, 272}, Extents{400, 144}}) {
      INFO(name(dtype) << " " << s[0] << "x" << s[1]);
      Case c(KernelOp::transpose_float8);
      c.add(dtype, {s[1], s[0]});
      c.add(dtype, {s[0], s[1]});
      c.check({{0, 0}});
    }
}

TEST_CASE("kernels: float8 weights' largest elements of shards", "[gpu]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  for (const DType dtype : {DType::float32, DType::bfloat16, DType::float16})
    for (const std::size_t shards : {3U, 40U}) {
      INFO(name(dtype) << " " << shards);
      Case c(KernelOp::shard_amaxes);
      c.add(DType::float32, {shards});
      for (std::size_t i = 0; i < shards; ++i) {
        const std::uint64_t numel = i % 3 == 0 ? 20003 : i % 3 == 1 ? 8192 : 1;
        const std::size_t shard = c.add(dtype, {numel});
        if (i == 1) c.change(shard, [](double x) { return x > 2 ? std::numeric_limits<double>::quiet_NaN() : x; });
      }
      c.check({{0, 0}});
    }
}

TEST_CASE("kernels: float8 weights' shards are cast into their places, the reference's bit for bit", "[gpu]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  for (const DType from : {DType::float32, DType::bfloat16})
    for (const double amax : {3.5, 0.5, 0.0})
      for (const Bytes offset : {Bytes{0}, Bytes{4}, Bytes{2}}) {  // of the places: a norm's may end anywhere
        INFO(name(from) << " largest " << amax << " from byte " << offset);
        const std::vector<std::uint64_t> shards{1'024, 20'000, 8'192, 4'096, 0};  // the first is a norm's
        const std::vector<std::uint64_t> places{1'024, 20'016, 8'192, 4'112, 32};
        Case c(KernelOp::copy_in_float8);
        std::vector<Output> outputs;
        for (std::size_t i = 0; i < places.size(); ++i) {
          TensorView view = contiguous_view(i == 0 ? DType::bfloat16 : kE4m3, {places[i]});
          view.offset = offset;
          outputs.push_back({c.add(view), i == 0 ? 1.0 : 0.0});
        }
        TensorView scales = contiguous_view(DType::float32, {4});
        scales.strides = {4};
        outputs.push_back({c.add(scales), 0});
        for (const std::uint64_t n : shards)
          if (n == 0)
            c.add_absent();
          else
            c.add(from, {n});
        const std::size_t amaxes = c.add(DType::float32, {4});
        c.change(amaxes, [amax](double) { return amax; });
        c.check(outputs);
      }
}

TEST_CASE("kernels: float8 weights are copied out as bytes", "[gpu]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  for (const std::uint64_t norm : {64U, 44U, 6U}) {  // bytes in front of the weights: aligned, or not
    Case c(KernelOp::copy_out);
    c.kernel.integers = {4};
    std::vector<Output> outputs;
    std::uint64_t whole = 0;
    for (const std::uint64_t bytes : {norm, std::uint64_t{8'192}, std::uint64_t{40'000}, std::uint64_t{16}}) {
      c.kernel.integers.push_back(static_cast<std::int64_t>(bytes));
      outputs.push_back({c.add(DType::uint8, {4 * bytes}), 0});
      whole += 4 * bytes;
    }
    const std::size_t gathered = c.add(DType::uint8, {whole});
    unsigned next = 0;
    c.change(gathered, [&next](double) { return static_cast<double>(next++ * 37 % 251); });
    c.check(outputs);
  }
}

TEST_CASE("kernels: products of float8", "[gpu]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  for (const DType left : {kE4m3, kE5m2})
    for (const bool accumulate : {false, true})
      for (const Extents& s :
           {Extents{16, 16, 16}, Extents{64, 48, 32}, Extents{128, 272, 512}, Extents{512, 96, 1024}}) {
        INFO(name(left) << (accumulate ? " added to " : " ") << s[0] << "x" << s[1] << "x" << s[2]);
        Case c(KernelOp::scaled_mm);
        c.kernel.accumulate = accumulate;
        c.kernel.integers = {left == kE4m3 ? 1 : 0};
        c.add(DType::bfloat16, {s[0], s[1]});
        c.add(left, {s[0], s[2]});
        c.add(by_columns(kE4m3, s[2], s[1]));
        c.add(DType::float32, {});
        c.add(DType::float32, {});
        c.make_positive(3);
        c.make_positive(4);
        c.check({{0, 3}});
      }
}

TEST_CASE("kernels: a float8 operand that does not fit is an error that names it", "[gpu]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  const auto refusal = [](const Kernel& kernel) {
    const std::vector<Address> addresses(kernel.operands.size(), Address{256});
    const auto result = executor().run(kernel, addresses, nullptr);
    return result ? std::string() : result.error().what;
  };
  const TensorView one = contiguous_view(DType::float32, {});
  const TensorView odd = contiguous_view(DType::bfloat16, {24, 16});
  CHECK(refusal({.op = KernelOp::cast_float8,
                 .operands = {contiguous_view(kE4m3, {24, 16}), contiguous_view(kE4m3, {16, 24}), one, odd, one}})
            .find("operand 3 has an extent that is no multiple of 16") != std::string::npos);
  CHECK(refusal({.op = KernelOp::scaled_mm,
                 .operands = {contiguous_view(DType::bfloat16, {16, 16}), contiguous_view(kE4m3, {16, 16}),
                              contiguous_view(kE4m3, {16, 16}), one, one},
                 .integers = {0}})
            .find("does not lie along k") != std::string::npos);
  TensorView among = one;  // one of several numbers, one behind the other
  among.offset = sizeof(float);
  CHECK(refusal({.op = KernelOp::scaled_mm,
                 .operands = {contiguous_view(DType::bfloat16, {16, 16}), contiguous_view(kE4m3, {16, 16}),
                              by_columns(kE4m3, 16, 16), one, among},
                 .integers = {0}})
            .find("operand 4 is not on a boundary of 16 bytes") != std::string::npos);
  KernelWork work;
  work.math = {KernelMath::Kind::gemm, kE5m2, false, 1, 512, 1024, 256};
  require_done(executor().emulate(work, nullptr));
  require_cuda(cudaDeviceSynchronize());
}
