#include "core/allocator/replay_verifier.hpp"

#include <algorithm>

namespace foreshard::allocator_detail {
namespace {

/// The device's memory where it is not known: no fraction is set then, and it only bounds virtual ranges.
constexpr Bytes kUnknownTotal = Bytes{1} << 40;

}  // namespace

Verifier::Verifier(const ReplayPlan& plan, const ReplayOptions& options, const Assumptions& assumed)
    : plan_(plan),
      options_(options),
      assumed_(assumed),
      memory_(view_, options.total_memory > 0 ? options.total_memory : kUnknownTotal),
      events_(plan.streams.size(), plan.entries.size()),
      allocator_(plan.config, memory_, events_, &view_),
      comparison_(plan) {
  allocator_.set_limit(assumed.limit);
}

Findings Verifier::run() {
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
    const bool agreed = comparison_.agrees();
    comparison_.entries(view_.expected, view_.produced);
    const bool refuted = agreed && doubtful_ && !comparison_.agrees() && assumed_.refuted.size() < kMaxRefuted;
    if (refuted) return {std::move(report_), std::move(limits_), contradicts_, *doubtful_};
  }
  if (started_ > 0) report_.steps.push_back(allocator_.statistics());
  comparison_.final_segments(allocator_.snapshot());
  comparison_.report(report_);
  report_.events = plan_.entries.size();
  report_.ignored_events = plan_.ignored_events;
  report_.statistics = allocator_.statistics();
  report_.peaks = allocator_.peaks();
  return {std::move(report_), std::move(limits_), contradicts_, std::nullopt};
}

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

/// A free_completed directly behind its free_requested belongs to it, unless a retry waited for it.
std::size_t Verifier::end_of_free(std::size_t begin) const {
  const bool at_once = plan_.entries[begin].completion == begin + 1;
  return at_once && !assumed_.refuted.contains({begin + 1, Reading::polled}) ? begin + 2 : begin + 1;
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
  doubtful_.reset();
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

/// The entries of a malloc behind the completions that it has polled.
std::span<const ReplayEntry> Verifier::unpolled() const {
  return view_.expected.subspan(std::min(view_.produced.size(), view_.expected.size() - 1));
}

/// Narrows the limits to those that explain a miss, and sets one of them.
Bytes Verifier::narrow(const Explanations& found) {
  if (assumed_.fixed) return assumed_.limit;
  LimitSet explained = either(found.by_limit, found.by_empty_cache);
  if (assumed_.driver_refuses || found.refused_by_driver) explained = either(explained, found.by_driver);
  const LimitSet left = both(limits_, explained);
  if (left.all().empty()) contradicts_ = true;
  if (explained.all().empty()) return assumed_.limit;
  limits_ = left.all().empty() ? explained : left;  // after a contradiction: another limit from here on
  const Bytes limit = contains(limits_, assumed_.limit) ? assumed_.limit : limits_.all().rbegin()->second - 1;
  allocator_.set_limit(limit);
  return limit;
}

/// Freed blocks that have not completed.
std::size_t Verifier::pending_count() const {
  const AllocatorStatistics& statistics = allocator_.statistics();
  return static_cast<std::size_t>(statistics.all.active.current - statistics.all.allocation.current);
}

/// Of a miss, less what runs before have refuted.
Explanations Verifier::explanations(const Operation& op, bool released) const {
  const ReplayEntry& request = plan_.entries[op.end - 1];
  const std::span<const ReplayEntry> entries = unpolled();
  const RecordedMiss miss{entries,
                          allocator_.limit_outcomes(request.size, request.stream, request.pool, entries.size()),
                          released ? allocator_.cached_segments() : std::vector<Address>(), pending_count()};
  Explanations found = explain(miss);
  if (assumed_.refuted.contains({op.begin, Reading::by_program})) found.by_empty_cache = {};
  if (assumed_.refuted.contains({op.begin, Reading::by_malloc})) found.by_limit = found.by_driver = {};
  return found;
}

/// Whether empty_cache made the releases of a miss, under one limit of those that explain it.
bool Verifier::program_released(const Operation& op, const Explanations& found, Bytes limit) {
  const ReplayEntry& request = plan_.entries[op.end - 1];
  if (contains(found.by_limit, limit)) return false;
  const bool by_driver = contains(found.by_driver, limit);
  if (request.action == AllocatorAction::oom) return !by_driver && contains(found.by_empty_cache, limit);
  if (found.by_empty_cache.all().empty()) return !by_driver;
  // Under another limit that explains the recording, or where the driver may refuse, the malloc made them.
  const bool refusals = assumed_.driver_refuses || limit == kNoLimit;
  if (!(by_driver && refusals) && both(found.by_limit, assumed_.limits).all().empty()) {
    // A retry that waited for the block freed just before leaves the same entries.
    const bool may_have_waited = op.begin >= 2 && plan_.entries[op.begin - 2].completion == op.begin - 1;
    if (may_have_waited && !refusals && limit < found.asked) ++report_.unexplained_releases;
    return true;
  }
  ++report_.unexplained_releases;
  return !options_.releases_are_retries;
}

/// Decides by the replayed state who made the releases at the head of a malloc; the completions before them have
/// been processed.
bool Verifier::release_is_empty_cache(const Operation& op) {
  const ReplayEntry& request = plan_.entries[op.end - 1];
  const std::span<const ReplayEntry> entries = unpolled();
  // Nothing to decide; though a miss may be served without growth where blocks are expandable.
  const bool plain = entries.size() == 1 && request.action == AllocatorAction::alloc;
  if (plain && !plan_.config.expandable_segments) return false;
  const bool released = std::any_of(entries.begin(), entries.end(), is_release);
  if (allocator_.finds_block(request.size, request.stream, request.pool)) return released;
  const Explanations found = explanations(op, released);
  const Bytes limit = narrow(found);
  if (!released) return false;
  const bool by_program = program_released(op, found, limit);
  const bool by_malloc_too = !found.by_limit.all().empty() || !found.by_driver.all().empty();
  if (by_program && by_malloc_too) doubtful_ = Refuted{op.begin, Reading::by_program};
  if (!by_program && !found.by_empty_cache.all().empty()) doubtful_ = Refuted{op.begin, Reading::by_malloc};
  return by_program;
}

/// The completions at the head of a malloc are those of its own poll, up to one that would have served it
/// although the recording goes on with a refusal: that one completed in the wait of the retry (3.1 step 6e).
void Verifier::poll_completions(const Operation& op) {
  const ReplayEntry& request = plan_.entries[op.end - 1];
  std::size_t head = op.begin;
  while (plan_.entries[head].action == AllocatorAction::free_completed) ++head;
  const bool hit = head + 1 == op.end && request.action == AllocatorAction::alloc;
  const bool refused =
      request.action == AllocatorAction::oom || std::any_of(view_.expected.begin(), view_.expected.end(), is_release);
  if (assumed_.refuted.contains({op.begin, Reading::polled})) return;
  const bool behind_free = op.begin >= 2 && plan_.entries[op.begin - 2].completion == op.begin - 1;
  if (refused && (head > op.begin || behind_free))
    doubtful_ = Refuted{head > op.begin ? op.begin : op.begin - 1, Reading::polled};
  for (std::size_t i = op.begin; !hit && i < head; ++i) {
    const auto pending = pending_.find(i);
    if (pending == pending_.end()) break;
    // One that is found now may be gone with the next completion: merged with its neighbour it may be oversize.
    if (!refused && allocator_.finds_block(request.size, request.stream, request.pool)) break;
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
  if (release_is_empty_cache(op)) empty_cache(op.begin);
  const auto block = allocator_.malloc(last.size, last.stream, last.pool);
  if (last.action == AllocatorAction::alloc) {
    report_.block_size_of_alloc.push_back(block ? allocator_.block_size(*block) : 0);
    if (block) live_[last.address] = *block;
  }
}

}  // namespace foreshard::allocator_detail
