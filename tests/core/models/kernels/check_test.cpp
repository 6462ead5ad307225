// fault_of(): sound where a generated program says it, and a fault where a Kernel breaks its op's contract.
#include <functional>

#include "core/kernel/kernel_check.hpp"
#include "tests/contract/host_math.hpp"
#include "tests/core/models/kernels/small_models.hpp"

namespace foreshard {
namespace {

TEST_CASE("what generated programs compute has no fault") {
  std::size_t seen = 0;
  for (const std::string_view name : {"mlp", "llama-tiny", "torch-transformer"})
    for (const std::uint32_t kv_heads : {1U, 2U})
      for (const Kernels kernels : {Kernels::eager, Kernels::fused})
        for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::blocks, Checkpoint::selective_op})
          for (const bool mixed : {false, true}) {
            Settings settings = mixed ? small_mixed() : small_settings();
            settings.kernels = kernels;
            settings.checkpoint = checkpoint;
            settings.accumulate = 2;
            ModelConfig model = small_model(name);
            if (name == "llama-tiny") model.kv_heads = kv_heads;
            const auto w = generate(model, settings, {}, 132, true);
            if (!w) continue;
            for (const Program* program : {&w->setup, &w->steps[0], &w->steps[1]})
              for (const ProgramKernel& made : program->kernels) {
                ++seen;
                CHECK(fault_of(made.kernel) == "");
              }
          }
  CHECK(seen > 1000);
}

Kernel of(KernelOp op, std::vector<TensorView> operands) {
  Kernel c;
  c.op = op;
  c.operands = std::move(operands);
  return c;
}

TensorView floats(std::vector<std::uint64_t> shape) {
  return contiguous_view(DType::float32, std::move(shape));
}
TensorView indices(std::vector<std::uint64_t> shape) {
  return contiguous_view(DType::int64, std::move(shape));
}
TensorView absent() {
  TensorView view;
  view.absent = true;
  return view;
}

TEST_CASE("a kernel that breaks its op's contract has a fault") {
  const auto check = [](Kernel c, std::string_view sentence) { CHECK(fault_of(c) == sentence); };
  check(of(KernelOp::fused, {}), "");
  check(of(KernelOp::fused, {floats({1})}), "0 operands are wanted, not 1");
  check(of(KernelOp::add, {floats({2, 3}), floats({2, 3}), floats({2, 3})}), "");
  check(of(KernelOp::add, {floats({2, 3}), floats({2, 3})}), "3 operands are wanted, not 2");
  check(of(KernelOp::add, {floats({2, 3}), floats({2, 3}), floats({3, 2})}),
        "operand 2 has not the shape that the others want");
  check(of(KernelOp::add, {floats({2, 3}), indices({2, 3}), floats({2, 3})}), "operand 1 is int64, not floating");
  check(of(KernelOp::add, {floats({2, 3}), absent(), floats({2, 3})}), "operand 1 is absent");
  check(of(KernelOp::copy, {floats({4}), indices({4})}), "");
  check(of(KernelOp::gemm, {floats({2, 3}), floats({2, 5}), floats({5, 3})}), "");
  check(of(KernelOp::gemm, {floats({2, 3}), floats({2, 5}), floats({5, 3}), absent()}), "");
  check(of(KernelOp::gemm, {floats({2, 3}), floats({2, 5}), floats({5, 3}), floats({2})}),
        "operand 3 has not the shape that the others want");
  check(of(KernelOp::gemm, {floats({2, 3}), floats({2, 5}), floats({4, 3})}),
        "the shapes are not those of out[m, n], a[m, k], b[k, n]");
  check(of(KernelOp::gemm, {floats({2, 3})}), "at least 3 operands are wanted, not 1");
  const TensorView cast = contiguous_view(DType::float8_e4m3fn, {4, 3});
  const TensorView turned = contiguous_view(DType::float8_e4m3fn, {3, 4});
  check(of(KernelOp::cast_float8, {cast, turned, floats({}), floats({4, 3}), floats({})}), "");
  check(of(KernelOp::cast_float8, {absent(), turned, floats({}), floats({4, 3}), floats({})}), "");
  check(of(KernelOp::cast_float8, {turned, absent(), floats({}), floats({4, 3}), floats({})}),
        "operand 0 has not the shape that the others want");
  check(of(KernelOp::cast_float8, {floats({4, 3}), absent(), floats({}), floats({4, 3}), floats({})}),
        "operand 0 is float32, not float8");
  check(of(KernelOp::copy, {floats({4, 3}), cast}), "operand 1 is float8_e4m3fn, not of another dtype than float8");
  check(of(KernelOp::layer_norm, {floats({4, 3}), floats({4}), floats({4}), floats({4, 3}), absent(), floats({3})}),
        "");
  check(of(KernelOp::layer_norm, {floats({4, 3}), floats({3}), floats({4}), floats({4, 3}), absent(), absent()}),
        "operand 1 has 3 elements, not one a row (4)");
  check(of(KernelOp::rms_norm, {floats({4, 3}), floats({4}), floats({4, 3}), floats({4})}),
        "operand 3 has 4 elements, not one a column (3)");
  check(of(KernelOp::nll_loss, {floats({}), floats({}), floats({4, 3}), floats({4})}),
        "operand 3 is float32, not int64");
  check(of(KernelOp::embedding, {floats({2, 5, 8}), floats({10, 8}), indices({2, 5})}), "");
  check(of(KernelOp::embedding, {floats({2, 5, 8}), floats({10, 8}), indices({2, 4})}),
        "an embedding has a row of its weight for each index");
  const TensorView q = floats({2, 4, 5, 8});
  const TensorView k = floats({2, 2, 5, 8});
  check(of(KernelOp::attention, {q, floats({2, 4, 5}), q, k, k}), "");
  check(of(KernelOp::attention, {q, floats({2, 4, 5}), q, floats({2, 3, 5, 8}), floats({2, 3, 5, 8})}),
        "query heads come in groups of key heads");
  check(of(KernelOp::attention, {q, floats({2, 4, 6}), q, k, k}), "operand 1 has not the shape that the others want");
  check(of(KernelOp::attention_backward, {q, k, k, q, q, k, k, q, floats({2, 4, 5}), indices({1}), floats({9})}), "");
  check(of(KernelOp::chunk_cat, {floats({4}), floats({4})}),
        "FSDP2's sections and the optimizer compute this, not a program");
  check(of(KernelOp::adam, {}), "FSDP2's sections and the optimizer compute this, not a program");
  Kernel cat = of(KernelOp::cat, {floats({2, 5}), floats({2, 3}), floats({2, 2})});
  check(cat, "1 integers are wanted, not 0");
  cat.integers = {1};
  check(cat, "");
  cat.integers = {0};
  check(cat, "operand 1 has not the shape that the others want");
  cat.integers = {2};
  check(cat, "there is no dimension 2");
  Kernel tokens = of(KernelOp::random_tokens, {indices({5})});
  tokens.integers = {-1, 0, 0};
  check(tokens, "the bound of random_tokens is above 0");
  Kernel gelu = of(KernelOp::gelu, {floats({2}), floats({2})});
  gelu.causal = true;
  check(gelu, "only attention is causal");
  gelu.causal = false;
  gelu.alpha = std::numeric_limits<double>::infinity();
  check(gelu, "alpha and scalars are finite");
}

TEST_CASE("a view reaches to the byte behind its furthest element") {
  CHECK(extent_of(floats({2, 3})) == 24);
  CHECK(extent_of(floats({})) == 4);
  CHECK(extent_of(floats({2, 0, 3})) == 0);
  TensorView view = floats({2, 3});
  view.strides = {10, 2};
  view.offset = 7;
  CHECK(extent_of(view) == 7 + (10 + 4 + 1) * 4);
  view.strides = {0, 0};
  CHECK(extent_of(view) == 7 + 4);
  view.strides = {1};
  CHECK(!extent_of(view));
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 49;
  CHECK(!extent_of(TensorView{0, DType::float32, false, {kHuge, 4}, {0, 0}}));
  CHECK(!extent_of(TensorView{0, DType::float32, false, {2}, {kHuge}}));
  CHECK(!extent_of(TensorView{~std::uint64_t{0}, DType::float32, false, {}, {}}));
  CHECK(!extent_of(TensorView{0, DType::uint8, false, {3}, {~std::uint64_t{0}}}));
}

}  // namespace
}  // namespace foreshard
