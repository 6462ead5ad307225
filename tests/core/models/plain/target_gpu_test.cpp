// What of the GPU shapes a program: cuBLAS' workspace and which attention runs, by compute capability.
#include <algorithm>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

constexpr Bytes kSmallWorkspace = 8 * kMiB + 128 * kKiB;
constexpr Bytes kLargeWorkspace = 32 * kMiB;

Workload made(const TargetGpu& gpu, const char* pytorch = "2.11") {
  Settings s;
  s.pytorch = pytorch;
  s.gpus = 2;
  s.batch = 2;
  s.seq = 160;  // no multiple of flash's 128 rows
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  auto w = generate(*preset("llama-tiny", {256, 2}), s, {}, gpu);
  REQUIRE(w);
  return std::move(*w);
}

std::ptrdiff_t requests(const Workload& w, std::size_t step, Bytes bytes) {
  const auto& ops = w.steps[step].ops;
  return std::count_if(ops.begin(), ops.end(),
                       [&](const Op& op) { return op.kind == OpKind::alloc && op.size.bytes == bytes; });
}

std::ptrdiff_t kernels(const Workload& w, std::string_view label) {
  const auto& ops = w.steps.back().ops;
  return std::count_if(ops.begin(), ops.end(), [&](const Op& op) {
    return op.kind == OpKind::kernel && w.labels.text(op.label).find(label) != std::string_view::npos;
  });
}

bool estimates_flash(const Workload& w) {
  return std::any_of(w.estimates.begin(), w.estimates.end(),
                     [](const std::string& text) { return text.find("flash") != std::string::npos; });
}

TEST_CASE("compute capability decides, not the number of SMs") {
  const Workload hopper = made({108, 90});
  CHECK(requests(hopper, 0, kLargeWorkspace) > 0);
  CHECK(requests(hopper, 0, kSmallWorkspace) == 0);
  CHECK(kernels(hopper, "cudnn_attention") > 0);
  CHECK(kernels(hopper, "flash_attention") == 0);
  CHECK_FALSE(estimates_flash(hopper));
  const Workload ampere = made({132, 80});
  CHECK(requests(ampere, 0, kLargeWorkspace) == 0);
  CHECK(requests(ampere, 0, kSmallWorkspace) > 0);
  CHECK(kernels(ampere, "cudnn_attention") == 0);
  CHECK(kernels(ampere, "flash_attention") == kernels(hopper, "cudnn_attention"));
  CHECK(estimates_flash(ampere));
  // A later Blackwell takes flash as well; a number of SMs alone is Hopper.
  CHECK(kernels(made({148, 120}), "cudnn_attention") == 0);
  CHECK(kernels(made(132), "cudnn_attention") > 0);
  CHECK(kernels(made({148, 100}), "cudnn_attention") > 0);
}

TEST_CASE("after Hopper the PyTorch version decides on cuBLAS' workspace") {
  const auto large = [](std::uint32_t capability, const char* pytorch) {
    const Workload w = made({148, capability}, pytorch);
    CHECK((requests(w, 0, kLargeWorkspace) > 0) != (requests(w, 0, kSmallWorkspace) > 0));
    return requests(w, 0, kLargeWorkspace) > 0;
  };
  for (const char* version : {"2.11", "2.12", "main"}) {
    CHECK(large(90, version));
    CHECK_FALSE(large(80, version));
    for (const std::uint32_t blackwell : {100U, 103U, 120U})
      CHECK(large(blackwell, version) == (std::string(version) != "2.11"));
  }
  CHECK_FALSE(large(110, "2.13"));  // Thor
  CHECK(large(110, "2.14"));
}

TEST_CASE("flash asks for what flash_api.cpp does, and keeps nothing beyond the step") {
  const Workload w = made({108, 80});
  const ModelConfig model = *preset("llama-tiny", {256, 2});
  const Bytes rows = 2 * model.heads * 160 * 4;                        // softmax_lse
  const Bytes rounded = 2 * model.heads * 256 * 4;                     // softmax_d
  const Bytes gradients = 2 * 256 * model.heads * model.head_dim * 4;  // dq_accum
  CHECK(requests(w, 1, rows) >= 2);
  CHECK(requests(w, 1, rounded) >= 2);
  CHECK(requests(w, 1, gradients) >= 2);
  Bytes live = 0;
  for (const Op& op : w.steps[1].ops) {
    if (op.kind == OpKind::alloc && !op.gradient_of.valid()) ++live;
    if (op.kind == OpKind::free) --live;
  }
  CHECK(live == 0);
}

}  // namespace
}  // namespace foreshard
