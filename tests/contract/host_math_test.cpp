// The reference itself: roundings against known bits, every backward against finite differences of its forward, the
// layouts of FSDP2's sections against small examples written out by hand.
#include <array>
#include <cmath>
#include <limits>
#include <map>

#include "tests/catch.hpp"
#include "tests/contract/host_view.hpp"

using namespace foreshard;

namespace {

/// Operands in float64 blocks (int64 for indices) of their own.
struct Tensors {
  std::vector<TensorView> views;
  std::vector<std::vector<double>> memory;

  std::size_t add(Shape64 shape, std::uint64_t seed) {
    views.push_back(contiguous_view(DType::float64, std::move(shape)));
    memory.emplace_back(std::max<std::uint64_t>(views.back().numel(), 1));
    for (std::size_t i = 0; i < memory.back().size(); ++i) memory.back()[i] = normal_of_counter(seed, i);
    return views.size() - 1;
  }
  void integers(std::size_t t, std::uint64_t bound) {
    views[t].dtype = DType::int64;
    for (std::size_t i = 0; i < memory[t].size(); ++i) {
      const std::uint64_t value = token_of_bits(bits_of_counter(9, i), bound);
      memory[t][i] = std::bit_cast<double>(value);
    }
  }
  [[nodiscard]] Address address(std::size_t t) { return reinterpret_cast<Address>(memory[t].data()); }
};

void run(Tensors& all, Kernel kernel, const std::vector<std::size_t>& operands) {
  std::vector<Address> addresses;
  for (const std::size_t t : operands) {
    kernel.operands.push_back(all.views[t]);
    addresses.push_back(all.address(t));
  }
  run_on_host(kernel, addresses);
}

/// Checks backward's gradients: `forward` writes `outputs`, whose gradients are `d_outputs`; `backward` writes
/// `gradients` of `inputs`.
struct Pair {
  Kernel forward;
  std::vector<std::size_t> forward_operands;
  std::vector<std::size_t> outputs, d_outputs;
  Kernel backward;
  std::vector<std::size_t> backward_operands;
  std::vector<std::size_t> inputs, gradients;
};

double objective(Tensors& all, const Pair& pair) {
  run(all, pair.forward, pair.forward_operands);
  double sum = 0;
  for (std::size_t o = 0; o < pair.outputs.size(); ++o)
    for (std::size_t i = 0; i < all.memory[pair.outputs[o]].size(); ++i)
      sum += all.memory[pair.outputs[o]][i] * all.memory[pair.d_outputs[o]][i];
  return sum;
}

void check(Tensors& all, const Pair& pair) {
  constexpr double kStep = 1e-5;
  objective(all, pair);
  run(all, pair.backward, pair.backward_operands);
  const std::vector<std::vector<double>> kept = all.memory;
  for (std::size_t t = 0; t < pair.inputs.size(); ++t)
    for (std::size_t i = 0; i < kept[pair.inputs[t]].size(); ++i) {
      double& x = all.memory[pair.inputs[t]][i];
      x = kept[pair.inputs[t]][i] + kStep;
      const double above = objective(all, pair);
      x = kept[pair.inputs[t]][i] - kStep;
      const double below = objective(all, pair);
      x = kept[pair.inputs[t]][i];
      INFO("input " << t << " element " << i);
      REQUIRE(kept[pair.gradients[t]][i] == Approx((above - below) / (2 * kStep)).margin(1e-7).epsilon(1e-5));
    }
}

Kernel of(KernelOp op, double alpha = 1) {
  Kernel c;
  c.op = op;
  c.alpha = alpha;
  return c;
}

}  // namespace

TEST_CASE("host math: numbers round to nearest even") {
  CHECK(rounded_to(DType::bfloat16, 1.00390625) == 1);         // 1 + 2^-8: half way, to even
  CHECK(rounded_to(DType::bfloat16, 1.01171875) == 1.015625);  // 1 + 3 · 2^-8: half way, up to even
  CHECK(rounded_to(DType::bfloat16, 1.0039062500000002) == 1.0078125);
  CHECK(rounded_to(DType::float16, 1.00048828125) == 1);  // 1 + 2^-11
  CHECK(rounded_to(DType::float16, 65519.9) == 65504);
  CHECK(std::isinf(rounded_to(DType::float16, 65520)));
  CHECK(rounded_to(DType::float16, std::ldexp(1, -24)) == std::ldexp(1, -24));
  CHECK(rounded_to(DType::float16, std::ldexp(1, -25)) == 0);
  CHECK(rounded_to(DType::float16, -0.333251953125) == -0.333251953125);
  CHECK(std::isinf(rounded_to(DType::bfloat16, 3.4e38)));
  CHECK(std::isnan(rounded_to(DType::bfloat16, std::nan(""))));
  CHECK(rounded_to(DType::int64, -3.7) == -3);
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    for (const DType dtype : {DType::bfloat16, DType::float16}) {
      auto memory = static_cast<std::uint16_t>(bits);
      const double value = load_element(reinterpret_cast<Address>(&memory), dtype);
      if (std::isnan(value)) continue;
      std::uint16_t back = 0;
      store_element(reinterpret_cast<Address>(&back), dtype, value);
      REQUIRE(back == memory);
    }
  }
}

TEST_CASE("host math: elementwise backwards are the slopes of their forwards") {
  const std::array pairs{std::pair{KernelOp::silu, KernelOp::silu_backward},
                         std::pair{KernelOp::gelu, KernelOp::gelu_backward}};
  for (const auto& [forward, backward] : pairs) {
    Tensors t;
    const auto x = t.add({3, 5}, 1);
    const auto y = t.add({3, 5}, 2);
    const auto dy = t.add({3, 5}, 3);
    const auto dx = t.add({3, 5}, 4);
    check(t, {of(forward), {y, x}, {y}, {dy}, of(backward), {dx, dy, x}, {x}, {dx}});
  }
}

TEST_CASE("host math: swiglu and dropout backwards") {
  Tensors t;
  const auto gate = t.add({2, 7}, 1);
  const auto up = t.add({2, 7}, 2);
  const auto out = t.add({2, 7}, 3);
  const auto dy = t.add({2, 7}, 4);
  const auto dgate = t.add({2, 7}, 5);
  const auto dup = t.add({2, 7}, 6);
  check(t, {of(KernelOp::swiglu),
            {out, gate, up},
            {out},
            {dy},
            of(KernelOp::swiglu_backward),
            {dgate, dup, dy, gate, up},
            {gate, up},
            {dgate, dup}});
  const auto mask = t.add({2, 7}, 7);
  Kernel dropped = of(KernelOp::dropout, 0.4);
  dropped.integers = {3, 100};
  check(t, {dropped,
            {out, mask, gate},
            {out},
            {dy},
            of(KernelOp::dropout_backward, 0.4),
            {dgate, dy, mask},
            {gate},
            {dgate}});
  double kept = 0;
  for (const double m : t.memory[mask]) kept += m;
  CHECK(kept > 0);
  CHECK(kept < 14);
}

TEST_CASE("host math: norms' backwards") {
  Tensors t;
  const Shape64 shape{2, 3, 6};
  const auto x = t.add(shape, 1);
  const auto weight = t.add({6}, 2);
  const auto bias = t.add({6}, 3);
  const auto y = t.add(shape, 4);
  const auto mean = t.add({2, 3, 1}, 5);
  const auto rstd = t.add({2, 3, 1}, 6);
  const auto dy = t.add(shape, 7);
  const auto dx = t.add(shape, 8);
  const auto dweight = t.add({6}, 9);
  const auto dbias = t.add({6}, 10);
  const Kernel layer = of(KernelOp::layer_norm, 1e-3);
  const std::vector<std::size_t> layer_operands{y, mean, rstd, x, weight, bias};
  check(t, {layer,
            layer_operands,
            {y},
            {dy},
            of(KernelOp::layer_norm_backward),
            {dx, dy, x, mean, rstd, weight},
            {x},
            {dx}});
  check(t, {layer,
            layer_operands,
            {y},
            {dy},
            of(KernelOp::layer_norm_backward_weights),
            {dweight, dbias, dy, x, mean, rstd},
            {weight, bias},
            {dweight, dbias}});
  const Kernel rms = of(KernelOp::rms_norm, 1e-3);
  check(t,
        {rms, {y, rstd, x, weight}, {y}, {dy}, of(KernelOp::rms_norm_backward), {dx, dy, x, rstd, weight}, {x}, {dx}});
  check(t, {rms,
            {y, rstd, x, weight},
            {y},
            {dy},
            of(KernelOp::rms_norm_backward_weight),
            {dweight, dy, x, rstd},
            {weight},
            {dweight}});
  const auto residual = t.add(shape, 11);
  const auto sum = t.add(shape, 12);
  const auto dsum = t.add(shape, 13);
  check(t, {of(KernelOp::add_rms_norm, 1e-3),
            {sum, y, rstd, x, residual, weight},
            {y, sum},
            {dy, dsum},
            of(KernelOp::add_rms_norm_backward),
            {dx, dy, dsum, sum, rstd, weight},
            {residual},
            {dx}});
}

TEST_CASE("host math: attention's backward, grouped and causal") {
  for (const bool causal : {false, true}) {
    Tensors t;
    const auto q = t.add({2, 4, 5, 3}, 1);
    const auto k = t.add({2, 2, 6, 3}, 2);
    const auto v = t.add({2, 2, 6, 3}, 3);
    const auto out = t.add({2, 4, 5, 3}, 4);
    const auto lse = t.add({2, 4, 5}, 5);
    const auto d_out = t.add({2, 4, 5, 3}, 6);
    const auto dq = t.add({2, 4, 5, 3}, 7);
    const auto dk = t.add({2, 2, 6, 3}, 8);
    const auto dv = t.add({2, 2, 6, 3}, 9);
    Kernel forward = of(KernelOp::attention, 0.6);
    Kernel backward = of(KernelOp::attention_backward, 0.6);
    forward.causal = backward.causal = causal;
    check(t, {forward,
              {out, lse, q, k, v},
              {out},
              {d_out},
              backward,
              {dq, dk, dv, d_out, q, k, v, out, lse},
              {q, k, v},
              {dq, dk, dv}});
  }
}

TEST_CASE("host math: embedding, losses and rotary embedding backwards") {
  Tensors t;
  const auto weight = t.add({4, 3}, 1);
  const auto indices = t.add({2, 5}, 2);
  t.integers(indices, 4);
  const auto out = t.add({2, 5, 3}, 3);
  const auto d_out = t.add({2, 5, 3}, 4);
  const auto dweight = t.add({4, 3}, 5);
  check(t, {of(KernelOp::embedding),
            {out, weight, indices},
            {out},
            {d_out},
            of(KernelOp::embedding_backward),
            {dweight, d_out, indices},
            {weight},
            {dweight}});

  const auto x = t.add({5, 4}, 6);
  const auto y = t.add({5, 4}, 7);
  const auto dy = t.add({5, 4}, 8);
  const auto dx = t.add({5, 4}, 9);
  check(t, {of(KernelOp::log_softmax), {y, x}, {y}, {dy}, of(KernelOp::log_softmax_backward), {dx, dy, y}, {x}, {dx}});
  check(t, {of(KernelOp::softmax), {y, x}, {y}, {dy}, of(KernelOp::softmax_backward), {dx, dy, y}, {x}, {dx}});
  const auto target = t.add({5}, 10);
  t.integers(target, 4);
  const auto loss = t.add({}, 11);
  const auto total = t.add({}, 12);
  const auto d_loss = t.add({}, 13);
  check(t, {of(KernelOp::nll_loss),
            {loss, total, x, target},
            {loss},
            {d_loss},
            of(KernelOp::nll_loss_backward),
            {dx, d_loss, target},
            {x},
            {dx}});
  t.memory[d_loss] = {1};
  check(t, {of(KernelOp::cross_entropy),
            {loss, dx, x, target},
            {loss},
            {d_loss},
            of(KernelOp::cross_entropy),
            {loss, dx, x, target},
            {x},
            {dx}});

  const auto heads = t.add({2, 3, 2, 4}, 14);
  const auto turned = t.add({2, 3, 2, 4}, 15);
  const auto d_turned = t.add({2, 3, 2, 4}, 16);
  const auto d_heads = t.add({2, 3, 2, 4}, 17);
  const auto cos = t.add({3, 2}, 18);
  const auto sin = t.add({3, 2}, 19);
  check(t, {of(KernelOp::rope),
            {turned, heads, cos, sin},
            {turned},
            {d_turned},
            of(KernelOp::rope_backward),
            {d_heads, d_turned, cos, sin},
            {heads},
            {d_heads}});
}

TEST_CASE("host math: a causal mask, and the softmax of what it leaves") {
  Tensors t;
  const auto mask = t.add({2, 3}, 1);
  const auto out = t.add({2, 3}, 2);
  const double infinity = std::numeric_limits<double>::infinity();
  run(t, of(KernelOp::causal_mask), {mask});
  CHECK(t.memory[mask] == std::vector<double>{0, -infinity, -infinity, 0, 0, -infinity});
  run(t, of(KernelOp::softmax), {out, mask});
  CHECK(t.memory[out][0] == 1);
  CHECK(t.memory[out][4] == Approx(0.5));
  CHECK(t.memory[out][5] == 0);
  t.memory[mask].assign(6, -infinity);
  run(t, of(KernelOp::softmax), {out, mask});
  CHECK(t.memory[out] == std::vector<double>(6, 0));
}

TEST_CASE("host math: a product's layouts, bias and accumulation") {
  Tensors t;
  const auto a = t.add({3, 2}, 1);  // read as its transpose [2, 3]
  const auto b = t.add({3, 2}, 2);
  const auto bias = t.add({2}, 3);
  const auto out = t.add({2, 2}, 4);
  t.views[a].shape = {2, 3};
  t.views[a].strides = {1, 2};
  Kernel c = of(KernelOp::gemm, 2);
  c.accumulate = true;
  const std::vector<double> before = t.memory[out];
  run(t, c, {out, a, b, bias});
  for (std::size_t i = 0; i < 2; ++i)
    for (std::size_t j = 0; j < 2; ++j) {
      double sum = 0;
      for (std::size_t l = 0; l < 3; ++l) sum += t.memory[a][l * 2 + i] * t.memory[b][l * 2 + j];
      CHECK(t.memory[out][i * 2 + j] == Approx(2 * sum + t.memory[bias][j] + before[i * 2 + j]));
    }
}

TEST_CASE("host math: copy-in, copy-out and chunk-cat are each other's inverses") {
  // Two parameters of 5 and 4 elements over 2 ranks: places of 3 and 2 elements a rank.
  Tensors t;
  const auto p = t.add({5}, 1);
  const auto q = t.add({4}, 2);
  const auto flat = t.add({10}, 3);
  Kernel cat = of(KernelOp::chunk_cat, 0.5);
  cat.integers = {2, 3, 2};
  run(t, cat, {flat, p, q});
  const std::vector<double>& f = t.memory[flat];
  CHECK(f == std::vector<double>{t.memory[p][0] / 2, t.memory[p][1] / 2, t.memory[p][2] / 2, t.memory[q][0] / 2,
                                 t.memory[q][1] / 2, t.memory[p][3] / 2, t.memory[p][4] / 2, 0, t.memory[q][2] / 2,
                                 t.memory[q][3] / 2});
  const auto p2 = t.add({5}, 4);
  const auto q2 = t.add({4}, 5);
  Kernel out = of(KernelOp::copy_out);
  out.integers = {2, 3, 2};
  run(t, out, {p2, q2, flat});
  for (std::size_t i = 0; i < 5; ++i) CHECK(t.memory[p2][i] == t.memory[p][i] / 2);
  for (std::size_t i = 0; i < 4; ++i) CHECK(t.memory[q2][i] == t.memory[q][i] / 2);

  const auto shard = t.add({2}, 6);  // rank 1's part of p: two of three places
  const auto other = t.add({2}, 7);
  const auto sent = t.add({5}, 8);
  Kernel in = of(KernelOp::copy_in);
  in.integers = {3, 2};
  run(t, in, {sent, shard, other});
  CHECK(t.memory[sent] ==
        std::vector<double>{t.memory[shard][0], t.memory[shard][1], 0, t.memory[other][0], t.memory[other][1]});
  in.integers = {2, 2, 3, 0};
  t.memory[sent] = {9, 9, 9, 9, 9};
  run(t, in, {sent, shard, other});
  CHECK(t.memory[sent] ==
        std::vector<double>{t.memory[other][0], t.memory[other][1], 9, t.memory[shard][0], t.memory[shard][1]});
}

TEST_CASE("host math: optimizers by hand") {
  Tensors t;
  const auto p = t.add({1}, 1);
  const auto m = t.add({1}, 2);
  const auto v = t.add({1}, 3);
  const auto g = t.add({1}, 4);
  t.memory[p] = {1};
  t.memory[m] = {0};
  t.memory[v] = {0};
  t.memory[g] = {-0.25};
  Kernel adam = of(KernelOp::adam);
  adam.scalars = {0.1, 0.9, 0.999, 0, 0};
  adam.integers = {1};
  run(t, adam, {p, m, v, g});
  CHECK(t.memory[p][0] == Approx(1.1));  // the first step is lr × sign
  CHECK(t.memory[m][0] == Approx(-0.025));
  CHECK(t.memory[v][0] == Approx(0.0000625));
  Kernel sgd = of(KernelOp::sgd);
  sgd.scalars = {0.5, 0.1};
  run(t, sgd, {p, g});
  CHECK(t.memory[p][0] == Approx(1.1 - 0.5 * (-0.25 + 0.11)));
  const auto cast = t.add({1}, 5);
  adam.casts = sgd.casts = true;
  run(t, adam, {p, m, v, cast, g});
  CHECK(t.memory[cast] == t.memory[p]);
  run(t, sgd, {p, cast, g});
  CHECK(t.memory[cast] == t.memory[p]);
}

TEST_CASE("host math: the foreach passes by hand, in place and out of place") {
  Tensors t;
  std::vector<std::size_t> x;
  for (const double value : {8.0, 3.0, 2.0, 4.0}) {
    x.push_back(t.add({1}, 1));
    t.memory[x.back()] = {value};
  }
  const auto after = [&](KernelOp op, double alpha, const std::vector<std::size_t>& operands) {
    for (std::size_t i = 0; i < 4; ++i) t.memory[x[i]][0] = std::array{8.0, 3.0, 2.0, 4.0}[i];
    run(t, of(op, alpha), operands);
    return t.memory[operands.front()][0];
  };
  CHECK(after(KernelOp::foreach_lerp, 0.25, {x[0], x[0], x[1]}) == 8 + 0.25 * (3 - 8));
  CHECK(after(KernelOp::foreach_lerp, 0.75, {x[0], x[0], x[1]}) == 3 - (3 - 8) * 0.25);
  CHECK(after(KernelOp::foreach_mul, 0.5, {x[3], x[0]}) == 4);
  CHECK(after(KernelOp::foreach_addcmul, 0.5, {x[0], x[0], x[1], x[2]}) == 8 + 0.5 * 3 * 2);
  CHECK(after(KernelOp::foreach_sqrt, 1, {x[0], x[3]}) == 2);
  CHECK(after(KernelOp::foreach_div, 2, {x[0], x[0]}) == 4);
  CHECK(after(KernelOp::foreach_add, 2, {x[0], x[0]}) == 10);
  CHECK(after(KernelOp::foreach_addcdiv, -0.5, {x[0], x[0], x[1], x[2]}) == 8 - 0.5 * 1.5);
  const auto two = t.add({2}, 1);  // lists of two tensors: outputs first
  t.memory[two] = {6, 7};
  run(t, of(KernelOp::foreach_add, 1), {x[0], two, x[1], two});
  CHECK(t.memory[x[0]][0] == 4);
  CHECK(t.memory[two] == std::vector<double>{7, 8});
}

TEST_CASE("host math: sums and concatenation along a dimension; strides and broadcasts") {
  Tensors t;
  const auto x = t.add({2, 3, 2}, 1);
  const auto sum = t.add({1, 3, 1}, 2);
  run(t, of(KernelOp::sum_to, 0.5), {sum, x});
  CHECK(t.memory[sum][1] == Approx((t.memory[x][2] + t.memory[x][3] + t.memory[x][8] + t.memory[x][9]) / 2));
  const auto joined = t.add({2, 5, 2}, 3);
  const auto part = t.add({2, 2, 2}, 4);
  Kernel cat = of(KernelOp::cat);
  cat.integers = {1};
  run(t, cat, {joined, x, part});
  CHECK(t.memory[joined][5] == t.memory[x][5]);
  CHECK(t.memory[joined][6] == t.memory[part][0]);
  CHECK(t.memory[joined][10] == t.memory[x][6]);
  const auto out = t.add({2, 3, 2}, 5);
  const auto row = t.add({3, 1}, 6);
  run(t, of(KernelOp::add, -2), {out, x, row});
  CHECK(t.memory[out][9] == Approx(t.memory[x][9] - 2 * t.memory[row][1]));
}

TEST_CASE("host math: the generator has the moments it says") {
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100000;
  for (int i = 0; i < kCount; ++i) {
    const double x = normal_of_counter(7, static_cast<std::uint64_t>(i));
    sum += x;
    squares += x * x;
  }
  CHECK(std::abs(sum / kCount) < 0.02);
  CHECK(squares / kCount == Approx(1).epsilon(0.02));
  CHECK(bits_of_counter(0, 0) == 0xe220a8397b1dcdafULL);  // SplitMix64 of seed 0, first output
}
