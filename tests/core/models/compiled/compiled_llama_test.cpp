// A Llama whose blocks are compiled: what the min-cut keeps, which buffers are taken over, what the first step adds.
#include <algorithm>
#include <map>
#include <set>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

Settings one_gpu(std::uint32_t batch, std::uint32_t seq) {
  Settings s;
  s.batch = batch;
  s.seq = seq;
  s.param_dtype = DType::bfloat16;
  return s;
}

Workload compiled(const char* name, const Settings& settings) {
  ModelConfig model = *preset(name, {{}, 3});
  model.compiled = true;
  auto w = generate(model, settings, {}, 132);
  REQUIRE(w);
  return std::move(*w);
}

/// "a BYTES" and "f" of a pass of unit 2: allocations numbered from 0, frees by number; f- of what came before.
std::string requests(const Workload& w, Hook begin, Hook end) {
  std::string out;
  std::map<std::uint32_t, std::size_t> made;
  bool inside = false;
  for (const Op& op : w.steps[1].ops) {
    if (op.kind == OpKind::hook && op.unit == UnitId{2}) inside = op.hook == begin || (inside && op.hook != end);
    if (!inside) continue;
    if (op.kind == OpKind::alloc) {
      made.emplace(op.tensor.value, made.size());
      out += " " + std::to_string(op.size.bytes);
    } else if (op.kind == OpKind::free) {
      const auto found = made.find(op.tensor.value);
      out += found == made.end() ? " f-" : " f" + std::to_string(found->second);
    }
  }
  return out;
}

TEST_CASE("a block's requests as torch 2.11 makes them on an H200") {
  // llama-tiny, 4 x 2048: tokens are more than twice the width, so norms sum their weights' gradients in one kernel.
  const Workload tiny = compiled("llama-tiny", one_gpu(4, 2048));
  CHECK(requests(tiny, Hook::pre_forward, Hook::post_forward) ==
        " 32768 16777216 16777216 4194304 4194304 16777216 4194304 f3 8 8 16777216 524288 256 f11 16777216 32768"
        " 16777216 46137344 46137344 46137344 16777216");
  CHECK(requests(tiny, Hook::pre_backward, Hook::post_backward) ==
        " 5767168 f- 46137344 46137344 f1 f- 5767168 16777216 f2 5767168 f- 16777216 f- 16777216 16777216 16777216"
        " 4194304 4194304 67633408 f12 f- f- f- f- f- f- f- 8388608 f13 16777216 33554432 f15 16777216 16777216"
        " 4194304 4096 4096 f18 f8 f14 f16 f4 f6 f- f- f- f- 2048 f19 2097152 f7 f- 524288 f11 524288 f10 2097152 f9"
        " f- 2048 f20 f-");
  // llama-3b, 2 x 2048: they are not, and the residual stream's gradient is written over.
  const Workload large = compiled("llama-3b", one_gpu(2, 2048));
  const std::string back = requests(large, Hook::pre_backward, Hook::post_backward);
  INFO(back);
  CHECK(
      back.ends_with(" 393216 393216 f4 f6 f- f- 6144 f17 18874368 f- 6291456 f11 6291456 f10 18874368 f9 f- f8 f14 f16"
                     " f- f- 6144 f18 f-"));
}

TEST_CASE("a gradient may take over a buffer of the attention's") {
  // llama-1b, 4 x 2048: dk has as many bytes as wq's gradient.
  const Workload w = compiled("llama-1b", one_gpu(4, 2048));
  std::map<std::uint32_t, std::size_t> place;
  std::size_t wq = 0;
  std::size_t wo = 0;
  for (std::size_t i = 0; i < w.steps[1].ops.size(); ++i) {
    const Op& op = w.steps[1].ops[i];
    if (op.kind != OpKind::alloc || !op.gradient_of.valid()) continue;
    if (op.gradient_of == ParameterId{3 + 1}) wq = i;
    if (op.gradient_of == ParameterId{3 + 4}) wo = i;
  }
  REQUIRE(wq > 0);
  CHECK(wq < wo);  // its memory is the attention's backward's, long before
}

TEST_CASE("nothing is left over, every gradient is there, and only the first step compiles") {
  for (const char* name : {"llama-tiny", "llama2-7b"}) {
    INFO(name);
    const Workload w = compiled(name, one_gpu(1, 1024));
    CHECK(w.estimates.empty());
    for (const Program& step : w.steps) {
      std::set<std::uint32_t> live;
      std::set<std::uint32_t> gradients;
      for (const Op& op : step.ops) {
        if (op.kind == OpKind::alloc && op.category == MemoryCategory::workspaces) continue;
        if (op.kind == OpKind::alloc && op.gradient_of.valid())
          gradients.insert(op.gradient_of.value);
        else if (op.kind == OpKind::alloc)
          live.insert(op.tensor.value);
        if (op.kind == OpKind::free) CHECK(live.erase(op.tensor.value) == 1);
      }
      CHECK(live.empty());
      CHECK(gradients.size() == 3 + 3 * 9);
    }
    const auto flushed = [](const Program& step) {
      return std::count_if(step.ops.begin(), step.ops.end(),
                           [](const Op& op) { return op.kind == OpKind::alloc && op.size.bytes == 60 * kMiB; });
    };
    CHECK(flushed(w.steps[0]) > 0);
    CHECK(flushed(w.steps[1]) == 0);
  }
}

TEST_CASE("what is tuned writes the L2 of the GPU that the program is for") {
  for (const Bytes l2 : {40 * kMiB, 126 * kMiB}) {
    TargetGpu gpu(132);
    gpu.l2 = l2;
    ModelConfig model = *preset("llama-tiny");
    model.compiled = true;
    Settings settings = one_gpu(1, 1024);
    settings.param_dtype = DType::bfloat16;
    const auto w = generate(model, settings, {}, gpu);
    REQUIRE(w);
    const auto count = [&](Bytes bytes) {
      return std::count_if(w->steps[0].ops.begin(), w->steps[0].ops.end(),
                           [&](const Op& op) { return op.kind == OpKind::alloc && op.size.bytes == bytes; });
    };
    CHECK(count(l2) > 0);
    CHECK(count(60 * kMiB) == 0);
  }
}

TEST_CASE("the second microbatch of a first step compiles nothing") {
  Settings settings = one_gpu(1, 1024);
  const auto flushed = [&] {
    const Workload w = compiled("llama-tiny", settings);
    return std::count_if(w.steps[0].ops.begin(), w.steps[0].ops.end(),
                         [](const Op& op) { return op.kind == OpKind::alloc && op.size.bytes == 60 * kMiB; });
  };
  const auto once = flushed();
  settings.accumulate = 2;
  CHECK(flushed() == once);
}

TEST_CASE("what is compiled otherwise is derived from the eager program, and an estimate") {
  Settings settings = one_gpu(1, 1024);
  settings.checkpoint = Checkpoint::blocks;
  CHECK(compiled("llama-tiny", settings).estimates.size() == 1);
}

}  // namespace
}  // namespace foreshard
