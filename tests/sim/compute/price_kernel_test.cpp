// What holds for any shape: growth, waves, rooflines, classes, and no overflow.
#include "sim/compute/price_kernel.hpp"

#include <limits>
#include <vector>

#include "core/kernel/kernel_cost.hpp"
#include "core/kernel/kernel_enum_names.hpp"
#include "sim/compute/prices.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

const MachineProfile& h200() {
  static const MachineProfile kProfile = builtin_profile("h200").value();
  return kProfile;
}

KernelWork gemm(std::uint64_t m, std::uint64_t n, std::uint64_t k, DType dtype = DType::bfloat16,
                std::uint32_t batch = 1) {
  KernelWork work;
  work.kernel_class = KernelClass::gemm;
  work.math = {KernelMath::Kind::gemm, dtype, false, batch, m, n, k};
  return work;
}

KernelWork attention(bool backward, bool causal, std::uint32_t batch, std::uint64_t length, std::uint64_t dimension) {
  KernelWork work;
  work.kernel_class = KernelClass::attention;
  const auto kind = backward ? KernelMath::Kind::attention_backward : KernelMath::Kind::attention_forward;
  work.math = {kind, DType::bfloat16, causal, batch, length, length, dimension};
  return work;
}

KernelWork moves(MemoryAccess access, std::uint64_t elements, Bytes bytes) {
  KernelWork work;
  work.bytes = bytes;
  work.math.m = elements;
  work.math.access = access;
  return work;
}

double us(const KernelWork& work) {
  return price_kernel(h200(), work).time.us();
}

TEST_CASE("a larger kernel never costs less than a tenth under a smaller one") {
  // Tiles make the model step, and a shape that fits them better may be a little cheaper than a smaller one.
  constexpr double kSlack = 0.9;
  for (const DType dtype : {DType::bfloat16, DType::float32}) {
    double before = 0;
    for (std::uint64_t size = 64; size <= 16384; size += 64) {
      const double time = us(gemm(size, size, size, dtype));
      CHECK(time > kSlack * before);
      before = time;
    }
  }
  for (std::uint64_t k = 128; k <= 65536; k *= 2) CHECK(us(gemm(4096, 4096, 2 * k)) > us(gemm(4096, 4096, k)));
  for (const bool backward : {false, true})
    for (std::uint64_t length = 256; length <= 16384; length *= 2)
      CHECK(us(attention(backward, true, 64, 2 * length, 128)) > us(attention(backward, true, 64, length, 128)));
  for (std::size_t access = 0; access < kEnumSize<MemoryAccess>; ++access)
    for (Bytes n = 1024; n <= (Bytes{1} << 32); n *= 2)
      CHECK(us(moves(static_cast<MemoryAccess>(access), 2 * n, 8 * n)) >=
            us(moves(static_cast<MemoryAccess>(access), n, 4 * n)));
}

TEST_CASE("one tile more than the SMs hold starts another wave") {
  // float32 has no persistent kernels; k is long so that compute decides.
  const KernelPrice full = price_kernel(h200(), gemm(128 * 11, 256 * 12, 8192, DType::float32));
  const KernelPrice more = price_kernel(h200(), gemm(128 * 11, 256 * 12 + 8, 8192, DType::float32));
  CHECK(full.waves >= 1);
  CHECK(more.time > full.time);
  for (const std::uint64_t n : {std::uint64_t{128}, std::uint64_t{4096}, std::uint64_t{16384}}) {
    const KernelPrice price = price_kernel(h200(), gemm(4096, n, 4096));
    CHECK(price.waves == ceil_div(price.tiles, h200().sm_count));
    CHECK(price.sms == std::min<std::uint64_t>(price.tiles, h200().sm_count));
  }
}

TEST_CASE("no GEMM is faster than the peak and no kernel than the memory or the cache") {
  for (std::uint64_t m = 16; m <= 32768; m *= 2)
    for (std::uint64_t k = 16; k <= 32768; k *= 2) {
      const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(k) * 4096;
      CHECK(flop / us(gemm(m, 4096, k)) < h200().peaks.matrix_bfloat16 * 1e-6);
      CHECK(flop / us(gemm(m, 4096, k, DType::float32)) < h200().peaks.vector_float32 * 1e-6);
    }
  for (Bytes bytes = Bytes{1} << 26; bytes <= (Bytes{1} << 36); bytes *= 4)
    for (std::size_t access = 0; access < kEnumSize<MemoryAccess>; ++access) {
      const KernelPrice price = price_kernel(h200(), moves(static_cast<MemoryAccess>(access), bytes / 8, bytes));
      CHECK(static_cast<double>(bytes) / price.time.us() < 2 * h200().peaks.memory_bandwidth * 1e-6);
      CHECK(price.memory_share <= 1);
    }
}

TEST_CASE("a GEMM falls into one of three classes by its shape") {
  const auto class_of = [](const KernelWork& work) { return price_kernel(h200(), work).kernel_class; };
  CHECK(class_of(gemm(8192, 8192, 2048)) == KernelClass::gemm);
  CHECK(class_of(gemm(8192, 512, 2048)) == KernelClass::gemm_single_wave);
  CHECK(class_of(gemm(4, 10240, 10240, DType::float32)) == KernelClass::gemm_streaming);
  CHECK(class_of(gemm(10240, 10240, 4, DType::float32)) == KernelClass::gemm_streaming);
  CHECK(class_of(attention(false, true, 64, 2048, 128)) == KernelClass::attention);
}

TEST_CASE("grouped products are computed in whole clusters of rows, in one wave of blocks") {
  KernelWork rows = gemm(256, 1536, 2048, DType::bfloat16, 128);
  const double equal = us(rows);
  rows.math.ragged = RaggedExtent::m;  // some of 128 groups have 257 rows
  CHECK(us(rows) > 1.3 * equal);
  CHECK(us(rows) < 1.7 * equal);
  CHECK(price_kernel(h200(), rows).kernel_class == KernelClass::gemm_single_wave);
  CHECK(flops(rows.math) == flops(gemm(256, 1536, 2048, DType::bfloat16, 128).math));
  rows.math.m = 1;  // a token a group still takes a cluster
  KernelWork whole = gemm(256, 1536, 2048, DType::bfloat16, 128);
  CHECK(us(rows) > 0.8 * us(whole));
  KernelWork depth = gemm(1536, 2048, 256, DType::bfloat16, 128);
  const double dense = us(depth);
  depth.math.ragged = RaggedExtent::k;
  CHECK(us(depth) > dense);
  CHECK(us(depth) < 1.4 * dense);
}

TEST_CASE("a large float8 GEMM goes at the float8 rate, or where the profile has none at bfloat16's") {
  const double narrow = us(gemm(8192, 8192, 8192));
  for (const DType dtype : {DType::float8_e4m3fn, DType::float8_e5m2})
    CHECK(us(gemm(8192, 8192, 8192, dtype)) == Approx(narrow / 2).epsilon(0.05));
  MachineProfile without = h200();
  without.peaks.matrix_float8 = 0;
  CHECK(price_kernel(without, gemm(8192, 8192, 8192, DType::float8_e4m3fn)).time.us() == Approx(narrow).epsilon(0.05));
}

TEST_CASE("a leading dimension that is no multiple of eight is several times as slow") {
  const auto of = [](GemmUse use, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
    return us(gemm_cost(m, n, k, DType::bfloat16, 1, use));
  };
  CHECK(of(GemmUse::forward, 2048, 50257, 1600) > 4 * of(GemmUse::forward, 2048, 50264, 1600));
  CHECK(of(GemmUse::dgrad, 2048, 1600, 50257) > 4 * of(GemmUse::dgrad, 2048, 1600, 50264));
  CHECK(of(GemmUse::wgrad, 50257, 1600, 2048) > 4 * of(GemmUse::wgrad, 50264, 1600, 2048));
}

TEST_CASE("an odd number of tokens costs a GEMM what the next multiple of eight does") {
  const auto of = [](GemmUse use, std::uint64_t m, std::uint64_t n, std::uint64_t k) {
    return us(gemm_cost(m, n, k, DType::bfloat16, 1, use));
  };
  for (const std::uint64_t odd : {2361, 2369, 4095}) {
    const std::uint64_t even = odd / 8 * 8 + 8;
    CHECK(of(GemmUse::forward, odd, 4096, 14336) == Approx(of(GemmUse::forward, even, 4096, 14336)).epsilon(0.01));
    CHECK(of(GemmUse::dgrad, odd, 14336, 4096) == Approx(of(GemmUse::dgrad, even, 14336, 4096)).epsilon(0.01));
    CHECK(of(GemmUse::wgrad, 4096, 14336, odd) == Approx(of(GemmUse::wgrad, 4096, 14336, even)).epsilon(0.01));
  }
  CHECK(of(GemmUse::forward, 1, 4096, 4096) < 2 * of(GemmUse::forward, 8, 4096, 4096));
}

TEST_CASE("views cost by their elements, whatever their width") {
  const std::uint64_t n = 1 << 24;
  const double narrow = us(moves(MemoryAccess::strided, n, 4 * n));
  const double wide = us(moves(MemoryAccess::strided, n, 8 * n));
  CHECK(narrow > 0.75 * wide);
  CHECK(us(moves(MemoryAccess::contiguous, n, 4 * n)) < 0.6 * narrow);
  CHECK(us(moves(MemoryAccess::mixed, n, 8 * n)) > 1.3 * wide);
}

TEST_CASE("kernels with bytes alone, and those of an all-gather, cost what the rates say") {
  KernelWork work;
  work.bytes = 390'000'000;
  CHECK(price(h200(), work).us() == Approx(1.5 + 100.0));
  work.kernel_class = KernelClass::gather_copy;
  work.math.m = 1000;
  CHECK(price(h200(), work).us() == Approx(1.5 + 390.0 / 2.8));
  work.work = Nanoseconds{77};
  CHECK(price(h200(), work).count == 77);
  CHECK(price(h200(), KernelWork{}).count == 0);
}

TEST_CASE("huge and empty shapes have a finite price") {
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t extent : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{7}, most}) {
    for (const auto& work :
         {gemm(extent, extent, extent), gemm(1, extent, 1, DType::float32, 0xffffffff),
          attention(true, true, 0xffffffff, extent, extent), attention(false, false, 0, extent, 1),
          moves(MemoryAccess::scatter, extent, extent), moves(MemoryAccess::multi_tensor, 1, extent)}) {
      const KernelPrice price = price_kernel(h200(), work);
      CHECK(price.time.count >= 0);
      CHECK(price.time.us() <= 2e15);
      CHECK((price.memory_share >= 0 && price.memory_share <= 1));
    }
  }
}

TEST_CASE("without the section \"compute\" the rates price everything") {
  MachineProfile plain = h200();
  plain.compute = {};
  const KernelPrice product_price = price_kernel(plain, gemm(8192, 8192, 8192));
  CHECK(product_price.time.us() == Approx(1.5 + 2 * 8192.0 * 8192 * 8192 / 796.5e6));
  CHECK(product_price.kernel_class == KernelClass::gemm);
  CHECK(price_kernel(plain, gemm(8192, 8192, 8192, DType::float8_e4m3fn)).time.us() ==
        Approx(product_price.time.us() / 2).epsilon(0.01));
  CHECK(price_kernel(plain, attention(true, true, 64, 2048, 64)).time.count > 0);
  CHECK(price_kernel(plain, moves(MemoryAccess::strided, 1, 3'900'000)).time.us() == Approx(2.5));
}

}  // namespace
}  // namespace foreshard::sim
