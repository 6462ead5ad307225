#include "core/explain/moments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace foreshard::explain_detail {
namespace {

/// Sums of blocks in use, by key.
template <class Key>
class Shares {
 public:
  void add(Key key, UnitId unit, const Held& held) {
    Share<Key>& share = shares_[key];
    share.key = key;
    (held.pending ? share.pending : share.live) += held.size;
    ++share.blocks;
    if (unit.valid() && units_[key].insert(unit).second) ++share.units;
  }
  /// Largest first; of equal ones the smaller key.
  [[nodiscard]] std::vector<Share<Key>> sorted() const;

 private:
  std::map<Key, Share<Key>> shares_;
  std::map<Key, std::set<UnitId>> units_;
};

template <class Key>
std::vector<Share<Key>> Shares<Key>::sorted() const {
  std::vector<Share<Key>> out;
  for (const auto& [key, share] : shares_) out.push_back(share);
  std::stable_sort(out.begin(), out.end(),
                   [](const Share<Key>& a, const Share<Key>& b) { return a.live + a.pending > b.live + b.pending; });
  return out;
}

bool of_allocator(Recording recording) {
  return recording != Recording::trace;
}

}  // namespace

std::optional<StepRecord> failed_step(const Run& run) {
  StepRecord step;
  bool any = false;
  for (const StepRecord& record : run.steps) {
    if (!of_allocator(record.recording)) continue;
    any = true;
    step.recording = record.recording;
    step.index = record.index + 1;
    step.start = record.end;
  }
  const auto failed = std::find_if(run.allocator.begin(), run.allocator.end(), [&](const AllocatorRecord& entry) {
    return entry.action == AllocatorAction::oom && entry.time >= step.start;
  });
  if (!any || failed == run.allocator.end()) return std::nullopt;
  step.end = failed->time;
  return step;
}

StepsByTime::StepsByTime(const Run& run) {
  for (const StepRecord& step : run.steps)
    if (of_allocator(step.recording)) begins_.emplace_back(step.start, step.index);
  if (const auto failed = failed_step(run)) begins_.emplace_back(failed->start, failed->index);
  const auto earlier = [](const auto& a, const auto& b) { return a.first < b.first; };
  std::stable_sort(begins_.begin(), begins_.end(), earlier);
}

std::int32_t StepsByTime::at(Nanoseconds time) const {
  const auto later = [](Nanoseconds when, const auto& begin) { return when < begin.first; };
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), time, later);
  return next == begins_.begin() ? -1 : std::prev(next)->second;
}

std::int32_t step_at(const Run& run, Nanoseconds time) {
  return StepsByTime(run).at(time);
}

std::string phase_at(const Run& run, Nanoseconds time) {
  for (const PhaseRecord& phase : run.phases)
    if (of_allocator(phase.recording) && phase.start <= time && time < phase.end) return phase.name;
  return {};
}

void Moments::name_streams() {
  std::map<StreamId, std::array<Bytes, 2>> uses;  // of all-gathers, of reductions
  std::map<StreamId, Bytes> all;
  for (const BlockRecord& block : run_.blocks) {
    all[block.stream] += block.requested;
    if (block.category == MemoryCategory::gather_buffers) uses[block.stream][0] += block.requested;
    if (block.category == MemoryCategory::reduce_buffers || block.category == MemoryCategory::sharded_gradients)
      uses[block.stream][1] += block.requested;
  }
  for (const StreamRecord& stream : run_.streams) {
    std::string name = stream.name;
    const Bytes half = all[stream.id] / 2;
    const bool told = run_.info.kind != RunKind::imported || stream.id == kComputeStream;
    if (stream.id == kComputeStream) name = "compute";
    if (!told && uses[stream.id][0] > half) name = "all-gather copy-in";
    if (!told && uses[stream.id][1] > half) name = "reduce-scatter";
    names_.emplace_back(stream.id, name);
  }
}

/// The final segments tell the stacks of all their blocks; those that the recording saw allocated are not older.
void Moments::find_older_stacks() {
  for (const SnapshotSegment& segment : run_.segments)
    for (const SnapshotBlock& block : segment.blocks)
      if (block.stack.valid() && block.state != BlockState::inactive) older_stacks_[block.address] = block.stack;
  if (older_stacks_.empty()) return;
  for (const AllocatorRecord& event : run_.allocator)
    if (event.action == AllocatorAction::alloc) older_stacks_.erase(event.address);
}

std::string Moments::stream_name(StreamId stream) const {
  for (const auto& [id, name] : names_)
    if (id == stream) return name;
  return fmt::format("stream {}", stream.value);
}

HeldBlock Moments::held_block(const MemoryState& state, Address address, const Held& held) const {
  HeldBlock out;
  out.block = held.block;
  out.address = address;
  out.size = held.size;
  out.requested = held.requested;
  out.stream = state.segment_of(address)->second.stream;
  if (held.pending && held.freed < run_.allocator.size()) out.freed = run_.allocator[held.freed].time;
  const BlockRecord* record = record_of(run_, held.block);
  if (record != nullptr) {
    const BlockLife& life = lives_[held.block.value];
    out.category = record->category;
    out.unit = record->unit;
    out.step = record->step;
    out.stack = record->stack;
    if (life.made != kNoEvent) out.made = run_.allocator[life.made].time;
    if (life.freed != kNoEvent) out.freed = run_.allocator[life.freed].time;
    if (life.back != kNoEvent) out.back = run_.allocator[life.back].time;
  } else if (const auto older = older_stacks_.find(address); older != older_stacks_.end()) {
    out.stack = older->second;
  }
  if (held.pending) waits_.fill(out);
  return out;
}

void Moments::add_shares(const MemoryState& state, Moment& moment) const {
  Shares<std::optional<MemoryCategory>> categories;
  Shares<UnitId> units;
  Shares<std::int32_t> steps;
  for (const auto& [address, held] : state.held()) {
    const BlockRecord* record = record_of(run_, held.block);
    const UnitId unit = record != nullptr ? record->unit : UnitId{};
    categories.add(record != nullptr ? std::optional(record->category) : std::nullopt, unit, held);
    units.add(record != nullptr ? units_[held.block.value] : UnitId{}, unit, held);
    steps.add(record != nullptr ? record->step : -1, unit, held);
  }
  moment.categories = categories.sorted();
  moment.units = units.sorted();
  moment.steps = steps.sorted();
}

void Moments::add_holdings(const MemoryState& state, Moment& moment) const {
  std::map<StreamId, Holding> streams;
  std::map<PoolId, Holding> pools;
  for (const auto& [address, segment] : state.segments()) {
    Holding part;
    for (auto held = state.held().lower_bound(address); held != state.held().end() && held->first < segment.end; ++held)
      (held->second.pending ? part.pending : part.live) += held->second.size;
    part.free = segment.end - address - part.live - part.pending;
    for (Holding* sum : {&streams[segment.stream], &pools[segment.pool]}) {
      sum->live += part.live;
      sum->pending += part.pending;
      sum->free += part.free;
      ++sum->segments;
    }
  }
  for (auto& [id, holding] : streams) {
    holding.stream = id;
    holding.name = stream_name(id);
    moment.streams.push_back(holding);
  }
  for (auto& [id, holding] : pools) {
    holding.pool = id;
    holding.name = id == kDefaultPool ? "default" : fmt::format("private {}", id.value);
    moment.pools.push_back(holding);
  }
}

void Moments::add_blocks(const MemoryState& state, Moment& moment) const {
  std::vector<std::pair<Bytes, Address>> order;
  for (const auto& [address, held] : state.held()) {
    order.emplace_back(held.size, address);
    if (held.pending) moment.pending.push_back(held_block(state, address, held));
  }
  std::stable_sort(moment.pending.begin(), moment.pending.end(),
                   [](const HeldBlock& a, const HeldBlock& b) { return a.freed < b.freed; });
  const std::size_t count = std::min(largest_, order.size());
  std::partial_sort(
      order.begin(), order.begin() + static_cast<std::ptrdiff_t>(count), order.end(),
      [](const auto& a, const auto& b) { return a.first != b.first ? a.first > b.first : a.second < b.second; });
  for (std::size_t i = 0; i < count; ++i)
    moment.largest.push_back(held_block(state, order[i].second, state.held().at(order[i].second)));
}

Moment Moments::describe(const MemoryWalk& walk) const {
  Moment moment;
  const MemoryState& state = walk.state();
  const std::size_t event = walk.applied() == 0 ? 0 : walk.applied() - 1;
  moment.at = {event, run_.allocator[event].time, state.parts()};
  moment.step = step_at(run_, moment.at.time);
  moment.phase = phase_at(run_, moment.at.time);
  add_shares(state, moment);
  add_holdings(state, moment);
  add_blocks(state, moment);
  for_each_free(state, [&](Address, const Segment&, Address from, Address to) {
    moment.largest_free = std::max(moment.largest_free, to - from);
  });
  return moment;
}

}  // namespace foreshard::explain_detail
