#include "traces/capture/recorded_returns.hpp"

#include <algorithm>
#include <map>

#include "traces/capture/capture_events.hpp"

namespace foreshard::traces {

RecordedReturns recorded_returns(std::span<const AllocatorEvent> events) {
  struct Waiting {
    std::uint64_t free;
    std::uint64_t allocations;  // made before it
  };
  RecordedReturns out;
  out.frees = freed_before(events).size();  // at the beginning, as capture_events() has them
  std::map<Address, Waiting> waiting;
  std::uint64_t allocations = 0;
  for (const AllocatorEvent& event : events) {
    if (event.action == AllocatorAction::alloc) ++allocations;
    if (event.action == AllocatorAction::free_requested) waiting[event.address] = {out.frees++, allocations};
    if (event.action != AllocatorAction::free_completed) continue;
    const auto it = waiting.find(event.address);
    if (it == waiting.end()) continue;  // freed before the recording began
    if (it->second.allocations != allocations) out.late.push_back({it->second.free, allocations});
    waiting.erase(it);
  }
  for (const auto& [address, w] : waiting) out.late.push_back({w.free, allocations});
  std::sort(out.late.begin(), out.late.end(), [](const auto& a, const auto& b) { return a.free < b.free; });
  return out;
}

}  // namespace foreshard::traces
