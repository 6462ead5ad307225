// Verify mode of the replay (caching allocator 10.2).
#include <algorithm>
#include <unordered_map>

#include "core/allocator/replay_compare.hpp"
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
        allocator_(plan.config, memory_, events_, &view_),
        comparison_(plan) {}

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
      comparison_.entries(view_.expected, view_.produced);
    }
    if (started_ > 0) report_.steps.push_back(allocator_.statistics());
    comparison_.final_segments(allocator_.snapshot());
    comparison_.report(report_);
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
  void poll_completions(const Operation& op);
  void empty_cache(std::size_t entry);
  [[nodiscard]] bool starts_as_planned(const ReplayEntry& request) const;
  [[nodiscard]] bool release_is_empty_cache(const Operation& op, std::size_t release);

  const ReplayPlan& plan_;
  const ReplayOptions& options_;
  ReplayReport report_;
  OperationView view_;
  RecordedMemory memory_;
  RecordedEvents events_;
  CachingAllocator allocator_;
  ReplayComparison comparison_;
  std::unordered_map<Address, BlockHandle> live_;         // by recorded address; lookup only
  std::unordered_map<std::size_t, BlockHandle> pending_;  // by the entry of the completion; lookup only
  std::size_t started_ = 0;                               // step starts passed
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
    pending_[pending.completion] = it->second;
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
  if (it == live_.end()) return;  // the comparison reports that nothing was freed
  const bool at_once = op.end - op.begin == 2;
  if (!at_once) {
    allocator_.record_stream(it->second, events_.stream_of(entry.completion, op.begin));
    pending_[entry.completion] = it->second;
  }
  allocator_.free(it->second);
  live_.erase(it);
}

void Verifier::empty_cache(std::size_t entry) {
  report_.empty_caches.push_back(plan_.entries[entry].index);
  allocator_.empty_cache();
}

/// Whether the recorded releases can be those of the malloc itself: first what garbage collection and
/// max_split_size release, and nothing more if that is enough.
bool Verifier::starts_as_planned(const ReplayEntry& request) const {
  const PlannedReleases plan = allocator_.planned_releases(request.size, request.stream, request.pool);
  std::vector<Address> recorded;
  for (const ReplayEntry& entry : view_.expected)
    if (entry.action == AllocatorAction::segment_free) recorded.push_back(entry.address);
  if (recorded.size() < plan.segments.size() || (plan.enough && recorded.size() > plan.segments.size())) return false;
  return std::equal(plan.segments.begin(), plan.segments.end(), recorded.begin());
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
      return !starts_as_planned(request);
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

/// The completions at the head of a malloc are those of its own poll, up to one that would have served it
/// although the recording goes on with a refusal: that one completed in the wait of the retry (3.1 step 6e).
void Verifier::poll_completions(const Operation& op) {
  const ReplayEntry& request = plan_.entries[op.end - 1];
  std::size_t head = op.begin;
  while (plan_.entries[head].action == AllocatorAction::free_completed) ++head;
  const bool hit = head + 1 == op.end && request.action == AllocatorAction::alloc;
  for (std::size_t i = op.begin; !hit && i < head; ++i) {
    const auto pending = pending_.find(i);
    if (pending == pending_.end()) break;
    const Outlook before = allocator_.outlook(request.size, request.stream, request.pool);
    if (before == Outlook::reuse) break;
    const bool refused = before != Outlook::grow || request.action == AllocatorAction::oom;
    if (refused && allocator_.would_serve(pending->second, request.size, request.stream, request.pool)) return;
    events_.completed_before(i + 1);
    allocator_.process_events();
  }
  events_.completed_before(head);
  allocator_.process_events();
}

void Verifier::replay_malloc(const Operation& op) {
  const ReplayEntry& last = plan_.entries[op.end - 1];
  const bool requests = last.action == AllocatorAction::alloc || last.action == AllocatorAction::oom;
  if (!requests) return empty_cache(op.begin);
  poll_completions(op);
  const auto is_release = [](const ReplayEntry& entry) {
    return entry.action == AllocatorAction::segment_free || entry.action == AllocatorAction::segment_unmap;
  };
  const auto release = std::find_if(view_.expected.begin(), view_.expected.end(), is_release);
  if (release != view_.expected.end()) {
    if (release_is_empty_cache(op, static_cast<std::size_t>(release - view_.expected.begin()))) empty_cache(op.begin);
  }
  const auto block = allocator_.malloc(last.size, last.stream, last.pool);
  if (last.action == AllocatorAction::alloc) {
    report_.block_size_of_alloc.push_back(block ? allocator_.block_size(*block) : 0);
    if (block) live_[last.address] = *block;
  }
}

/// Those of before the first entry; their streams are handles again, where the plan has ids of its own.
std::vector<SnapshotSegment> early_segments(const ReplayPlan& plan) {
  std::vector<SnapshotSegment> segments;
  for (const InitialSegment& early : plan.initial.segments) {
    segments.push_back(early.segment);
    segments.back().stream = plan.streams[early.segment.stream];
  }
  return segments;
}

}  // namespace
}  // namespace allocator_detail

Result<ReplayReport> verify(const Snapshot& snapshot, const ReplayOptions& options) {
  Result<AllocatorConfig> config =
      options.config ? Result<AllocatorConfig>(*options.config) : recorded_config(snapshot.settings, options.pytorch);
  FORESHARD_TRY(config);
  if (options.memory_fraction) config->per_process_memory_fraction = *options.memory_fraction;
  if (config->per_process_memory_fraction < 1 && options.total_memory == 0)
    return fail(ErrorKind::usage, "a memory fraction is set, but the device's memory is not known", {},
                "give the device's total memory: no snapshot holds it");
  const Result<allocator_detail::ReplayPlan> plan = allocator_detail::make_plan(snapshot, options, *config);
  FORESHARD_TRY(plan);
  Result<ReplayReport> report = allocator_detail::Verifier(*plan, options).run();
  if (report) report->initial_segments = allocator_detail::early_segments(*plan);
  return report;
}

Result<std::vector<SnapshotSegment>> initial_segments(const Snapshot& snapshot, const AllocatorConfig& config) {
  const Result<allocator_detail::ReplayPlan> plan = allocator_detail::make_plan(snapshot, {}, config);
  FORESHARD_TRY(plan);
  return allocator_detail::early_segments(*plan);
}

}  // namespace foreshard
