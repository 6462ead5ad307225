#include "traces/capture/capture_events.hpp"

#include <unordered_map>
#include <unordered_set>

namespace foreshard::traces {

std::vector<AllocatorEvent> freed_before(std::span<const AllocatorEvent> events) {
  std::vector<AllocatorEvent> out;
  std::unordered_set<Address> known;  // made or freed in the recording; lookup only
  for (const AllocatorEvent& event : events) {
    if (event.action == AllocatorAction::alloc || event.action == AllocatorAction::free_requested)
      known.insert(event.address);
    if (event.action == AllocatorAction::free_completed && known.insert(event.address).second) out.push_back(event);
  }
  return out;
}

std::vector<CaptureEvent> capture_events(std::span<const AllocatorEvent> events, std::int64_t origin_us) {
  std::vector<CaptureEvent> out;
  for (const AllocatorEvent& e : freed_before(events))
    out.push_back({.allocates = false, .address = e.address, .size = e.size, .stream = e.stream, .time = {-1}});
  std::unordered_map<Address, std::uint32_t> live;  // lookup only
  bool new_segment = false;
  for (std::size_t i = 0; i < events.size(); ++i) {
    const AllocatorEvent& event = events[i];
    const bool grows = event.action == AllocatorAction::segment_alloc || event.action == AllocatorAction::segment_map;
    if (grows) new_segment = true;
    const bool allocates = event.action == AllocatorAction::alloc;
    if (!allocates && event.action != AllocatorAction::free_requested) continue;
    CaptureEvent e{
        allocates,
        event.address,
        event.size,
        event.stream,
        Nanoseconds::from_us(event.time_us - origin_us),
        CaptureEvent::kNone,
        allocates && new_segment,
        !allocates && i + 1 < events.size() &&
            !(events[i + 1].action == AllocatorAction::free_completed && events[i + 1].address == event.address)};
    const auto index = static_cast<std::uint32_t>(out.size());
    if (allocates) {
      live[event.address] = index;
      new_segment = false;
    } else if (const auto it = live.find(event.address); it != live.end()) {
      e.partner = it->second;
      out[it->second].partner = index;
      live.erase(it);
    }
    out.push_back(e);
  }
  return out;
}

}  // namespace foreshard::traces
