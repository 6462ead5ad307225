// TestFullyShardMemory.test_fully_shard_training_memory of PyTorch (test/distributed/_composable/fsdp/
// test_fully_shard_memory.py, 2.11 and 5ae3db16): its program's memory as measured on 2 x H200, and its bounds.
#include <algorithm>
#include <array>
#include <string_view>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

constexpr std::uint32_t kLayers = 3;
constexpr std::uint64_t kDim = 768;
constexpr std::uint64_t kVocabulary = 32;
constexpr std::uint64_t kPositions = 16;  // ModelArgs.max_seq_len

/// Elements of a block: two LayerNorms, q, k, v and o without biases, two products with them.
constexpr Bytes kBlock = 4 * kDim + 4 * kDim * kDim + 8 * kDim * kDim + 4 * kDim + kDim;
/// Of the root: embeddings, norm; and the head, which is the embedding here.
constexpr Bytes kRoot = (kVocabulary + kPositions + 2) * kDim;
constexpr Bytes kModel = kRoot + kLayers * kBlock;
constexpr Bytes kFloat = 4;
constexpr Bytes kShards = (kModel + 1) / 2 * kFloat;

enum Stage : std::size_t { forward, backward, optimizer, zero_grad, kStages };

struct Held {
  Bytes peak = 0;
  Bytes current = 0;
};
using Stages = std::array<Held, kStages>;

struct Case {
  bool reshard = true;
  bool offload = false;
  Stages requested;  ///< tools/record_check/memory_stages.py, tied head: PyTorch 2.11.0, NCCL 2.28.9, 2026-11-28
};

constexpr std::array kCases{
    Case{true, false, {{{128221312, 43226912}, {170645672, 85171744}, {179785760, 170342432}, {127756832, 127756832}}}},
    Case{false,
         false,
         {{{184899712, 128398112}, {184899712, 85171744}, {179785760, 170342432}, {127756832, 127756832}}}},
    Case{true, true, {{{85635712, 641312}, {113890472, 544}, {32, 32}, {32, 32}}}},
};

Run planned(const Case& of) {
  ModelConfig model = *preset("torch-transformer", {});
  model.layers = kLayers;
  model.dim = kDim;
  model.ffn = 4 * kDim;
  model.heads = model.kv_heads = 12;
  model.head_dim = kDim / model.heads;
  model.vocab = kVocabulary;
  model.positions = kPositions;
  Settings s;
  s.gpus = 2;
  s.batch = 1;
  s.seq = 4;
  s.offload = of.offload;
  s.reshard_after_forward.kind = of.reshard ? Reshard::Kind::always : Reshard::Kind::never;
  s.optimizer = Optimizer::adam_single;
  const MachineProfile machine = builtin_profile("h200").value();
  auto workload = generate(model, s, machine.host_calls, machine.gpu());
  INFO((workload ? "" : workload.error().text()));
  REQUIRE(workload);
  auto p = predict(*workload, machine, {s, {}, 2});
  INFO((p ? "" : p.error().text()));
  REQUIRE(p);
  return std::move(p->run);
}

/// Bytes of one block as `counted` has them, by stage: from the model on, cuBLAS's workspaces left out, peaks since the
/// start up to backward and since the last stage behind it. Where times are equal the optimizer begins with its first
/// state, zero_grad with the first shard of gradients that goes; the next step begins with what it makes first.
template <class Counted>
Stages stages(const Run& run, Counted counted) {
  constexpr std::array<std::string_view, 3> kPhases{"forward", "backward", "optimizer"};
  std::array<Nanoseconds, kPhases.size()> end;
  for (std::size_t i = 0; i < kPhases.size(); ++i) {
    const auto phase = std::ranges::find(run.phases, kPhases[i], &PhaseRecord::name);
    REQUIRE(phase != run.phases.end());
    end[i] = phase->end;
  }
  Stages out;
  std::size_t stage = forward;
  Held held;
  const auto ended = [&](const AllocatorRecord& record, MemoryCategory of) {
    const bool made = record.action == AllocatorAction::alloc;
    if (stage == zero_grad) return made;
    if (stage == backward && made && of == MemoryCategory::optimizer_state) return true;
    if (stage == optimizer && !made && of == MemoryCategory::sharded_gradients) return true;
    return record.time > end[stage];
  };
  for (const AllocatorRecord& record : run.allocator) {
    if (stage == kStages) break;
    if (!record.block.valid() || record.action == AllocatorAction::free_requested) continue;
    const BlockRecord& block = run.blocks[record.block.value];
    if (block.category == MemoryCategory::workspaces) continue;
    if (ended(record, block.category)) {
      out[stage++] = held;
      if (stage != backward) held.peak = held.current;
    }
    if (record.action == AllocatorAction::alloc) held.current += counted(block);
    if (record.action == AllocatorAction::free_completed) held.current -= counted(block);
    held.peak = stage == zero_grad ? held.current : std::max(held.peak, held.current);
  }
  REQUIRE(stage == kStages);
  return out;
}

/// Of the test's loop logits and tokens stay alive where a plan's has let them go, of a plan's the loss.
constexpr double kOwnTensors = 4 * kVocabulary * kFloat + 4 * 8 + kFloat;

TEST_CASE("TestFullyShardMemory: what each stage requests is what the program was measured to request") {
  for (const Case& of : kCases) {
    CAPTURE(of.reshard, of.offload);
    const Stages requested = stages(planned(of), [](const BlockRecord& block) { return block.requested; });
    for (std::size_t i = 0; i < kStages; ++i) {
      CAPTURE(i);
      const auto near = [](Bytes measured) {
        return Approx(static_cast<double>(measured)).margin(kOwnTensors).epsilon(0);
      };
      CHECK(static_cast<double>(requested[i].peak) == near(of.requested[i].peak));
      CHECK(static_cast<double>(requested[i].current) == near(of.requested[i].current));
    }
  }
}

// Of the test's settings the first alone: the others are measured against a peak that still has the model before in it,
// and without resharding PyTorch 2.11 exceeds the bound by itself (190.6 MB active where 172.2 are allowed).
TEST_CASE("TestFullyShardMemory: its bounds on active memory hold") {
  constexpr Bytes kBuffer = 16'000'000;
  const Stages active = stages(planned(kCases.front()), [](const BlockRecord& block) { return block.size; });
  const Bytes blocks = (3 * kBlock + kRoot) * kFloat + kBuffer;
  CHECK(active[forward].peak <= blocks + kShards);
  CHECK(active[backward].peak <= blocks + 2 * kShards);  // later versions allow a block more
  CHECK(active[optimizer].peak <= 4 * kShards + kBuffer);
  CHECK(active[zero_grad].peak <= 3 * kShards + 2 * kBuffer);
}

}  // namespace
}  // namespace foreshard::sim
