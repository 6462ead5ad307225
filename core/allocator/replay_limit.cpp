#include "core/allocator/replay_limit.hpp"

#include <algorithm>
#include <unordered_set>

namespace foreshard::allocator_detail {
namespace {

/// Whether a miss, behind its first `gone` releases, gives back every other cached segment (3.7). It waits for
/// every pending block before, which may add segments.
bool gives_back_everything(const RecordedMiss& miss, std::size_t gone) {
  std::unordered_set<Address> before;  // lookup only
  for (std::size_t k = 0; k < gone; ++k) before.insert(miss.entries[k].address);
  std::vector<Address> given;
  std::size_t completed = 0;
  for (const ReplayEntry& entry : miss.entries.subspan(gone)) {
    if (is_growth(entry)) break;
    if (entry.action == AllocatorAction::free_completed) {
      if (!given.empty()) return false;  // it waits first
      ++completed;
    }
    if (entry.action == AllocatorAction::segment_free) given.push_back(entry.address);
  }
  if (completed != miss.pending) return false;
  auto next = given.begin();
  std::size_t expected = 0;
  for (const Address address : miss.cached) {
    if (before.contains(address)) continue;
    ++expected;
    next = std::find(next, given.end(), address);
    if (next == given.end()) return false;
    ++next;
  }
  return completed > 0 || expected == given.size();
}

/// The reserved bytes that the last attempt saw.
Bytes reserved_in_the_end(const RecordedMiss& miss) {
  Bytes reserved = miss.outcomes.reserved;
  Bytes grown = 0;  // by the attempt that succeeds
  for (const ReplayEntry& entry : miss.entries) {
    if (is_growth(entry)) grown += entry.size;
    if (!is_release(entry)) continue;
    reserved = reserved + grown - std::min(entry.size, reserved + grown);
    grown = 0;
  }
  return reserved;
}

bool begins_with(const RecordedMiss& miss, const std::vector<Address>& segments) {
  if (miss.entries.size() <= segments.size()) return false;
  return std::equal(segments.begin(), segments.end(), miss.entries.begin(), [](Address address, const auto& entry) {
    return entry.action == AllocatorAction::segment_free && entry.address == address;
  });
}

bool fits(const RecordedMiss& miss, const LimitOutcome& outcome) {
  if (!begins_with(miss, outcome.segments)) return false;
  const auto rest = miss.entries.subspan(outcome.segments.size());
  switch (outcome.next) {
    case LimitOutcome::Next::memory:
      // Growth may be missing: asks_driver in limit_outcomes.cpp.
      return (is_growth(rest.front()) || rest.front().action == AllocatorAction::alloc) &&
             rest.back().action == AllocatorAction::alloc && std::none_of(rest.begin(), rest.end(), is_release);
    case LimitOutcome::Next::everything:
      return gives_back_everything(miss, outcome.segments.size());
    case LimitOutcome::Next::failure:
      return rest.size() == 1 && rest.front().action == AllocatorAction::oom;
  }
  return false;
}

}  // namespace

bool contains(const LimitSet& set, Bytes limit) {
  return set.overlaps(limit, limit + 1);
}

LimitSet both(const LimitSet& a, const LimitSet& b) {
  LimitSet common;
  for (const auto& [least, below] : a.all())
    for (const auto& [from, to] : b.parts(least, below)) common.add(from, to);
  return common;
}

LimitSet either(const LimitSet& a, const LimitSet& b) {
  LimitSet united = a;
  for (const auto& [least, below] : b.all()) united.add(least, below);
  return united;
}

LimitSet every_limit() {
  LimitSet set;
  set.add(0, kNoLimit + 1);
  return set;
}

Explanations explain(const RecordedMiss& miss) {
  Explanations found;
  found.asked = miss.outcomes.reserved + miss.outcomes.segment;
  const bool failed = miss.entries.back().action == AllocatorAction::oom;
  const Bytes needed = reserved_in_the_end(miss) + miss.outcomes.segment;
  const auto growth = std::find_if(miss.entries.begin(), miss.entries.end(), is_growth);
  if (std::any_of(growth, miss.entries.end(), is_release)) {
    // Pages were mapped before the driver refused more (4.2).
    found.refused_by_driver = true;
    found.by_driver.add(failed ? 0 : needed, kNoLimit + 1);
    return found;
  }
  // An oom entry has the driver's free bytes.
  found.refused_by_driver = failed && miss.entries.back().address < miss.outcomes.segment;
  for (const LimitOutcome& outcome : miss.outcomes.outcomes) {
    if (!fits(miss, outcome)) continue;
    Bytes least = outcome.least;
    Bytes below = outcome.below;
    const bool tries_again = outcome.next == LimitOutcome::Next::everything;
    if (tries_again && failed) below = std::min(below, needed);
    if (tries_again && !failed) least = std::max(least, needed);
    found.by_limit.add(least, below);
    found.by_driver.add(least, outcome.driver_below);
  }
  const bool released = std::any_of(miss.entries.begin(), growth, is_release);
  if (!released || !gives_back_everything(miss, 0)) return found;
  const bool hit = !failed && growth == miss.entries.end();
  found.by_empty_cache.add(hit || failed ? 0 : needed, failed ? needed : kNoLimit + 1);
  return found;
}

}  // namespace foreshard::allocator_detail
