// Speed of the caching allocator: operations (mallocs and frees) a second on one core.
//
// The mixes are those of training: sizes drawn as in the random programs of the reference runs, a working
// set that grows and shrinks, three streams.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "core/allocator/caching_allocator.hpp"

namespace foreshard {
namespace {

/// Unlimited memory with ascending addresses.
class EndlessMemory final : public DeviceMemory {
 public:
  std::optional<Address> allocate(MemoryKind, Bytes size) override { return take(size); }
  void free(Address) override {}
  std::optional<Address> reserve(Bytes size) override { return take(size); }
  void release(Address) override {}
  bool map(Address, Bytes) override { return true; }
  void unmap(Address, Bytes) override {}
  MemoryInfo info() const override { return {kGiB * 1024, kGiB * 1024}; }

 private:
  Address take(Bytes size) {
    const Address address = next_;
    next_ += size;
    return address;
  }
  Address next_ = Address{1} << 40;
};

/// Each event completes when `lag` more have been recorded.
class LaggingEvents final : public StreamEvents {
 public:
  explicit LaggingEvents(std::uint32_t lag) : lag_(lag) {}
  EventId record_event(StreamId) override { return EventId{recorded_++}; }
  bool event_complete(EventId event) override { return event.value + lag_ < recorded_; }
  void synchronize_event(EventId) override {}

 private:
  std::uint32_t lag_;
  std::uint32_t recorded_ = 0;
};

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Random {
  std::uint64_t state = 1;
  std::uint64_t next() {
    std::uint64_t z = (state += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }
  std::uint64_t below(std::uint64_t n) { return next() % n; }
};

Bytes mixed_size(Random& random) {
  const std::uint64_t k = random.below(100);
  if (k < 35) return 1 + random.below(4096);
  if (k < 60) return 4096 + random.below(kMiB);
  if (k < 80) return kMiB + random.below(9 * kMiB);
  return 10 * kMiB + random.below(190 * kMiB);
}

/// One operation of a precomputed program: a malloc into a slot, or the free of a slot.
struct Step {
  std::uint32_t slot;
  std::uint32_t stream;
  Bytes size;  ///< 0: free
  bool used_elsewhere;
};

/// `live`: the working set's size. Ends with nothing live, so that it can be run again and again.
std::vector<Step> make_program(std::uint32_t live, unsigned used_elsewhere_percent) {
  Random random;
  std::vector<Step> program;
  std::vector<std::uint32_t> held, spare;
  for (std::uint32_t slot = 2 * live; slot-- > 0;) spare.push_back(slot);
  const auto release = [&](std::size_t k) {
    program.push_back({held[k], 0, 0, false});
    spare.push_back(held[k]);
    held[k] = held.back();
    held.pop_back();
  };
  for (std::uint32_t i = 0; i < 100'000; ++i) {
    // Waves around the working set's size, as activations come and go.
    const std::uint64_t percent = held.size() < live * 3 / 4   ? 100
                                  : held.size() > live * 5 / 4 ? 0
                                  : (i / 700) % 2              ? 40
                                                               : 62;
    if (random.below(100) >= percent) {
      release(random.below(held.size()));
      continue;
    }
    const std::uint32_t slot = spare.back();
    spare.pop_back();
    held.push_back(slot);
    program.push_back({slot, static_cast<std::uint32_t>(random.below(3)), mixed_size(random),
                       random.below(100) < used_elsewhere_percent});
  }
  while (!held.empty()) release(held.size() - 1);
  return program;
}

void run_program(benchmark::State& state, const AllocatorConfig& config, unsigned used_elsewhere_percent) {
  const auto live = static_cast<std::uint32_t>(state.range(0));
  const std::vector<Step> program = make_program(live, used_elsewhere_percent);
  EndlessMemory memory;
  LaggingEvents events(8);
  CachingAllocator allocator(config, memory, events, nullptr);
  std::vector<BlockHandle> blocks(2 * live);
  for (auto _ : state) {
    for (const Step& step : program) {
      if (step.size == 0) {
        allocator.free(blocks[step.slot]);
        continue;
      }
      blocks[step.slot] = allocator.malloc(step.size, StreamId{step.stream}).value();
      if (step.used_elsewhere) allocator.record_stream(blocks[step.slot], StreamId{(step.stream + 1) % 3});
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(program.size()));
}

void plain(benchmark::State& state) {
  run_program(state, {}, 0);
}
void record_stream(benchmark::State& state) {
  run_program(state, {}, 20);
}
void expandable(benchmark::State& state) {
  AllocatorConfig config;
  config.expandable_segments = true;
  run_program(state, config, 0);
}

BENCHMARK(plain)->Arg(100)->Arg(1000)->Arg(10000);
BENCHMARK(record_stream)->Arg(1000);
BENCHMARK(expandable)->Arg(1000);

}  // namespace
}  // namespace foreshard
