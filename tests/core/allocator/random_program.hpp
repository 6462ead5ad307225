// Random allocation programs, recorded as PyTorch records them: what the property tests run on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "tests/core/allocator/harness.hpp"

namespace foreshard::test {

/// SplitMix64 (Steele, Lea, Flood 2014).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t below(std::uint64_t n) {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15ull);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return (z ^ (z >> 31)) % n;
  }

 private:
  std::uint64_t state_;
};

struct ProgramOptions {
  std::string config;
  Bytes total = 200 * kGiB;
  std::uint64_t seed = 1;
  int operations = 400;
  unsigned record_percent = 20;
  unsigned empty_cache_permille = 5;
  bool private_pool = false;  ///< some requests go to a private no_split pool
  Bytes size_limit = 400 * kMiB;
  std::string pytorch = "2.11";
  Addresses addresses = Addresses::ascending;
};

/// Draws requests over all size classes, three streams, uses on other streams that complete after a
/// random while; empties the cache now and then.
class RandomProgram {
 public:
  explicit RandomProgram(const ProgramOptions& options)
      : options_(options),
        random_(options.seed),
        bench_(options.config, options.total, options.pytorch, options.addresses) {
    if (options.private_pool) pool_ = bench_.allocator.create_pool(kPool);
  }

  static constexpr PoolOptions kPool{.use_on_oom = false, .no_split = true, .kind = MemoryKind::symmetric};

  /// Runs the whole program; `after` is called behind each operation.
  void run(const std::function<void(Bench&)>& after) {
    for (int i = 0; i < options_.operations; ++i) {
      step();
      after(bench_);
    }
  }

  void free_all() {
    for (const BlockHandle block : live_) bench_.allocator.free(block);
    live_.clear();
  }

  /// What _snapshot() would give now.
  [[nodiscard]] Snapshot snapshot() const {
    Snapshot snapshot;
    snapshot.segments = bench_.allocator.snapshot();
    snapshot.events = bench_.list.events;
    for (std::size_t i = 0; i < snapshot.events.size(); ++i) snapshot.events[i].time_us = static_cast<std::int64_t>(i);
    const AllocatorConfig config = parse_alloc_conf(options_.config).value();
    snapshot.settings.alloc_conf = options_.config;
    const bool unlimited = config.max_split_size == std::numeric_limits<Bytes>::max();
    snapshot.settings.max_split_size = unlimited ? -1 : static_cast<std::int64_t>(config.max_split_size);
    snapshot.settings.garbage_collection_threshold = config.garbage_collection_threshold;
    snapshot.settings.expandable_segments = config.expandable_segments;
    return snapshot;
  }
  [[nodiscard]] Bench& bench() { return bench_; }

 private:
  Bytes size() {
    const std::uint64_t k = random_.below(100);
    if (k < 35) return 1 + random_.below(4096);
    if (k < 60) return 4096 + random_.below(kMiB);
    if (k < 80) return kMiB + random_.below(9 * kMiB);
    return 10 * kMiB + random_.below(options_.size_limit - 10 * kMiB);
  }

  void step() {
    if (random_.below(4) == 0) bench_.events.completed += static_cast<std::uint32_t>(random_.below(5));
    if (random_.below(1000) < options_.empty_cache_permille) return bench_.allocator.empty_cache();
    const bool grow = live_.empty() || random_.below(100) < 55;
    if (!grow) {
      const std::size_t k = random_.below(live_.size());
      bench_.allocator.free(live_[k]);
      live_[k] = live_.back();
      live_.pop_back();
      return;
    }
    const StreamId stream{static_cast<std::uint32_t>(random_.below(3))};
    const bool to_pool = options_.private_pool && random_.below(8) == 0;
    const auto block = bench_.allocator.malloc(size(), stream, to_pool ? pool_ : kDefaultPool);
    if (!block) {
      for (int i = 0; i < 10 && !live_.empty(); ++i) {
        bench_.allocator.free(live_.back());
        live_.pop_back();
      }
      return;
    }
    live_.push_back(*block);
    if (random_.below(100) < options_.record_percent)
      bench_.allocator.record_stream(*block, StreamId{static_cast<std::uint32_t>(random_.below(3))});
  }

  ProgramOptions options_;
  Random random_;
  Bench bench_;
  PoolId pool_;
  std::vector<BlockHandle> live_;
};

inline const std::vector<std::string>& tested_configs() {
  static const std::vector<std::string> kConfigs{
      "",
      "max_split_size_mb:100",
      "expandable_segments:True",
      "roundup_power2_divisions:4",
      "roundup_power2_divisions:[64:8,256:4,>:2]",
      "large_segment_size_mb:64",
      "max_split_size_mb:64,max_non_split_rounding_mb:128",
      "per_process_memory_fraction:0.02",
      "per_process_memory_fraction:0.02,garbage_collection_threshold:0.6",
      "per_process_memory_fraction:0.02,max_split_size_mb:50",
      "per_process_memory_fraction:0.02,expandable_segments:True",
  };
  return kConfigs;
}

}  // namespace foreshard::test
