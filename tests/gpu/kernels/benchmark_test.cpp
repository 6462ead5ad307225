// Rates of every kernel at Llama-8B's shapes: `test_gpu_kernels "[benchmark]"`. Not part of the tests.
// Bytes count each tensor once, read or written; a product's operations are 2·m·n·k, a causal attention's half of it.
// tools/bench_kernels.py prints PyTorch's rates of the same shapes.
#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "tests/catch.hpp"
#include "tests/gpu/kernels/rig.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

constexpr DType f32 = DType::float32;
constexpr DType b16 = DType::bfloat16;
using Sizes = std::vector<std::uint64_t>;

constexpr std::uint64_t kDim = 4096, kHeads = 32, kKvHeads = 8, kHeadDim = 128, kFfn = 14336, kVocab = 128256;
constexpr int kRepeats = 20;

/// One kernel on random numbers in a block that all share.
class Bench {
 public:
  explicit Bench(Bytes bytes) : memory_(bytes), bytes_(bytes) {}

  /// Prints one line; `operations` 0: a kernel that moves bytes.
  void time(const std::string& what, Kernel c, double operations = 0, double bytes = 0) {
    std::vector<Address> addresses;
    Bytes used = 0;
    double moved = 0;
    for (const TensorView& view : c.operands) {
      addresses.push_back(memory_.address() + used);
      const Bytes size = view.numel() * itemsize(view.dtype);
      used += round_up(size, 512);
      moved += static_cast<double>(size);
      if (view.dtype == DType::int64) make_indices(addresses.back(), view.numel());
    }
    REQUIRE(used <= bytes_);
    // A product of products would run into infinities, on which the GPU draws less power and runs faster.
    for (std::size_t i = 0; i < c.operands.size(); ++i)
      if (c.operands[i].dtype != DType::int64 && !is_float8(c.operands[i].dtype))
        make_random(addresses[i], c.operands[i]);
    for (int i = 0; i < 3; ++i) require_done(executor().run(c, addresses, nullptr));
    require_cuda(cudaDeviceSynchronize());
    cudaEvent_t begin = nullptr;
    cudaEvent_t end = nullptr;
    require_cuda(cudaEventCreate(&begin));
    require_cuda(cudaEventCreate(&end));
    require_cuda(cudaEventRecord(begin, nullptr));
    const auto host_begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kRepeats; ++i) require_done(executor().run(c, addresses, nullptr));
    const auto host_end = std::chrono::steady_clock::now();
    require_cuda(cudaEventRecord(end, nullptr));
    require_cuda(cudaDeviceSynchronize());
    float ms = 0;
    require_cuda(cudaEventElapsedTime(&ms, begin, end));
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    const double us = ms * 1e3 / kRepeats;
    const double host = std::chrono::duration<double, std::micro>(host_end - host_begin).count() / kRepeats;
    const std::string rate = operations > 0 ? fmt::format("{:8.1f} TFLOP/s", operations / us / 1e6)
                                            : fmt::format("{:8.0f} GB/s", (bytes > 0 ? bytes : moved) / us / 1e3);
    std::printf("%-44s %10.1f us  %s  host %6.1f us\n", what.c_str(), us, rate.c_str(), host);
    std::fflush(stdout);
  }

 private:
  static void make_random(Address address, const TensorView& like) {
    Kernel c;
    c.op = KernelOp::random_normal;
    c.integers = {1, 0};
    c.operands = {contiguous_view(like.dtype, {like.numel()})};
    const std::vector<Address> where{address};
    require_done(executor().run(c, where, nullptr));
  }
  static void make_indices(Address address, std::uint64_t count) {
    Kernel c;
    c.op = KernelOp::random_tokens;
    c.integers = {1, 0, static_cast<std::int64_t>(kVocab)};
    c.operands = {contiguous_view(DType::int64, {count})};
    const std::vector<Address> where{address};
    require_done(executor().run(c, where, nullptr));
  }

  DeviceBlock memory_;
  Bytes bytes_;
};

Kernel make(KernelOp op, std::vector<TensorView> operands, double alpha = 1) {
  Kernel c;
  c.op = op;
  c.alpha = alpha;
  c.operands = std::move(operands);
  return c;
}

TensorView view(DType dtype, Sizes shape) {
  return contiguous_view(dtype, std::move(shape));
}

void products(Bench& bench, std::uint64_t s) {
  struct Row {
    const char* name;
    std::uint64_t n, k;
  };
  for (const Row& row : {Row{"wq/wo", kDim, kDim}, Row{"wk/wv", kKvHeads * kHeadDim, kDim}, Row{"w1/w3", kFfn, kDim},
                         Row{"w2", kDim, kFfn}, Row{"head", kVocab, kDim}}) {
    const double operations = 2.0 * static_cast<double>(s) * static_cast<double>(row.n) * static_cast<double>(row.k);
    const TensorView x = view(b16, {s, row.k});
    const TensorView y = view(b16, {s, row.n});
    const TensorView w = view(b16, {row.n, row.k});
    const TensorView wt = strided_view(b16, {row.k, row.n}, {1, 0});
    const TensorView yt = strided_view(b16, {row.n, s}, {1, 0});
    bench.time(fmt::format("gemm {} s{} forward", row.name, s), make(KernelOp::gemm, {y, x, wt}), operations);
    bench.time(fmt::format("gemm {} s{} dx", row.name, s), make(KernelOp::gemm, {x, y, w}), operations);
    bench.time(fmt::format("gemm {} s{} dw", row.name, s), make(KernelOp::gemm, {w, yt, x}), operations);
  }
}

void attention(Bench& bench, std::uint64_t s) {
  const double operations = 4.0 * kHeads * static_cast<double>(s * s) * kHeadDim / 2;
  const TensorView q = strided_view(b16, {1, kHeads, s, kHeadDim}, {0, 2, 1, 3});
  const TensorView k = strided_view(b16, {1, kKvHeads, s, kHeadDim}, {0, 2, 1, 3});
  const TensorView rows = view(f32, {1, kHeads, s});
  Kernel forward = make(KernelOp::attention, {q, rows, q, k, k}, 1 / std::sqrt(128.0));
  forward.causal = true;
  bench.time(fmt::format("attention s{} forward", s), forward, operations);
  Kernel backward = make(KernelOp::attention_backward, {q, k, k, q, q, k, k, q, rows}, 1 / std::sqrt(128.0));
  backward.causal = true;
  bench.time(fmt::format("attention s{} backward", s), backward, 2.5 * operations);
}

void rows(Bench& bench, std::uint64_t s) {
  const TensorView x = view(b16, {s, kDim});
  const TensorView w = view(b16, {kDim});
  const TensorView r = view(f32, {s});
  const TensorView f = view(b16, {s, kFfn});
  bench.time(fmt::format("rms_norm s{}", s), make(KernelOp::rms_norm, {x, r, x, w}, 1e-6));
  bench.time(fmt::format("add_rms_norm s{}", s), make(KernelOp::add_rms_norm, {x, x, r, x, x, w}, 1e-6));
  bench.time(fmt::format("rms_norm_backward s{}", s), make(KernelOp::rms_norm_backward, {x, x, x, r, w}));
  bench.time(fmt::format("add_rms_norm_backward s{}", s), make(KernelOp::add_rms_norm_backward, {x, x, x, x, r, w}));
  bench.time(fmt::format("rms_norm_backward_weight s{}", s), make(KernelOp::rms_norm_backward_weight, {w, x, x, r}));
  bench.time(fmt::format("add s{}", s), make(KernelOp::add, {x, x, x}));
  bench.time(fmt::format("swiglu s{}", s), make(KernelOp::swiglu, {f, f, f}));
  bench.time(fmt::format("swiglu_backward s{}", s), make(KernelOp::swiglu_backward, {f, f, f, f, f}));
  const TensorView q = view(b16, {1, s, kHeads, kHeadDim});
  const TensorView table = view(f32, {s, kHeadDim / 2});
  bench.time(fmt::format("rope s{} q", s), make(KernelOp::rope, {q, q, table, table}));
  const TensorView logits = view(b16, {s, kVocab});
  bench.time(fmt::format("cross_entropy s{} bf16", s),
             make(KernelOp::cross_entropy, {view(f32, {}), logits, logits, view(DType::int64, {s})}));
  bench.time(fmt::format("cast logits s{} to float32", s), make(KernelOp::copy, {view(f32, {s, kVocab}), logits}));
  bench.time(fmt::format("log_softmax s{} float32", s),
             make(KernelOp::log_softmax, {view(f32, {s, kVocab}), view(f32, {s, kVocab})}));
  bench.time(fmt::format("embedding s{}", s),
             make(KernelOp::embedding, {x, view(b16, {kVocab, kDim}), view(DType::int64, {s})}), 0,
             static_cast<double>(s * kDim * 4));
  bench.time(fmt::format("embedding_backward s{}", s),
             make(KernelOp::embedding_backward, {view(b16, {kVocab, kDim}), x, view(DType::int64, {s})}));
}

/// What float8 GEMMs add: of an input as wide as the feed-forward, of one of its weights.
void float8_casts(Bench& bench, std::uint64_t s) {
  const TensorView one = view(f32, {});
  TensorView absent;
  absent.absent = true;
  const auto of = [&](const std::string& what, std::uint64_t rows, std::uint64_t columns) {
    const TensorView x = view(b16, {rows, columns});
    const TensorView plain = view(DType::float8_e4m3fn, {rows, columns});
    const TensorView turned = view(DType::float8_e4m3fn, {columns, rows});
    bench.time("amax " + what, make(KernelOp::amax, {one, x}));
    bench.time("cast_float8 " + what, make(KernelOp::cast_float8, {plain, absent, one, x, one}));
    bench.time("cast_float8 " + what + " transposed", make(KernelOp::cast_float8, {absent, turned, one, x, one}));
    bench.time("cast_float8 " + what + " both", make(KernelOp::cast_float8, {plain, turned, one, x, one}));
  };
  of(fmt::format("s{} x ffn", s), s, kFfn);
  of("w1", kFfn, kDim);
}

/// What all-gathers in float8 add: of a block's weights and norms on 4 ranks, and of one gathered weight in backward.
void float8_weights(Bench& bench) {
  const std::vector<std::uint64_t> weights{
      kDim * kDim, kKvHeads * kHeadDim * kDim, kKvHeads * kHeadDim * kDim, kDim * kDim, kFfn * kDim, kFfn * kDim,
      kDim * kFfn};
  const TensorView numbers = view(f32, {weights.size()});
  Kernel amaxes = make(KernelOp::shard_amaxes, {numbers});
  Kernel in = make(KernelOp::copy_in_float8, {view(b16, {kDim / 4}), view(b16, {kDim / 4})});
  Kernel out = make(KernelOp::copy_out, {});
  out.integers = {4};
  std::uint64_t total = 0;
  for (const std::uint64_t n : weights) {
    in.operands.push_back(view(DType::float8_e4m3fn, {n / 4}));
    amaxes.operands.push_back(view(f32, {n / 4}));
    out.operands.push_back(view(DType::uint8, {n}));
    out.integers.push_back(static_cast<std::int64_t>(n / 4));
    total += n;
  }
  in.operands.push_back(numbers);  // apart or not is no matter of time
  for (std::size_t i = 0; i < 2; ++i) in.operands.push_back(view(f32, {kDim / 4}));
  for (const std::uint64_t n : weights) in.operands.push_back(view(f32, {n / 4}));
  in.operands.push_back(numbers);
  out.operands.push_back(view(DType::uint8, {total}));
  bench.time("shard_amaxes block, 4 ranks", amaxes);
  bench.time("copy_in_float8 block, 4 ranks", in);
  bench.time("copy_out block in float8, 4 ranks", out);
  bench.time("transpose_float8 w1", make(KernelOp::transpose_float8, {view(DType::float8_e4m3fn, {kDim, kFfn}),
                                                                      view(DType::float8_e4m3fn, {kFfn, kDim})}));
}

/// A block's parameters on 4 ranks.
void sections(Bench& bench) {
  const std::vector<Sizes> shapes{{kDim}, {kDim, kDim}, {1024, kDim}, {1024, kDim}, {kDim, kDim},
                                  {kDim}, {kFfn, kDim}, {kFfn, kDim}, {kDim, kFfn}};
  std::uint64_t total = 0;
  Kernel out = make(KernelOp::copy_out, {});
  Kernel in = make(KernelOp::copy_in, {view(b16, {1})});
  Kernel cat = make(KernelOp::chunk_cat, {view(f32, {1})});
  out.integers = cat.integers = {4};
  std::vector<TensorView> shards;
  for (const Sizes& shape : shapes) {
    const std::uint64_t n = view(b16, shape).numel();
    total += n;
    out.operands.push_back(view(b16, shape));
    cat.operands.push_back(view(b16, shape));
    in.operands.push_back(view(f32, {n / 4}));
    shards.push_back(view(f32, {n / 4}));
    for (Kernel* c : {&out, &in, &cat}) c->integers.push_back(static_cast<std::int64_t>(n / 4));
  }
  out.operands.push_back(view(b16, {total}));
  in.operands[0] = view(b16, {total / 4});
  cat.operands[0] = view(f32, {total});
  bench.time("copy_out block, 4 ranks", out);
  bench.time("copy_in block, 4 ranks", in);
  bench.time("chunk_cat block, 4 ranks, to float32", cat);
  Kernel adam = make(KernelOp::adam, {});
  adam.scalars = {1e-5, 0.9, 0.999, 1e-8, 0};
  adam.integers = {1};
  for (int list = 0; list < 4; ++list)
    for (int layer = 0; layer < 4; ++layer) adam.operands.insert(adam.operands.end(), shards.begin(), shards.end());
  bench.time("adam, 4 blocks of 4 ranks", adam, 0, static_cast<double>(total) * 28);
}

}  // namespace

TEST_CASE("kernels: rates of what float8 adds", "[.][benchmark]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  Bench bench(8 * kGiB);
  sections(bench);
  float8_weights(bench);
  for (const std::uint64_t s : {512U, 4096U}) float8_casts(bench, s);
}

TEST_CASE("kernels: rates of the optimizer's passes beside a copy", "[.][benchmark]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  Bench bench(8 * kGiB);
  const TensorView launch = view(f32, {320 * 65536});  // what one of PyTorch's launches handles
  const auto pass = [&](const char* name, KernelOp op, std::size_t operands, double alpha, double accesses) {
    Kernel c = make(op, {}, alpha);
    c.operands.assign(operands, launch);
    bench.time(name, c, 0, accesses * static_cast<double>(launch.numel()) * 4);
  };
  pass("copy", KernelOp::copy, 2, 1, 2);
  pass("foreach_lerp", KernelOp::foreach_lerp, 3, 0.1, 3);
  pass("foreach_mul", KernelOp::foreach_mul, 2, 0.999, 2);
  pass("foreach_addcmul", KernelOp::foreach_addcmul, 4, 1e-3, 4);
  pass("foreach_sqrt", KernelOp::foreach_sqrt, 2, 1, 2);
  pass("foreach_div", KernelOp::foreach_div, 2, 0.5, 2);
  pass("foreach_add", KernelOp::foreach_add, 2, 1e-8, 2);
  pass("foreach_addcdiv", KernelOp::foreach_addcdiv, 4, -1e-5, 4);
  Kernel adam = make(KernelOp::adam, {});
  adam.operands.assign(4, launch);
  adam.scalars = {1e-5, 0.9, 0.999, 1e-8, 0};
  adam.integers = {1};
  bench.time("adam", adam, 0, 28.0 * static_cast<double>(launch.numel()));
}

TEST_CASE("kernels: rates at Llama-8B's shapes", "[.][benchmark]") {
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why);
  Bench bench(8 * kGiB);
  const TensorView large = view(f32, {256 * kMiB});
  bench.time("copy of 1 GiB", make(KernelOp::copy, {large, large}));
  bench.time("copy of 1 GiB, float32 to bfloat16", make(KernelOp::copy, {view(b16, {256 * kMiB}), large}));
  bench.time("fill of 1 GiB", make(KernelOp::fill, {large}));
  bench.time("sum of 1 GiB", make(KernelOp::sum_to, {view(f32, {1}), large}));
  bench.time("gelu of 1 GiB", make(KernelOp::gelu, {large, large}));
  bench.time("gelu_backward of 1 GiB", make(KernelOp::gelu_backward, {large, large, large}));
  const TensorView wide = view(f32, {8192, 10240});
  const TensorView weight = view(f32, {10240});
  const TensorView row = view(f32, {8192});
  bench.time("layer_norm 8192 x 10240 float32", make(KernelOp::layer_norm, {wide, row, row, wide, weight}, 1e-5));
  bench.time("layer_norm_backward", make(KernelOp::layer_norm_backward, {wide, wide, wide, row, row, weight}));
  TensorView absent;
  absent.absent = true;
  bench.time("layer_norm_backward_weights",
             make(KernelOp::layer_norm_backward_weights, {weight, weight, wide, wide, row, row}));
  const TensorView mlp_x = view(f32, {8192, 10240});
  bench.time("gemm 8192 x 10240 x 10240 float32",
             make(KernelOp::gemm, {wide, mlp_x, strided_view(f32, {10240, 10240}, {1, 0})}),
             2.0 * 8192 * 10240 * 10240);
  sections(bench);
  for (const std::uint64_t s : {512U, 4096U}) {
    products(bench, s);
    attention(bench, s);
    rows(bench, s);
  }
  std::printf("attention refusal: '%s'; fixed bytes %.1f MiB\n", executor().attention_refusal().c_str(),
              static_cast<double>(executor().fixed_bytes()) / static_cast<double>(kMiB));
}
