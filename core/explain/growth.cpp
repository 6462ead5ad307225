#include "core/explain/growth.hpp"

#include <algorithm>
#include <map>

#include "core/explain/moments.hpp"

namespace foreshard {
namespace {

using explain_detail::MemoryState;
using explain_detail::MemoryWalk;

constexpr std::size_t kLookAhead = 16;  // entries between a segment and the request that it was got for

bool gives(AllocatorAction action) {
  return action == AllocatorAction::segment_alloc || action == AllocatorAction::segment_map;
}
bool takes(AllocatorAction action) {
  return action == AllocatorAction::segment_free || action == AllocatorAction::segment_unmap;
}

/// Places in Growth::segments of what is there, by address.
using Present = std::map<Address, std::size_t>;

class GrowthWalk {
 public:
  explicit GrowthWalk(const Run& run) : run_(run), steps_(run) {}

  Result<Growth> explain(const MemoryWalk& begin) {
    walk_all(begin);
    add_unused(begin);
    return std::move(out_);
  }

 private:
  void walk_all(MemoryWalk walk) {
    while (walk.applied() < run_.allocator.size()) {
      const std::size_t at = walk.applied();
      see(at);
      walk.next();
      const MemoryParts parts = walk.state().parts();
      if (parts.reserved() > out_.reserved) {
        if (gives(run_.allocator[at].action)) grow(at, parts.reserved());
        out_.reserved = parts.reserved();
        out_.most_used = {};
      }
      if (parts.allocated() <= out_.most_used.allocated) continue;
      out_.most_used = {0, run_.allocator[at].time, parts.allocated(), parts.reserved()};
      most_used_ = at;
    }
    out_.most_used.step = steps_.at(out_.most_used.time);
    out_.odd_events = walk.odd_events();
  }

  /// An entry before it is applied.
  void see(std::size_t at) {
    const AllocatorRecord& event = run_.allocator[at];
    if (gives(event.action)) add_segment(at);
    if (takes(event.action)) {
      if (at == 0 || !takes(run_.allocator[at - 1].action)) add_retry(at);
      if (const auto gone = present_.find(event.address); gone != present_.end()) {
        out_.segments[gone->second].released = steps_.at(event.time);
        present_.erase(gone);
      }
    }
  }

  void add_segment(std::size_t at) {
    const AllocatorRecord& event = run_.allocator[at];
    GrownSegment segment;
    segment.step = steps_.at(event.time);
    segment.bytes = event.size;
    segment.stream = event.stream;
    segment.expandable = event.action == AllocatorAction::segment_map;
    for (std::size_t i = at + 1; i < std::min(run_.allocator.size(), at + 1 + kLookAhead); ++i) {
      const AllocatorRecord& later = run_.allocator[i];
      if (later.action != AllocatorAction::alloc) continue;
      const bool inside = later.address + later.size > event.address && later.address < event.address + event.size;
      if (inside) segment.request = later.block;
      break;
    }
    present_[event.address] = out_.segments.size();
    out_.segments.push_back(segment);
  }

  /// `at`: the first of a run of segments that go back.
  void add_retry(std::size_t at) {
    const std::vector<AllocatorRecord>& events = run_.allocator;
    GrowthRetry retry;
    retry.step = steps_.at(events[at].time);
    std::size_t i = at;
    for (; i < events.size() && takes(events[i].action); ++i) {
      ++retry.released;
      retry.released_bytes += events[i].size;
    }
    for (; i < events.size() && gives(events[i].action); ++i) ++retry.made;
    if (i == events.size()) return;
    retry.failed = events[i].action == AllocatorAction::oom;
    if (retry.made == 0 && !retry.failed) return;  // empty_cache()
    if (!retry.failed) retry.request = events[i].block;
    retry.requested = events[i].size;
    if (at > 0) retry.took.before = events[at].time - events[at - 1].time;
    // A page's entry is written behind its unmapping, and tells no call from what the program did before it.
    const bool frees = events[at].action == AllocatorAction::segment_free;
    const std::size_t behind_first = frees ? at + 1 : at;
    retry.took.wait = events[behind_first].time - events[at].time;
    retry.took.rest = events[i].time - events[behind_first].time;
    out_.retries.push_back(retry);
  }

  void grow(std::size_t at, Bytes reserved) {
    const std::int32_t step = steps_.at(run_.allocator[at].time);
    if (out_.steps.empty() || out_.steps.back().step != step) out_.steps.push_back({step, 0, {}});
    out_.steps.back().reserved = reserved;
  }

  /// What is free when most is in use.
  void add_unused(MemoryWalk walk) {
    Present there;
    std::size_t next = 0;  // of out_.segments
    while (walk.applied() <= most_used_ && walk.applied() < run_.allocator.size()) {
      const AllocatorRecord& event = run_.allocator[walk.applied()];
      if (gives(event.action)) there[event.address] = next++;
      if (takes(event.action)) there.erase(event.address);
      walk.next();
    }
    explain_detail::for_each_free(walk.state(), [&](Address, const auto&, Address from, Address to) {
      for (auto it = there.upper_bound(from); from < to; ++it) {
        const Address end = it == there.end() ? to : std::min(to, it->first);
        if (it != there.begin()) {
          GrownSegment& segment = out_.segments[std::prev(it)->second];
          const Address last = std::prev(it)->first + segment.bytes;
          if (last > from) segment.unused += std::min(end, last) - from;
        }
        from = end;
        if (it == there.end()) break;
      }
    });
    for (std::size_t i = 0; i < out_.segments.size(); ++i)
      for (GrowthOfStep& step : out_.steps)
        if (step.step == out_.segments[i].step) step.segments.push_back(i);
  }

  const Run& run_;
  explain_detail::StepsByTime steps_;
  Growth out_;
  Present present_;
  std::size_t most_used_ = 0;
};

}  // namespace

RetryPrice& RetryPrice::operator+=(const RetryPrice& other) {
  before += other.before;
  wait += other.wait;
  rest += other.rest;
  return *this;
}

Result<Growth> explain_growth(const Run& run) {
  if (run.allocator.empty())
    return fail(ErrorKind::input, "holds no memory record", run.info.name, "import a memory snapshot");
  const auto begin = MemoryWalk::begin(run);
  FORESHARD_TRY(begin);
  return GrowthWalk(run).explain(*begin);
}

}  // namespace foreshard
