// Verify mode of the replay (docs/allocator.md 10.2).
#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/allocator/replay_driver.hpp"
#include "core/allocator/replay_plan.hpp"

namespace foreshard {
namespace allocator_detail {
namespace {

/// The device's memory where it is not known: no fraction is set then, and it only bounds virtual ranges.
constexpr Bytes kUnknownTotal = Bytes{1} << 40;

/// One call of the program: entries [begin, end) of the plan.
struct Operation {
  std::size_t begin = 0;
  std::size_t end = 0;
};

class Verifier {
 public:
  Verifier(const ReplayPlan& plan, const ReplayOptions& options)
      : plan_(plan),
        options_(options),
        memory_(view_, options.total_memory > 0 ? options.total_memory : kUnknownTotal),
        events_(plan.streams.size(), plan.entries.size()),
        allocator_(plan.config, memory_, events_, &view_) {}

  ReplayReport run() {
    adopt();
    for (Operation op{0, 0}; op.begin < plan_.entries.size(); op.begin = op.end) {
      pass_step_starts(plan_.entries[op.begin].index);
      const AllocatorAction action = plan_.entries[op.begin].action;
      op.end = action == AllocatorAction::free_requested ? end_of_free(op.begin) : end_of_malloc(op.begin);
      begin_operation(op);
      if (action == AllocatorAction::free_requested)
        replay_free(op);
      else
        replay_malloc(op);
      compare(op);
    }
    if (started_ > 0) report_.steps.push_back(allocator_.statistics());
    compare_final();
    report_.events = plan_.entries.size();
    report_.ignored_events = plan_.ignored_events;
    report_.statistics = allocator_.statistics();
    report_.peaks = allocator_.peaks();
    return std::move(report_);
  }

 private:
  // replay_verify.cpp
  void adopt();
  void pass_step_starts(std::size_t index);
  [[nodiscard]] std::size_t end_of_free(std::size_t begin) const;
  [[nodiscard]] std::size_t end_of_malloc(std::size_t begin) const;
  void begin_operation(const Operation& op);
  void replay_free(const Operation& op);
  void replay_malloc(const Operation& op);
  void empty_cache(std::size_t entry);
  [[nodiscard]] bool release_is_empty_cache(const Operation& op, std::size_t release);
  void compare(const Operation& op);
  void compare_final();
  void compare_blocks(const SnapshotSegment& recorded, const SnapshotSegment& replayed);
  void mismatch(const std::string& where, const std::string& what) {
    if (report_.mismatches++ == 0) report_.first_mismatch = where + ": " + what;
  }
  [[nodiscard]] std::string describe(const AllocatorEvent& event) const {
    const std::uint64_t stream = event.stream < plan_.streams.size() ? plan_.streams[event.stream] : 0;
    return fmt::format("{} at {:#x} of {} bytes on stream {}",
                       kAllocatorActionNames[static_cast<std::size_t>(event.action)], event.address, event.size,
                       stream);
  }

  const ReplayPlan& plan_;
  const ReplayOptions& options_;
  ReplayReport report_;
  OperationView view_;
  RecordedMemory memory_;
  RecordedEvents events_;
  CachingAllocator allocator_;
  std::unordered_map<Address, BlockHandle> live_;  // by recorded address; lookup only
  std::size_t started_ = 0;                        // step starts passed
};

void Verifier::adopt() {
  for (std::size_t k = 0; k < plan_.pool_options.size(); ++k) (void)allocator_.create_pool(plan_.pool_options[k]);
  for (const InitialRange& range : plan_.initial.ranges) {
    memory_.occupy_range(range.base);
    allocator_.adopt_range(range.base, range.stream, range.small_pool, range.pool);
  }
  for (const InitialSegment& in : plan_.initial.segments) {
    const SnapshotSegment& segment = in.segment;
    memory_.occupy(segment.address, segment.address + segment.total_size);
    const std::vector<BlockHandle> handles = allocator_.adopt_segment(segment, in.pool);
    for (const BlockHandle handle : handles) live_[allocator_.address(handle)] = handle;
    ++report_.adopted_segments;
    report_.adopted_blocks += handles.size();
  }
  for (std::size_t k = 0; k < plan_.initial.pending.size(); ++k) {
    const InitialPending& pending = plan_.initial.pending[k];
    const auto it = live_.find(pending.address);
    allocator_.record_stream(it->second, events_.stream_of(pending.completion, plan_.entries.size() + k));
    allocator_.free(it->second);
    live_.erase(it);
  }
}

void Verifier::pass_step_starts(std::size_t index) {
  while (started_ < options_.step_starts.size() && index >= options_.step_starts[started_]) {
    if (started_++ > 0) report_.steps.push_back(allocator_.statistics());
    allocator_.reset_peak_statistics();
  }
}

/// A free_completed directly behind its free_requested belongs to it.
std::size_t Verifier::end_of_free(std::size_t begin) const {
  return plan_.entries[begin].completion == begin + 1 ? begin + 2 : begin + 1;
}

/// Up to and with the alloc or oom; without one, up to the next free_requested or the end.
std::size_t Verifier::end_of_malloc(std::size_t begin) const {
  for (std::size_t i = begin; i < plan_.entries.size(); ++i) {
    const AllocatorAction action = plan_.entries[i].action;
    if (action == AllocatorAction::alloc || action == AllocatorAction::oom) return i + 1;
    if (action == AllocatorAction::free_requested) return i;
  }
  return plan_.entries.size();
}

void Verifier::begin_operation(const Operation& op) {
  const std::span<const ReplayEntry> all(plan_.entries);
  view_.expected = all.subspan(op.begin, op.end - op.begin);
  view_.later = all.subspan(op.begin);
  view_.produced.clear();
}

void Verifier::replay_free(const Operation& op) {
  const ReplayEntry& entry = plan_.entries[op.begin];
  const auto it = live_.find(entry.address);
  if (it == live_.end()) return;  // compare() reports that nothing was freed
  const bool at_once = op.end - op.begin == 2;
  if (!at_once) allocator_.record_stream(it->second, events_.stream_of(entry.completion, op.begin));
  allocator_.free(it->second);
  live_.erase(it);
}

void Verifier::empty_cache(std::size_t entry) {
  report_.empty_caches.push_back(plan_.entries[entry].index);
  allocator_.empty_cache();
}

/// Decides by the replayed state who made a release at the head of a malloc; the completions before it
/// have been processed.
bool Verifier::release_is_empty_cache(const Operation& op, std::size_t release) {
  const ReplayEntry& request = plan_.entries[op.end - 1];
  switch (allocator_.outlook(request.size, request.stream, request.pool)) {
    case Outlook::reuse:
      return true;
    case Outlook::collect:
    case Outlook::refuse:
      return false;
    case Outlook::grow:
      break;
  }
  if (request.action == AllocatorAction::oom) return false;
  // A map before the release: the driver refused in the middle.
  const bool grew_before =
      std::any_of(view_.expected.begin(), view_.expected.begin() + static_cast<std::ptrdiff_t>(release),
                  [](const auto& e) { return e.action == AllocatorAction::segment_map; });
  if (grew_before) return false;
  ++report_.unexplained_releases;
  return !options_.releases_are_retries;
}

void Verifier::replay_malloc(const Operation& op) {
  const ReplayEntry& last = plan_.entries[op.end - 1];
  const bool requests = last.action == AllocatorAction::alloc || last.action == AllocatorAction::oom;
  std::size_t head = op.begin;
  while (head < op.end && plan_.entries[head].action == AllocatorAction::free_completed) ++head;
  events_.completed_before(head);
  if (!requests) return empty_cache(op.begin);
  const auto is_release = [](const ReplayEntry& entry) {
    return entry.action == AllocatorAction::segment_free || entry.action == AllocatorAction::segment_unmap;
  };
  const auto release = std::find_if(view_.expected.begin(), view_.expected.end(), is_release);
  if (release != view_.expected.end()) {
    allocator_.process_events();
    if (release_is_empty_cache(op, static_cast<std::size_t>(release - view_.expected.begin()))) empty_cache(op.begin);
  }
  const auto block = allocator_.malloc(last.size, last.stream, last.pool);
  if (last.action == AllocatorAction::alloc) {
    report_.block_size_of_alloc.push_back(block ? allocator_.block_size(*block) : 0);
    if (block) live_[last.address] = *block;
  }
}

void Verifier::compare(const Operation& op) {
  const auto where = [&](std::size_t k) {
    return fmt::format("event {}", plan_.entries[std::min(op.begin + k, op.end - 1)].index);
  };
  const std::size_t both = std::min(view_.expected.size(), view_.produced.size());
  for (std::size_t k = 0; k < both; ++k) {
    const ReplayEntry& entry = view_.expected[k];
    const AllocatorEvent recorded{entry.action, entry.address, entry.size, entry.stream.value, 0};
    const AllocatorEvent& replayed = view_.produced[k];
    if (recorded.action == replayed.action && recorded.address == replayed.address && recorded.size == replayed.size &&
        recorded.stream == replayed.stream)
      continue;
    mismatch(where(k), fmt::format("recorded {}, replayed {}", describe(recorded), describe(replayed)));
  }
  for (std::size_t k = both; k < view_.expected.size(); ++k) {
    const ReplayEntry& entry = view_.expected[k];
    mismatch(where(k), fmt::format("recorded {}, replayed nothing",
                                   describe({entry.action, entry.address, entry.size, entry.stream.value, 0})));
  }
  for (std::size_t k = both; k < view_.produced.size(); ++k)
    mismatch(where(k), fmt::format("recorded nothing more, replayed {}", describe(view_.produced[k])));
}

void Verifier::compare_blocks(const SnapshotSegment& recorded, const SnapshotSegment& replayed) {
  const std::size_t both = std::min(recorded.blocks.size(), replayed.blocks.size());
  for (std::size_t k = 0; k < both; ++k) {
    const SnapshotBlock& a = recorded.blocks[k];
    const SnapshotBlock& b = replayed.blocks[k];
    const bool stale_unknown = b.requested_size == kUnknownRequestedSize;
    if (stale_unknown) ++report_.unknown_requested_sizes;
    if (a.address == b.address && a.size == b.size && a.state == b.state &&
        (stale_unknown || a.requested_size == b.requested_size))
      continue;
    mismatch(fmt::format("final block {:#x}", a.address),
             fmt::format("recorded {} bytes for {}, state {}; replayed at {:#x} {} bytes for {}, state {}", a.size,
                         a.requested_size, static_cast<int>(a.state), b.address, b.size, b.requested_size,
                         static_cast<int>(b.state)));
  }
  if (recorded.blocks.size() != replayed.blocks.size())
    mismatch(fmt::format("final segment {:#x}", recorded.address),
             fmt::format("recorded {} blocks, replayed {}", recorded.blocks.size(), replayed.blocks.size()));
}

void Verifier::compare_final() {
  const std::vector<SnapshotSegment> replayed = allocator_.snapshot();
  std::size_t r = 0;
  for (const InitialSegment& last : plan_.final_segments) {
    const SnapshotSegment& recorded = last.segment;
    for (; r < replayed.size() && replayed[r].address < recorded.address; ++r)
      mismatch(fmt::format("final segment {:#x}", replayed[r].address), "not in the recording");
    if (r == replayed.size() || replayed[r].address != recorded.address) {
      mismatch(fmt::format("final segment {:#x}", recorded.address), "not in the replay");
      continue;
    }
    const SnapshotSegment& other = replayed[r++];
    const bool same = recorded.total_size == other.total_size && recorded.stream == other.stream &&
                      recorded.small_pool == other.small_pool && recorded.pool_id == other.pool_id &&
                      recorded.is_expandable == other.is_expandable;
    if (!same)
      mismatch(fmt::format("final segment {:#x}", recorded.address),
               fmt::format("recorded {} bytes, replayed {}, or another stream or pool", recorded.total_size,
                           other.total_size));
    compare_blocks(recorded, other);
  }
  for (; r < replayed.size(); ++r)
    mismatch(fmt::format("final segment {:#x}", replayed[r].address), "not in the recording");
}

}  // namespace
}  // namespace allocator_detail

Result<ReplayReport> verify(const Snapshot& snapshot, const ReplayOptions& options) {
  Result<AllocatorConfig> config =
      options.config ? Result<AllocatorConfig>(*options.config) : recorded_config(snapshot.settings, options.pytorch);
  if (!config) return tl::unexpected<Error>(std::move(config.error()));
  if (options.memory_fraction) config->per_process_memory_fraction = *options.memory_fraction;
  if (config->per_process_memory_fraction < 1 && options.total_memory == 0)
    return fail(ErrorKind::usage, "a memory fraction is set, but the device's memory is not known", {},
                "give the device's total memory: no snapshot holds it");
  const Result<allocator_detail::ReplayPlan> plan = allocator_detail::make_plan(snapshot, options, *config);
  if (!plan) return tl::unexpected<Error>(plan.error());
  return allocator_detail::Verifier(*plan, options).run();
}

}  // namespace foreshard
