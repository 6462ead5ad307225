// What-if mode of the replay: the recorded requests under other options (caching allocator 10.2).
#include <algorithm>
#include <unordered_map>

#include "core/allocator/replay_plan.hpp"

namespace foreshard {
namespace allocator_detail {
namespace {

/// An event completes when as many mallocs have begun since its free as in the recording.
class CountedEvents final : public StreamEvents {
 public:
  /// The due malloc of the next event to be recorded.
  void set_due(std::uint64_t malloc) { next_due_ = malloc; }
  void begin_malloc() { ++mallocs_; }
  [[nodiscard]] std::uint64_t mallocs() const { return mallocs_; }

  EventId record_event(StreamId /*stream*/) override {
    due_.push_back(next_due_);
    return EventId{static_cast<std::uint32_t>(due_.size() - 1)};
  }
  bool event_complete(EventId event) override { return mallocs_ >= due_[event.value]; }
  void synchronize_event(EventId /*event*/) override {}

 private:
  std::vector<std::uint64_t> due_;
  std::uint64_t next_due_ = 0;
  std::uint64_t mallocs_ = 0;
};

class WhatIf {
 public:
  WhatIf(const ReplayPlan& plan, const ReplayOptions& options, DeviceMemory& memory,
         const std::vector<std::size_t>& empty_caches)
      : plan_(plan), options_(options), empty_caches_(empty_caches), allocator_(plan.config, memory, events_, nullptr) {
    if (options.what_if_limit) allocator_.set_limit(*options.what_if_limit);
  }

  WhatIfReport run() {
    count_mallocs();
    for (const PoolOptions& pool : plan_.pool_options) (void)allocator_.create_pool(pool);
    start();
    for (std::size_t i = 0; i < plan_.entries.size(); ++i) {
      pass_marks(plan_.entries[i].index);
      const AllocatorAction action = plan_.entries[i].action;
      if (action == AllocatorAction::alloc) allocate(plan_.entries[i]);
      if (action == AllocatorAction::free_requested) release(i);
    }
    if (started_ > 0) report_.steps.push_back(allocator_.statistics());
    report_.statistics = allocator_.statistics();
    report_.peaks = allocator_.peaks();
    return std::move(report_);
  }

 private:
  /// mallocs_before_[i]: alloc entries before entry i. The poll that gives entry i is that of the next one.
  void count_mallocs() {
    mallocs_before_.reserve(plan_.entries.size() + 1);
    std::uint64_t count = 0;
    for (const ReplayEntry& entry : plan_.entries) {
      mallocs_before_.push_back(count);
      if (entry.action == AllocatorAction::alloc) ++count;
    }
  }

  /// Blocks of before the recording are asked for again, in address order.
  void start() {
    for (const InitialSegment& in : plan_.initial.segments) {
      for (const SnapshotBlock& block : in.segment.blocks) {
        if (block.state == BlockState::inactive || block.requested_size == 0) continue;
        const StreamId stream{static_cast<std::uint32_t>(in.segment.stream)};
        if (auto made = allocator_.malloc(block.requested_size, stream, in.pool)) live_[block.address] = *made;
      }
    }
    for (const InitialPending& pending : plan_.initial.pending)
      free_block(pending.address, pending.completion,
                 pending.completion == kNever ? 0 : mallocs_before_[pending.completion] + 1, plan_.entries.size());
  }

  void allocate(const ReplayEntry& entry) {
    ++report_.allocs;
    events_.begin_malloc();
    const auto block = allocator_.malloc(entry.size, entry.stream, entry.pool);
    if (block) {
      live_[entry.address] = *block;
      return;
    }
    if (report_.failed_allocs++ > 0) return;
    report_.first_failure = block.error();
    report_.first_failure_event = entry.index;
  }

  void release(std::size_t i) {
    const ReplayEntry& entry = plan_.entries[i];
    const bool pends = entry.completion != kNever;
    free_block(entry.address, entry.completion, pends ? mallocs_before_[entry.completion] - mallocs_before_[i] + 1 : 0,
               i);
  }

  /// `delay`: mallocs until the poll that gave the block back.
  void free_block(Address address, std::size_t completion, std::uint64_t delay, std::size_t entry) {
    const auto it = live_.find(address);
    if (it == live_.end()) return;
    if (completion != entry + 1) {
      const std::size_t order = completion == kNever ? plan_.entries.size() + entry : completion;
      events_.set_due(completion == kNever ? ~std::uint64_t{0} : events_.mallocs() + delay);
      allocator_.record_stream(it->second, StreamId{static_cast<std::uint32_t>(plan_.streams.size() + order)});
    }
    allocator_.free(it->second);
    live_.erase(it);
  }

  void pass_marks(std::size_t index) {
    for (; emptied_ < empty_caches_.size() && index >= empty_caches_[emptied_]; ++emptied_) allocator_.empty_cache();
    for (; started_ < options_.step_starts.size() && index >= options_.step_starts[started_]; ++started_) {
      if (started_ > 0) report_.steps.push_back(allocator_.statistics());
      allocator_.reset_peak_statistics();
    }
  }

  const ReplayPlan& plan_;
  const ReplayOptions& options_;
  const std::vector<std::size_t>& empty_caches_;
  WhatIfReport report_;
  CountedEvents events_;
  CachingAllocator allocator_;
  std::vector<std::uint64_t> mallocs_before_;
  std::unordered_map<Address, BlockHandle> live_;  // by recorded address; lookup only
  std::size_t started_ = 0;
  std::size_t emptied_ = 0;
};

}  // namespace
}  // namespace allocator_detail

Result<WhatIfReport> what_if(const Snapshot& snapshot, const ReplayOptions& options, const AllocatorConfig& config,
                             DeviceMemory& memory, const std::vector<std::size_t>& empty_caches) {
  // The state before the recording is read under the recording's own settings.
  const Result<AllocatorConfig> recorded = recorded_config(snapshot.settings, options.pytorch);
  FORESHARD_TRY(recorded);
  Result<allocator_detail::ReplayPlan> plan = allocator_detail::make_plan(snapshot, options, *recorded);
  FORESHARD_TRY(plan);
  plan->config = config;
  return allocator_detail::WhatIf(*plan, options, memory, empty_caches).run();
}

}  // namespace foreshard
