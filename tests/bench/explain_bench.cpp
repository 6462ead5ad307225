// Speed of explain: a run of a million allocator events, from its events to peaks, moments, causes and the series.
//
// Sizes and streams as in the allocator's benchmark; one request in ten is used on another stream and comes back late.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "core/explain/explanation.hpp"
#include "tests/core/allocator/random_program.hpp"

namespace foreshard {
namespace {

/// Writes the allocator's events into a run, as core/step does.
class Recorder final : public AllocatorObserver {
 public:
  explicit Recorder(Run& run) : run_(run) {}
  void on_event(const AllocatorEvent& event) override {
    AllocatorRecord record{event.action,
                           event.address,
                           event.size,
                           StreamId{static_cast<std::uint32_t>(event.stream)},
                           Nanoseconds::from_us(static_cast<std::int64_t>(run_.allocator.size())),
                           {}};
    if (event.action == AllocatorAction::alloc) {
      record.block = at_[event.address] = BlockId{static_cast<std::uint32_t>(run_.blocks.size())};
      BlockRecord block;
      block.address = event.address;
      block.requested = event.size;
      block.stream = record.stream;
      block.category = static_cast<MemoryCategory>(run_.blocks.size() % 14);
      run_.blocks.push_back(block);
    } else if (const auto it = at_.find(event.address); it != at_.end()) {
      record.block = it->second;
    }
    run_.allocator.push_back(record);
  }

 private:
  Run& run_;
  std::unordered_map<Address, BlockId> at_;
};

Run million_events() {
  Run run;
  run.info.kind = RunKind::planned;
  for (std::uint32_t stream = 0; stream < 3; ++stream) run.streams.push_back({StreamId{stream}, "stream", 0, 0});
  test::CountedMemory memory(kGiB * 1024);
  test::ManualEvents events;
  Recorder recorder(run);
  CachingAllocator allocator({}, memory, events, &recorder);
  test::Random random(1);
  std::vector<BlockHandle> live;
  while (run.allocator.size() < 1'000'000) {
    if (live.size() < 3000 || random.below(2) == 0) {
      const Bytes size = random.below(3) == 0 ? 1 + random.below(kMiB) : kMiB + random.below(60 * kMiB);
      live.push_back(allocator.malloc(size, StreamId{static_cast<std::uint32_t>(random.below(3))}).value());
      run.blocks.back().size = allocator.block_size(live.back());
      if (random.below(10) == 0) allocator.record_stream(live.back(), StreamId{0});
    } else {
      const std::size_t k = random.below(live.size());
      allocator.free(live[k]);
      live[k] = live.back();
      live.pop_back();
      events.completed += random.below(10) == 0 ? 1 : 0;
    }
  }
  run.segments = allocator.snapshot();
  return run;
}

void explain_million(benchmark::State& state) {
  const Run run = million_events();
  for (auto _ : state) benchmark::DoNotOptimize(explain(run, {}));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(run.allocator.size()));
}
void series_of_million(benchmark::State& state) {
  const Run run = million_events();
  for (auto _ : state) benchmark::DoNotOptimize(gap_series(run));
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(run.allocator.size()));
}

BENCHMARK(explain_million)->Unit(benchmark::kMillisecond);
BENCHMARK(series_of_million)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace foreshard
