// The stack of MLPs, the plain Llama and PyTorch's test Transformer: what holds for every generated step.
#include <algorithm>
#include <map>
#include <set>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

Settings two_ranks() {
  Settings s;
  s.gpus = 2;
  s.batch = 2;
  s.seq = 16;
  return s;
}

Settings mixed() {
  Settings s = two_ranks();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return s;
}

ModelConfig small(std::string_view name) {
  const std::uint64_t dim = name == "llama-tiny" ? 256 : 64;
  return *preset(name, {dim, 3});
}

/// Tensors that a step leaves behind, gradients apart.
std::set<std::uint32_t> left_over(const Program& program) {
  std::set<std::uint32_t> live;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::alloc && !op.gradient_of.valid()) live.insert(op.tensor.value);
    if (op.kind == OpKind::free) {
      CHECK(live.count(op.tensor.value) == 1);
      live.erase(op.tensor.value);
    }
  }
  return live;
}

std::map<std::uint32_t, int> gradients(const Program& program) {
  std::map<std::uint32_t, int> count;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::alloc && op.gradient_of.valid()) ++count[op.gradient_of.value];
  return count;
}

std::size_t parameters(const Workload& w) {
  std::size_t n = 0;
  for (const Unit& unit : w.units) n += unit.parameters.size();
  return n;
}

int count_of(const Program& program, Hook hook) {
  return static_cast<int>(std::count_if(program.ops.begin(), program.ops.end(),
                                        [&](const Op& op) { return op.kind == OpKind::hook && op.hook == hook; }));
}

void check_step(const Workload& w, const Program& step, int microbatches) {
  const auto count = gradients(step);
  CHECK(count.size() == parameters(w));
  for (const auto& [parameter, times] : count) CHECK(times == microbatches);
  const auto units = static_cast<int>(w.units.size());
  CHECK(count_of(step, Hook::pre_forward) == units * microbatches);
  CHECK(count_of(step, Hook::post_forward) == units * microbatches);
  CHECK(count_of(step, Hook::pre_backward) == units * microbatches);
  CHECK(count_of(step, Hook::post_backward) == (units - 1) * microbatches);  // the root's is its final callback
  CHECK(count_of(step, Hook::backward_final) == microbatches);
}

TEST_CASE("a steady step frees what it makes; a first one keeps library workspaces") {
  for (const std::string_view name : {"mlp", "llama-tiny", "torch-transformer"}) {
    INFO(name);
    Settings settings = name == "llama-tiny" ? mixed() : two_ranks();
    if (name == "mlp") settings.seq.reset();
    const auto w = generate(small(name), settings, {}, 132);
    REQUIRE(w);
    REQUIRE(w->steps.size() == 2);
    for (const Program& step : w->steps) check_step(*w, step, 1);
    CHECK(left_over(w->steps[1]).empty());
    Bytes workspaces = 0;
    for (const Op& op : w->steps[0].ops)
      if (op.kind == OpKind::alloc && op.category == MemoryCategory::workspaces) workspaces += op.size.bytes;
    CHECK(workspaces >= 2 * 32 * kMiB);  // one for each thread that runs GEMMs
    CHECK(w->parameters_order.size() == parameters(*w));
    CHECK(w->has_timing);
  }
}

TEST_CASE("what is made with a parameter is of its module") {
  const auto w = generate(small("llama-tiny"), mixed(), {}, 132);
  REQUIRE(w);
  std::map<std::string, int> made;
  for (const Op& op : w->steps[1].ops) {
    if (op.module.valid()) CHECK(op.kind == OpKind::alloc);
    if (op.kind == OpKind::alloc) ++made[w->labels.text(op.module)];
  }
  for (const char* module : {"tok", "layers.1.wq", "layers.1.w2", "layers.1.attn_norm", "norm", "head"}) {
    INFO(module);
    CHECK(made[module] > 0);
  }
  CHECK(made[""] > 0);  // attention and the residual's: of the block
}

TEST_CASE("accumulation with a reduce dtype of its own gives a gradient a microbatch") {
  Settings settings = mixed();
  settings.accumulate = 3;
  const auto w = generate(small("llama-tiny"), settings, {}, 132);
  REQUIRE(w);
  check_step(*w, w->steps[1], 3);
  CHECK(left_over(w->steps[1]).empty());
}

TEST_CASE("without one, autograd adds into the gradient that is there") {
  Settings settings = two_ranks();
  settings.accumulate = 2;
  settings.seq.reset();
  const auto w = generate(small("mlp"), settings, {}, 132);
  REQUIRE(w);
  for (const auto& [parameter, times] : gradients(w->steps[1])) CHECK(times == 1);
  CHECK(left_over(w->steps[1]).empty());
}

TEST_CASE("checkpointing keeps a block's input alone and runs its forward again") {
  Settings settings = mixed();
  const auto plain = generate(small("llama-tiny"), settings, {}, 132);
  settings.checkpoint = Checkpoint::blocks;
  const auto checkpointed = generate(small("llama-tiny"), settings, {}, 132);
  REQUIRE(plain);
  REQUIRE(checkpointed);
  check_step(*checkpointed, checkpointed->steps[1], 1);
  CHECK(left_over(checkpointed->steps[1]).empty());
  const auto kept = [](const Program& program) {
    Bytes bytes = 0;
    for (const Op& op : program.ops)
      if (op.kind == OpKind::alloc && op.category == MemoryCategory::activations) bytes += op.size.bytes;
    return bytes;
  };
  CHECK(kept(checkpointed->steps[1]) < kept(plain->steps[1]));
  const auto products = [](const Program& program) {
    return std::count_if(program.ops.begin(), program.ops.end(), [](const Op& op) {
      return op.kind == OpKind::kernel && op.kernel.math.kind == KernelMath::Kind::gemm;
    });
  };
  // Seven products a block; the last one's result is not needed again.
  CHECK(products(checkpointed->steps[1]) == products(plain->steps[1]) + 3 * 6);
}

TEST_CASE("every kernel says what it computes") {
  const auto w = generate(small("llama-tiny"), mixed(), {}, 132);
  REQUIRE(w);
  for (const Op& op : w->steps[1].ops) {
    if (op.kind != OpKind::kernel) continue;
    CHECK(op.kernel.bytes > 0);
    CHECK(op.kernel.work == Nanoseconds{});
    const KernelMath& math = op.kernel.math;
    if (math.kind != KernelMath::Kind::bytes) CHECK(math.m * math.n * math.k > 0);
    if (math.kind != KernelMath::Kind::bytes) CHECK(math.dtype == DType::bfloat16);
  }
}

TEST_CASE("grouped heads in float32 keep one matrix of probabilities a block, and say that they are an estimate") {
  const ModelConfig model = small("llama-tiny");
  REQUIRE(model.kv_heads < model.heads);
  const auto w = generate(model, two_ranks(), {}, 132);
  REQUIRE(w);
  CHECK(w->estimates.size() == 1);
  const Bytes scores = 2 * model.heads * 16 * 16 * 4;
  const Bytes expanded = 2 * model.heads * 16 * model.head_dim * 4;
  std::map<std::uint32_t, Bytes> live;
  std::map<Bytes, int> kept;  // when the backward begins
  int products = 0;
  for (const Op& op : w->steps[1].ops) {
    if (op.kind == OpKind::alloc) live[op.tensor.value] = op.size.bytes;
    if (op.kind == OpKind::free) live.erase(op.tensor.value);
    if (op.kind == OpKind::hook && op.hook == Hook::backward_begin)
      for (const auto& [tensor, bytes] : live) ++kept[bytes];
    if (op.kind == OpKind::kernel) products += w->labels.text(op.kernel.label) == "aten::bmm";
  }
  REQUIRE(scores != expanded);
  CHECK(kept[scores] == 3);    // blocks: probabilities
  CHECK(products == 3 * 6);    // two forward, four backward
  CHECK(kept[expanded] >= 9);  // scaled queries, scaled and repeated keys, repeated values
}

TEST_CASE("blocks wrapped together hook once") {
  Settings settings = mixed();
  settings.units_per_group = 2;
  const auto w = generate(small("llama-tiny"), settings, {}, 132);
  REQUIRE(w);
  REQUIRE(w->units.size() == 3);  // root, two blocks, one block
  CHECK(w->units[1].name == "layers.0, layers.1");
  check_step(*w, w->steps[1], 1);
}

TEST_CASE("what a family cannot run is refused") {
  const auto refused = [](const ModelConfig& model, const Settings& settings) {
    const auto w = generate(model, settings, {}, 132);
    REQUIRE(!w);
    CHECK(w.error().kind == ErrorKind::usage);
    CHECK(!w.error().what.empty());
  };
  refused(small("torch-transformer"), mixed());  // recorded in float32 alone
  ModelConfig none = small("mlp");
  none.layers = 0;
  refused(none, two_ranks());
  Settings empty = two_ranks();
  empty.batch = 0;
  refused(small("mlp"), empty);
  empty = two_ranks();
  empty.units_per_group = 0;
  refused(small("mlp"), empty);
}

TEST_CASE("a step of too many microbatches is refused with what works instead") {
  Settings settings = mixed();
  settings.accumulate = 3'000;  // × 3 blocks
  const auto refused = generate(small("llama-tiny"), settings, {}, 132);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().what.find("at most 2730") != std::string::npos);
  CHECK(refused.error().hint.find("plan 4 and 8") != std::string::npos);
  settings.accumulate = 4;
  CHECK(generate(small("llama-tiny"), settings, {}, 132));
}

}  // namespace
}  // namespace foreshard
