// MPT, selective checkpointing and torch.compile: what the published throughput rows need of the generators.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "tests/catch.hpp"

using namespace foreshard;

namespace {

constexpr std::uint32_t kSms = 132;

Settings settings_with(Checkpoint checkpoint) {
  Settings s;
  s.param_dtype = DType::bfloat16;
  s.batch = 1;
  s.seq = 256;
  s.checkpoint = checkpoint;
  return s;
}

ModelConfig small(std::string_view name, std::uint32_t layers) {
  auto model = preset(name, {.dim = {}, .layers = layers});
  REQUIRE(model);
  return *model;
}

Workload made(const ModelConfig& model, const Settings& settings) {
  auto workload = generate(model, settings, {}, kSms);
  REQUIRE(workload);
  return *workload;
}

std::int64_t count(const Workload& w, KernelMath::Kind kind) {
  return std::count_if(w.steps[1].ops.begin(), w.steps[1].ops.end(),
                       [&](const Op& op) { return op.kind == OpKind::kernel && op.kernel.math.kind == kind; });
}

std::int64_t products(const Workload& w) {
  return count(w, KernelMath::Kind::gemm);
}

/// Every tensor but the gradients is freed once, after it was made.
void check_balanced(const Workload& w) {
  std::set<TensorId> live;
  for (const Op& op : w.steps[1].ops) {
    if (op.kind == OpKind::alloc) {
      CHECK(live.insert(op.tensor).second);
      if (op.gradient_of.valid()) live.erase(op.tensor);
    }
    if (op.kind == OpKind::free) CHECK(live.erase(op.tensor) == 1);
  }
  CHECK(live.empty());
}

Bytes moved(const Workload& w) {
  Bytes bytes = 0;
  for (const Op& op : w.steps[1].ops)
    if (op.kind == OpKind::kernel && op.kernel.math.kind == KernelMath::Kind::bytes) bytes += op.kernel.bytes;
  return bytes;
}

}  // namespace

TEST_CASE("MPT presets have the numbers of parameters that llm-foundry prints") {
  // scripts/train/benchmarking/README.md, NumParams at sequences of 2,048.
  const std::pair<const char*, std::uint64_t> known[] = {
      {"mpt-760m", 760470528},  {"mpt-1b", 1315950592},   {"mpt-3b", 2651837440},  {"mpt-7b", 6658859008},
      {"mpt-13b", 12853954560}, {"mpt-30b", 29975214080}, {"mpt-70b", 64862437376}};
  for (const auto& [name, expected] : known) {
    const auto model = preset(name);
    REQUIRE(model);
    const Workload w = made(*model, settings_with(Checkpoint::none));
    std::uint64_t numel = 0;
    for (const Unit& unit : w.units)
      for (const Parameter& p : unit.parameters) numel += p.numel();
    INFO(name);
    CHECK(numel == expected);
  }
}

TEST_CASE("MPT's step: four products a block, a tied head, everything freed") {
  for (const bool packs : {false, true}) {
    ModelConfig model = small("mpt-760m", 2);
    model.packs_tokens = packs;
    const Workload w = made(model, settings_with(Checkpoint::none));
    CHECK(products(w) == 3 * (4 * 2 + 1));
    CHECK(count(w, KernelMath::Kind::attention_forward) == 2);
    CHECK(count(w, KernelMath::Kind::attention_backward) == 2);
    check_balanced(w);
    const auto waits = std::count_if(w.steps[1].ops.begin(), w.steps[1].ops.end(),
                                     [](const Op& op) { return op.kind == OpKind::synchronize; });
    CHECK(waits == (packs ? 2 * 3 * 2 : 0));
  }
}

TEST_CASE("MPT refuses sequences beyond its positions and 32 bits") {
  Settings wide = settings_with(Checkpoint::none);
  wide.param_dtype = {};
  CHECK_FALSE(generate(small("mpt-760m", 1), wide, {}, kSms));
  Settings longer = settings_with(Checkpoint::none);
  longer.seq = 4096;
  const auto refused = generate(small("mpt-760m", 1), longer, {}, kSms);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().kind == ErrorKind::usage);
}

TEST_CASE("selective checkpointing recomputes what torchtitan's does") {
  constexpr std::uint32_t kLayers = 4;
  const ModelConfig model = small("llama-tiny", kLayers);
  const std::int64_t plain = products(made(model, settings_with(Checkpoint::none)));
  const Workload blocks = made(model, settings_with(Checkpoint::blocks));
  const Workload by_op = made(model, settings_with(Checkpoint::selective_op));
  const Workload by_layer = made(model, settings_with(Checkpoint::selective_layer));
  // Seven products a block, the last of which saves nothing more; every second one is kept.
  CHECK(products(blocks) == plain + 6 * kLayers);
  CHECK(products(by_op) == plain + 3 * kLayers);
  CHECK(products(by_layer) == plain + 6 * kLayers / 2);
  CHECK(count(blocks, KernelMath::Kind::attention_forward) == 2 * kLayers);
  CHECK(count(by_op, KernelMath::Kind::attention_forward) == kLayers);
  CHECK(count(by_layer, KernelMath::Kind::attention_forward) == kLayers + kLayers / 2);
  for (const Workload* w : {&blocks, &by_op, &by_layer}) check_balanced(*w);
}

TEST_CASE("a share of the blocks is checkpointed as evenly as it goes") {
  Settings s = settings_with(Checkpoint::selective_layer);
  for (const std::uint32_t share : {1U, 21U, 25U, 50U, 71U, 100U}) {
    s.checkpoint_share = share;
    std::uint32_t chosen = 0;
    for (std::uint32_t block = 0; block < 100; ++block) chosen += s.checkpoints_block(block);
    CHECK(chosen == share);
  }
}

TEST_CASE("a compiled model launches and moves less, and says where it is an estimate") {
  for (const Checkpoint checkpoint : {Checkpoint::none, Checkpoint::selective_op}) {
    ModelConfig model = small("llama-tiny", 2);
    const Workload eager = made(model, settings_with(checkpoint));
    model.compiled = true;
    const Workload compiled = made(model, settings_with(checkpoint));
    CHECK(eager.estimates.empty());
    CHECK(compiled.estimates.empty() == (checkpoint == Checkpoint::none));
    CHECK(products(compiled) == products(eager));
    CHECK(count(compiled, KernelMath::Kind::attention_backward) == 2);
    CHECK(count(compiled, KernelMath::Kind::bytes) < count(eager, KernelMath::Kind::bytes));
    CHECK(moved(compiled) < moved(eager));
    CHECK(moved(compiled) > 0);
    check_balanced(compiled);
  }
}
