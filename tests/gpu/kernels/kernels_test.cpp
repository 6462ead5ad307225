// Every KernelOp on the GPU against the host's reference: random data, odd sizes, all dtypes it is used with, strides.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/catch.hpp"
#include "tests/gpu/kernels/rig.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

#define NEEDS_GPU() \
  if (const std::string why = why_no_gpu(); !why.empty()) FORESHARD_SKIP(why)

namespace {
constexpr DType f32 = DType::float32;
constexpr DType b16 = DType::bfloat16;
constexpr DType f16 = DType::float16;
using Sizes = std::vector<std::uint64_t>;
}  // namespace

TEST_CASE("kernels: elementwise functions", "[gpu]") {
  NEEDS_GPU();
  struct Row {
    KernelOp op;
    std::size_t inputs;
    double alpha;
  };
  const std::vector<Row> rows{
      {KernelOp::fill, 0, 1.5},        {KernelOp::copy, 1, 1},          {KernelOp::add, 2, 1},
      {KernelOp::add, 2, -0.5},        {KernelOp::sub, 2, 1},           {KernelOp::mul, 2, 1},
      {KernelOp::neg, 1, 1},           {KernelOp::mul_scalar, 1, 3.25}, {KernelOp::add_scalar, 1, 0.75},
      {KernelOp::silu, 1, 1},          {KernelOp::silu_backward, 2, 1}, {KernelOp::gelu, 1, 1},
      {KernelOp::gelu_backward, 2, 1}, {KernelOp::swiglu, 2, 1}};
  for (const Row& row : rows)
    for (const DType dtype : {f32, b16, f16, DType::float64})
      for (const Sizes& shape : {Sizes{3, 64}, Sizes{5, 7, 11}, Sizes{4097}, Sizes{}}) {
        INFO("op " << static_cast<int>(row.op) << " " << name(dtype) << " rank " << shape.size());
        Case c(row.op, row.alpha);
        c.add(dtype, shape);
        for (std::size_t i = 0; i < row.inputs; ++i) c.add(dtype, shape);
        c.check({{0, 1}});
      }
}

TEST_CASE("kernels: the backward of swiglu also over its inputs", "[gpu]") {
  NEEDS_GPU();
  for (const DType dtype : {f32, b16, f16}) {
    Case c(KernelOp::swiglu_backward);
    for (int i = 0; i < 5; ++i) c.add(dtype, {33, 48});
    c.check({{0, 1}, {1, 1}});
    Case over(KernelOp::swiglu_backward);
    over.kernel.operands.clear();
    const TensorView view = contiguous_view(dtype, {16, 40});
    over.add(view);
    over.add(view);
    over.add(view);
    over.add_over(0, view);
    over.add_over(1, view);
    over.check({{0, 1}, {1, 1}});
  }
}

TEST_CASE("kernels: casts with strides and broadcasts", "[gpu]") {
  NEEDS_GPU();
  for (const DType from : {f32, b16, f16, DType::float64, DType::int64, DType::bool8})
    for (const DType to : {f32, b16, f16, DType::float64}) {
      INFO(name(from) << " to " << name(to));
      for (const Sizes& shape : {Sizes{16, 24}, Sizes{7, 9}}) {
        Case c(KernelOp::copy);
        c.add(to, shape);
        c.add(from, shape);
        c.check({{0, 1}});
      }
    }
  Case integers(KernelOp::copy);
  integers.add(DType::int64, {65});
  integers.add_indices({65}, std::uint64_t{1} << 40U);
  integers.check({{0, 0}});
  for (const DType dtype : {f32, b16}) {
    Case transposed(KernelOp::copy);  // [b, h, s, d] out of [b, s, h, d]
    transposed.add(dtype, {2, 3, 5, 16});
    transposed.add(strided_view(dtype, {2, 3, 5, 16}, {0, 2, 1, 3}));
    transposed.check({{0, 1}});
    Case turned(KernelOp::add, 2);  // the last dimension is not the innermost
    turned.add(strided_view(dtype, {6, 17}, {1, 0}, 3));
    turned.add(dtype, {6, 17});
    turned.add(strided_view(dtype, {6, 17}, {1, 0}));
    turned.check({{0, 1}});
    Case row(KernelOp::mul);  // broadcast along rows, along columns, and a half of the last dimension
    row.add(dtype, {4, 5, 32});
    TensorView half = strided_view(dtype, {4, 5, 32}, {0, 1, 2}, 32);
    half.offset = 32 * itemsize(dtype);
    row.add(half);
    row.add(f32, {5, 1});
    row.check({{0, 1}});
    Case column(KernelOp::mul);
    column.add(dtype, {4, 5, 32});
    column.add(dtype, {4, 5, 32});
    column.add(f32, {32});
    column.check({{0, 1}});
    Case expanded(KernelOp::copy);  // a sum's gradient: all strides 0
    expanded.add(dtype, {9, 24});
    TensorView one = contiguous_view(dtype, {9, 24});
    one.strides = {0, 0};
    expanded.add(one);
    expanded.check({{0, 1}});
  }
}

TEST_CASE("kernels: dropout keeps what the reference keeps", "[gpu]") {
  NEEDS_GPU();
  for (const DType mask : {DType::bool8, DType::uint8})
    for (const Sizes& shape : {Sizes{8, 64}, Sizes{11, 3}}) {
      Case c(KernelOp::dropout, 0.1);
      c.kernel.integers = {5, 123456789};
      c.add(f32, shape);
      c.add(mask, shape);
      c.add(f32, shape);
      c.check({{0, 1}, {1, 0}});
      Case back(KernelOp::dropout_backward, 0.1);
      back.add(f32, shape);
      back.add(f32, shape);
      back.add(mask, shape);
      back.check({{0, 1}});
    }
}

TEST_CASE("kernels: sums over dimensions", "[gpu]") {
  NEEDS_GPU();
  struct Row {
    Sizes in, out;
  };
  const std::vector<Row> rows{
      {{1000, 40}, {1, 40}},     {{37, 1001}, {37, 1}},  {{3, 5, 7, 9}, {1, 5, 1, 9}}, {{70000}, {1}},
      {{4, 600, 33}, {1, 1, 1}}, {{2, 3, 8}, {2, 3, 8}}, {{6, 5, 128}, {1, 5, 128}}};
  for (const Row& row : rows)
    for (const DType dtype : {f32, b16}) {
      Case c(KernelOp::sum_to, 0.25);
      c.add(dtype, row.out);
      c.add(dtype, row.in);
      c.check({{0, dtype == f32 ? 20.0 : 1.0}});
    }
  Case turned(KernelOp::sum_to);
  turned.add(f32, {1, 50});
  turned.add(strided_view(f32, {300, 50}, {1, 0}, 2));
  turned.check({{0, 20}});
}

TEST_CASE("kernels: norms", "[gpu]") {
  NEEDS_GPU();
  for (const DType x : {f32, b16, f16})
    for (const DType weight : {f32, b16})
      for (const Sizes& shape : {Sizes{2, 3, 256}, Sizes{5, 4096}, Sizes{3, 10240}, Sizes{7, 33}, Sizes{2, 20000}}) {
        INFO(name(x) << " " << name(weight) << " columns " << shape.back());
        const std::uint64_t n = shape.back();
        const std::uint64_t rows = shape.size() == 3 ? shape[0] * shape[1] : shape[0];
        Case layer(KernelOp::layer_norm, 1e-5);
        layer.add(x, shape);
        layer.add(f32, {rows});
        layer.add(f32, {rows});
        layer.add(x, shape);
        layer.add(weight, {n});
        layer.add(weight, {n});
        layer.check({{0, 4}, {1, 40}, {2, 4}});
        Case bare(KernelOp::layer_norm, 1e-5);
        bare.add(x, shape);
        bare.add(f32, {rows});
        bare.add(f32, {rows});
        bare.add(x, shape);
        bare.check({{0, 4}, {1, 40}, {2, 4}});
        Case rms(KernelOp::rms_norm, 1e-6);
        rms.add(x, shape);
        rms.add(f32, {rows});
        rms.add(x, shape);
        rms.add(weight, {n});
        rms.check({{0, 4}, {1, 4}});
        Case sum(KernelOp::add_rms_norm, 1e-6);
        sum.add(x, shape);
        sum.add(x, shape);
        sum.add(f32, {rows});
        sum.add(x, shape);
        sum.add(x, shape);
        sum.add(weight, {n});
        sum.check({{0, 1}, {1, 4}, {2, 4}});
      }
}

TEST_CASE("kernels: a layer norm far from zero keeps its variance", "[gpu]") {
  NEEDS_GPU();
  Case c(KernelOp::layer_norm, 1e-12);
  c.add(f32, {4, 512});
  c.add(f32, {4});
  c.add(f32, {4});
  c.change(c.add(f32, {4, 512}),
           [](double x) { return x + 1000; });  // noise of 1 around 1000: squares of 10^6 would lose it
  c.check({{0, 100}, {1, 1}, {2, 10}});
}

TEST_CASE("kernels: norms' backwards", "[gpu]") {
  NEEDS_GPU();
  for (const DType x : {f32, b16})
    for (const DType weight : {f32, b16})
      for (const Sizes& shape : {Sizes{2, 37, 256}, Sizes{130, 4096}, Sizes{3, 10240}, Sizes{70, 33}}) {
        INFO(name(x) << " " << name(weight) << " columns " << shape.back());
        const std::uint64_t n = shape.back();
        const std::uint64_t rows = shape.size() == 3 ? shape[0] * shape[1] : shape[0];
        for (const bool layer : {true, false}) {
          Case c(layer ? KernelOp::layer_norm_backward : KernelOp::rms_norm_backward);
          c.add(x, shape);
          c.add(x, shape);
          c.add(x, shape);
          if (layer) c.add(f32, {rows});
          c.make_positive(c.add(f32, {rows}));
          c.add(weight, {n});
          c.check({{0, 8}});
        }
        Case sum(KernelOp::add_rms_norm_backward);
        for (int i = 0; i < 4; ++i) sum.add(x, shape);
        sum.make_positive(sum.add(f32, {rows}));
        sum.add(weight, {n});
        sum.check({{0, 8}});
        Case weights(KernelOp::layer_norm_backward_weights);
        weights.add(weight, {n});
        weights.add(weight, {n});
        weights.add(x, shape);
        weights.add(x, shape);
        weights.add(f32, {rows});
        weights.make_positive(weights.add(f32, {rows}));
        weights.check({{0, weight == f32 ? 20.0 : 2.0}, {1, weight == f32 ? 20.0 : 2.0}});
        Case only(KernelOp::rms_norm_backward_weight);
        only.add(weight, {n});
        only.add(x, shape);
        only.add(x, shape);
        only.make_positive(only.add(f32, {rows}));
        only.check({{0, weight == f32 ? 20.0 : 2.0}});
      }
}

TEST_CASE("kernels: GEMMs in every layout", "[gpu]") {
  NEEDS_GPU();
  const auto matrix = [](DType dtype, std::uint64_t rows, std::uint64_t columns, bool turned) {
    return strided_view(dtype, {rows, columns},
                        turned ? std::vector<std::size_t>{1, 0} : std::vector<std::size_t>{0, 1});
  };
  for (const DType dtype : {f32, b16, f16, DType::float64})
    for (int layout = 0; layout < 8; ++layout)
      for (const Sizes& s : {Sizes{64, 48, 32}, Sizes{33, 17, 9}, Sizes{1, 40, 24}, Sizes{128, 1, 16}}) {
        INFO(name(dtype) << " layout " << layout << " " << s[0] << "x" << s[1] << "x" << s[2]);
        Case c(KernelOp::gemm, 0.5);
        c.add(matrix(dtype, s[0], s[1], (layout & 4) != 0));
        c.add(matrix(dtype, s[0], s[2], (layout & 1) != 0));
        c.add(matrix(dtype, s[2], s[1], (layout & 2) != 0));
        c.check({{0, 2}});
        if (layout == 2) {
          Case with_bias(KernelOp::gemm);
          with_bias.kernel.accumulate = s[0] == 64;
          with_bias.add(matrix(dtype, s[0], s[1], false));
          with_bias.add(matrix(dtype, s[0], s[2], false));
          with_bias.add(matrix(dtype, s[2], s[1], true));
          with_bias.add(dtype, {s[1]});
          with_bias.check({{0, 2}});
        }
      }
  for (const DType dtype : {f32, b16}) {
    Case wide(KernelOp::gemm);  // float32 sums of a long product; a float32 output of 16-bit operands
    wide.add(f32, {40, 56});
    wide.add(dtype, {40, 2048});
    wide.add(matrix(dtype, 2048, 56, true));
    wide.check({{0, 10}});
    Case batched(KernelOp::gemm);
    batched.add(dtype, {3, 24, 16});
    batched.add(dtype, {3, 24, 32});
    batched.add(strided_view(dtype, {3, 32, 16}, {0, 2, 1}));
    batched.check({{0, 2}});
    Case gaps(KernelOp::gemm);  // a third of a wider matrix
    gaps.add(strided_view(dtype, {32, 16}, {0, 1}, 8));
    gaps.add(strided_view(dtype, {32, 24}, {0, 1}, 40));
    gaps.add(dtype, {24, 16});
    gaps.check({{0, 2}});
  }
}

namespace {

struct AttentionShape {
  std::uint64_t batch, heads, kv_heads, queries, keys, dim;
  bool causal;
};

void check_attention(DType dtype, const AttentionShape& s, bool heads_inside) {
  INFO(name(dtype) << " " << s.batch << "x" << s.heads << "/" << s.kv_heads << "x" << s.queries << "x" << s.keys << "x"
                   << s.dim << (s.causal ? " causal" : "") << (heads_inside ? " [b, s, h, d]" : ""));
  const std::vector<std::size_t> order =
      heads_inside ? std::vector<std::size_t>{0, 2, 1, 3} : std::vector<std::size_t>{0, 1, 2, 3};
  const TensorView q = strided_view(dtype, {s.batch, s.heads, s.queries, s.dim}, order);
  const TensorView k = strided_view(dtype, {s.batch, s.kv_heads, s.keys, s.dim}, order);
  const double scale = 1 / std::sqrt(static_cast<double>(s.dim));
  const double slack = dtype == f32 ? 20 : 3;
  Case forward(KernelOp::attention, scale);
  forward.kernel.causal = s.causal;
  forward.add(q);
  forward.add(f32, {s.batch, s.heads, s.queries});
  forward.add(q);
  forward.add(k);
  forward.add(k);
  forward.check({{0, slack}, {1, dtype == f32 ? 4.0 : 400.0}});
}

/// The backward needs a forward's outputs that belong together: made on the host.
void check_attention_backward(DType dtype, const AttentionShape& s) {
  INFO(name(dtype) << " backward " << s.heads << "/" << s.kv_heads << "x" << s.queries << "x" << s.keys << "x"
                   << s.dim);
  const Sizes qs{s.batch, s.heads, s.queries, s.dim};
  const Sizes ks{s.batch, s.kv_heads, s.keys, s.dim};
  Case c(KernelOp::attention_backward, 1 / std::sqrt(static_cast<double>(s.dim)));
  c.kernel.causal = s.causal;
  for (const Sizes& shape : {qs, ks, ks, qs, qs, ks, ks, qs}) c.add(dtype, shape);
  c.add(f32, {s.batch, s.heads, s.queries});
  c.forward_on_host({7, 8}, {4, 5, 6});
  const double slack = dtype == f32 ? 40 : 6;
  c.check({{0, slack}, {1, slack}, {2, slack}});
}

}  // namespace

TEST_CASE("kernels: attention forward", "[gpu]") {
  NEEDS_GPU();
  for (const DType dtype : {f32, b16, f16})
    for (const AttentionShape& s :
         {AttentionShape{2, 4, 4, 64, 64, 64, false}, AttentionShape{1, 8, 2, 128, 128, 128, true},
          AttentionShape{1, 4, 2, 72, 72, 64, true}, AttentionShape{2, 2, 2, 33, 65, 32, false}})
      for (const bool heads_inside : {false, true}) check_attention(dtype, s, heads_inside);
  check_attention(f32, {1, 3, 3, 17, 17, 20, true}, false);
  check_attention(f32, {1, 2, 1, 40, 40, 256, true}, true);
  check_attention(f32, {1, 2, 2, 37, 37, 1024, false}, true);  // the test Transformer's heads
  CHECK(executor().attention_refusal() == "");
}

TEST_CASE("kernels: attention backward", "[gpu]") {
  NEEDS_GPU();
  for (const DType dtype : {f32, b16, f16})
    for (const AttentionShape& s :
         {AttentionShape{2, 4, 4, 64, 64, 64, false}, AttentionShape{1, 8, 2, 128, 128, 128, true},
          AttentionShape{1, 4, 2, 72, 72, 64, true}})
      check_attention_backward(dtype, s);
  check_attention_backward(f32, {1, 3, 3, 17, 17, 20, true});
  check_attention_backward(f32, {1, 4, 2, 40, 40, 200, true});
  check_attention_backward(f32, {1, 2, 2, 37, 37, 1024, false});
  CHECK(executor().attention_refusal() == "");
}

TEST_CASE("kernels: embedding and its gradient", "[gpu]") {
  NEEDS_GPU();
  for (const DType dtype : {f32, b16})
    for (const std::uint64_t dim : {64U, 1100U, 37U}) {
      Case c(KernelOp::embedding);
      c.add(dtype, {3, 50, dim});
      c.add(dtype, {40, dim});
      c.add_indices({3, 50}, 40);
      c.check({{0, 0}});
      Case back(KernelOp::embedding_backward);
      back.add(dtype, {40, dim});
      back.add(dtype, {7, 50, dim});
      back.add_indices({7, 50}, 33);
      back.check({{0, dtype == f32 ? 4.0 : 1.0}});
    }
}

TEST_CASE("kernels: losses", "[gpu]") {
  NEEDS_GPU();
  for (const DType dtype : {f32, b16})
    for (const std::uint64_t columns : {512U, 32000U, 1001U, 7U}) {
      INFO(name(dtype) << " columns " << columns);
      Case soft(KernelOp::log_softmax);
      soft.add(dtype, {9, columns});
      soft.add(dtype, {9, columns});
      soft.check({{0, 1}});
      Case back(KernelOp::log_softmax_backward);
      back.add(dtype, {9, columns});
      back.add(dtype, {9, columns});
      back.add(dtype, {9, columns});
      back.check({{0, dtype == f32 ? 40.0 : 2.0}});
      Case nll(KernelOp::nll_loss);
      nll.add(dtype, {});
      nll.add(dtype, {});
      const std::uint64_t rows = columns > 2000 ? 40 : 1500;
      nll.add(dtype, {rows, columns});
      nll.add_indices({rows}, columns);
      nll.check({{0, 10}, {1, 1}});
      Case nll_back(KernelOp::nll_loss_backward);
      nll_back.add(dtype, {15, columns});
      nll_back.add(dtype, {});
      nll_back.add_indices({15}, columns);
      nll_back.check({{0, 1}});
      Case entropy(KernelOp::cross_entropy);
      entropy.add(f32, {});
      entropy.add(dtype, {33, columns});
      entropy.add_over(1, contiguous_view(dtype, {33, columns}));
      entropy.add_indices({33}, columns);
      entropy.check({{0, 4}, {1, dtype == f32 ? 10.0 : 1.0}});
    }
}

TEST_CASE("kernels: attention by parts", "[gpu]") {
  NEEDS_GPU();
  for (const DType dtype : {f32, b16})
    for (const std::uint64_t columns : {512U, 4096U, 20000U, 1001U, 7U}) {
      INFO(name(dtype) << " columns " << columns);
      Case soft(KernelOp::softmax);
      soft.add(dtype, {2, 9, columns});
      soft.add(dtype, {2, 9, columns});
      soft.check({{0, 2}});
      Case over(KernelOp::softmax);
      over.add(dtype, {9, columns});
      over.add_over(0, contiguous_view(dtype, {9, columns}));
      over.check({{0, 2}});
      Case masked(KernelOp::softmax);  // a row of -infinity among others
      masked.add(dtype, {3, columns});
      masked.add(dtype, {3, columns});
      std::uint64_t place = 0;
      masked.change(1, [&](double x) { return place++ / columns == 1 ? -INFINITY : x; });
      masked.check({{0, 2}});
      for (const double odd : {std::nan(""), std::numeric_limits<double>::infinity()}) {  // makes its row NaN, no other
        Case spoiled(KernelOp::softmax);
        spoiled.add(dtype, {3, columns});
        spoiled.add(dtype, {3, columns});
        std::uint64_t at = 0;
        spoiled.change(1, [&](double x) { return at++ == columns + columns / 3 ? odd : x; });
        spoiled.check({{0, 2}});
      }
      Case back(KernelOp::softmax_backward);
      back.add(dtype, {9, columns});
      back.add(dtype, {9, columns});
      back.add(dtype, {9, columns});
      back.check({{0, dtype == f32 ? 40.0 : 2.0}});
    }
  for (const Sizes& shape : {Sizes{512, 512}, Sizes{3, 700}, Sizes{70, 33}}) {
    Case mask(KernelOp::causal_mask);
    mask.add(f32, shape);
    mask.check({{0, 1}});
  }
  // Keys repeated for their queries' heads, and the sum back.
  Case repeat(KernelOp::copy);
  repeat.add(f32, {2, 4, 4, 40, 64});
  TensorView keys = strided_view(f32, {2, 4, 40, 64}, {0, 2, 1, 3});
  keys.shape.insert(keys.shape.begin() + 2, 4);
  keys.strides.insert(keys.strides.begin() + 2, 0);
  repeat.add(keys);
  repeat.check({{0, 1}});
  for (const std::vector<std::size_t>& order : {std::vector<std::size_t>{0, 1, 2, 3, 4}, {0, 1, 2, 4, 3}}) {
    Case sum(KernelOp::sum_to);
    sum.add(f32, {2, 4, 1, 40, 64});
    sum.add(strided_view(f32, {2, 4, 4, 40, 64}, order));
    sum.check({{0, 4}});
  }
}

TEST_CASE("kernels: concatenation and rotary embedding", "[gpu]") {
  NEEDS_GPU();
  for (const DType dtype : {f32, b16}) {
    Case joined(KernelOp::cat);
    joined.kernel.integers = {3};
    joined.add(dtype, {2, 3, 4, 24});
    joined.add(dtype, {2, 3, 4, 16});
    joined.add(dtype, {2, 3, 4, 8});
    joined.check({{0, 0}});
    for (const bool backward : {false, true})
      for (const std::uint64_t dim : {128U, 6U}) {
        Case c(backward ? KernelOp::rope_backward : KernelOp::rope);
        c.add(dtype, {2, 9, 4, dim});
        c.add(strided_view(dtype, {2, 9, 4, dim}, {0, 2, 1, 3}));
        c.add(f32, {9, dim / 2});
        c.add(f32, {9, dim / 2});
        c.check({{0, 1}});
        Case over(backward ? KernelOp::rope_backward : KernelOp::rope);
        over.add(dtype, {2, 9, 4, dim});
        over.add_over(0, contiguous_view(dtype, {2, 9, 4, dim}));
        over.add(f32, {9, dim / 2});
        over.add(f32, {9, dim / 2});
        over.check({{0, 1}});
      }
  }
}

TEST_CASE("kernels: copy-in with copy-out and chunk-cat", "[gpu]") {
  NEEDS_GPU();
  // Sizes of one rank's places: large and aligned, odd, tiny, and one that the last rank has nothing of.
  const std::vector<std::uint64_t> numel{40000, 4099, 7, 3, 65536};
  for (const std::int64_t ranks : {1, 2, 4})
    for (const DType tensor : {f32, b16})
      for (const DType flat : {f32, b16}) {
        INFO(ranks << " ranks, " << name(tensor) << " to " << name(flat));
        std::vector<std::int64_t> padded{ranks};
        std::uint64_t total = 0;
        for (const std::uint64_t n : numel) {
          padded.push_back(static_cast<std::int64_t>(ceil_div(n, static_cast<std::uint64_t>(ranks))));
          total += static_cast<std::uint64_t>(padded.back());
        }
        const std::uint64_t whole = total * static_cast<std::uint64_t>(ranks);
        Case cat(KernelOp::chunk_cat, 0.25);
        cat.kernel.integers = padded;
        cat.add(flat, {whole});
        for (const std::uint64_t n : numel) cat.add(tensor, {n});
        cat.check({{0, 1}});
        Case out(KernelOp::copy_out);
        out.kernel.integers = padded;
        std::vector<Output> outputs;
        for (const std::uint64_t n : numel) outputs.push_back({out.add(tensor, {n}), 1});
        out.add(flat, {whole});
        out.check(outputs);
        Case in(KernelOp::copy_in);
        in.kernel.integers = {40008, 4100, 8, 8, 65536};
        in.add(flat, {40008 + 4100 + 8 + 8 + 65536});
        for (const std::uint64_t n : numel) in.add(tensor, {n});
        in.check({{0, 1}});
      }
  Case many(KernelOp::chunk_cat);  // more tensors than one table holds
  many.kernel.integers = {2};
  many.add(f32, {2 * 600 * 5});
  for (int i = 0; i < 600; ++i) {
    many.kernel.integers.push_back(5);
    many.add(b16, {9});
  }
  many.check({{0, 0}});
}

TEST_CASE("kernels: optimizers", "[gpu]") {
  NEEDS_GPU();
  for (const std::size_t tensors : {3U, 500U})
    for (const auto& [gradient, cast] : std::vector<std::pair<DType, std::optional<DType>>>{
             {f32, std::nullopt}, {b16, std::nullopt}, {f32, b16}, {f32, f32}}) {
      const std::uint64_t n = tensors == 3 ? 10007 : 40;
      Case adam(KernelOp::adam);
      adam.kernel.casts = cast.has_value();
      adam.kernel.scalars = {1e-2, 0.9, 0.999, 1e-8, 0.01};
      adam.kernel.integers = {3};
      std::vector<Output> outputs;
      for (int list = 0; list < 3; ++list)
        for (std::size_t i = 0; i < tensors; ++i) {
          outputs.push_back({adam.add(f32, {n + 8 * i}), 4});
          if (list == 2) adam.make_positive(outputs.back().operand);
        }
      for (std::size_t i = 0; cast && i < tensors; ++i) outputs.push_back({adam.add(*cast, {n + 8 * i}), 4});
      for (std::size_t i = 0; i < tensors; ++i) adam.add(gradient, {n + 8 * i});
      adam.check(outputs);
      Case sgd(KernelOp::sgd);
      sgd.kernel.scalars = {0.1, 0.01};
      sgd.kernel.casts = cast.has_value();
      outputs.clear();
      for (std::size_t i = 0; i < tensors; ++i) outputs.push_back({sgd.add(f32, {n}), 1});
      for (std::size_t i = 0; cast && i < tensors; ++i) outputs.push_back({sgd.add(*cast, {n}), 1});
      for (std::size_t i = 0; i < tensors; ++i) sgd.add(gradient, {n});
      sgd.check(outputs);
    }
}

TEST_CASE("kernels: foreach passes, out of place and in place", "[gpu]") {
  NEEDS_GPU();
  struct Pass {
    KernelOp op;
    double alpha;
    std::size_t inputs;
  };
  constexpr std::array<Pass, 8> kPasses{{{KernelOp::foreach_lerp, 0.1, 2},
                                         {KernelOp::foreach_lerp, 0.7, 2},
                                         {KernelOp::foreach_mul, 0.999, 1},
                                         {KernelOp::foreach_addcmul, 1e-3, 3},
                                         {KernelOp::foreach_sqrt, 1, 1},
                                         {KernelOp::foreach_div, 0.0316, 1},
                                         {KernelOp::foreach_add, 1e-8, 1},
                                         {KernelOp::foreach_addcdiv, -1e-2, 3}}};
  for (const Pass& pass : kPasses)
    for (const DType dtype : {f32, b16})
      for (const std::size_t tensors : {1U, 3U, 130U})  // 130: more than one launch's table
        for (const bool in_place : {false, true}) {
          INFO("op " << static_cast<int>(pass.op) << " tensors " << tensors << " in place " << in_place);
          const auto numel = [&](std::size_t i) {
            return tensors == 1 ? 100'003 : tensors == 3 ? 9001 + 8 * i : 40 + i;
          };
          Case c(pass.op, pass.alpha);
          std::vector<Output> outputs;
          for (std::size_t i = 0; i < tensors; ++i) {
            outputs.push_back({c.add(dtype, {numel(i)}), 1});
            c.make_positive(outputs.back().operand);
          }
          for (std::size_t list = 0; list < pass.inputs; ++list)
            for (std::size_t i = 0; i < tensors; ++i) {
              if (in_place && list == 0) {
                c.add_over(i, contiguous_view(dtype, {numel(i)}));
                continue;
              }
              if (list == 2 && pass.op == KernelOp::foreach_addcmul) {  // a gradient, twice
                c.add_over(2 * tensors + i, contiguous_view(dtype, {numel(i)}));
                continue;
              }
              c.make_positive(c.add(dtype, {numel(i)}));
            }
          c.check(outputs);
        }
}

TEST_CASE("kernels: generated numbers", "[gpu]") {
  NEEDS_GPU();
  for (const DType dtype : {f32, b16}) {
    Case normal(KernelOp::random_normal, 0.02);
    normal.kernel.integers = {17, 1000003};
    normal.add(dtype, {12345});
    normal.check({{0, 0}});
  }
  Case tokens(KernelOp::random_tokens);
  tokens.kernel.integers = {(1 << 20) + 4097, 5, 128256};
  tokens.add(DType::int64, {3, 1000});
  tokens.check({{0, 0}});
  Case counting(KernelOp::arange);
  counting.add(DType::int64, {3000});
  counting.check({{0, 0}});
  for (const KernelOp op : {KernelOp::rotary_cos, KernelOp::rotary_sin}) {
    Case table(op);
    table.kernel.scalars = {500000};
    table.add(f32, {300, 64});
    table.check({{0, 30}});
  }
}

TEST_CASE("kernels: what breaks a contract is an error that names the operand", "[gpu]") {
  NEEDS_GPU();
  Kernel c;
  c.op = KernelOp::rms_norm;
  c.operands = {contiguous_view(f32, {4, 8}), contiguous_view(f32, {4}), strided_view(f32, {4, 8}, {1, 0}),
                contiguous_view(f32, {8})};
  const DeviceBlock block(4096);
  const std::vector<Address> addresses(4, block.address());
  const Result<void> result = executor().run(c, addresses, nullptr);
  REQUIRE(!result);
  CHECK(result.error().what == "rms_norm cannot run on the GPU: operand 2 has gaps");
  CHECK(!executor().run(c, std::span(addresses).first(2), nullptr));
}

TEST_CASE("kernels: stand-ins run", "[gpu]") {
  NEEDS_GPU();
  KernelWork work;
  work.bytes = 100 * kMiB;
  require_done(executor().emulate(work, nullptr));
  work.math = {KernelMath::Kind::gemm, b16, false, 1, 512, 1024, 256};
  require_done(executor().emulate(work, nullptr));
  work.math = {KernelMath::Kind::attention_forward, b16, true, 8, 128, 128, 64};
  require_done(executor().emulate(work, nullptr));
  work.math.kind = KernelMath::Kind::attention_backward;
  require_done(executor().emulate(work, nullptr));
  KernelWork wait;
  wait.work = Nanoseconds::from_us(50);
  require_done(executor().emulate(wait, nullptr));
  require_cuda(cudaDeviceSynchronize());
  CHECK(executor().fixed_bytes() >= kGiB);
}
