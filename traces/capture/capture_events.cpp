#include "traces/capture/capture_events.hpp"

#include <unordered_map>

namespace foreshard::traces {

std::vector<CaptureEvent> capture_events(std::span<const AllocatorEvent> events, std::int64_t origin_us) {
  std::vector<CaptureEvent> out;
  std::unordered_map<Address, std::uint32_t> live;  // lookup only
  bool new_segment = false;
  for (const AllocatorEvent& event : events) {
    const bool grows = event.action == AllocatorAction::segment_alloc || event.action == AllocatorAction::segment_map;
    if (grows) new_segment = true;
    const bool allocates = event.action == AllocatorAction::alloc;
    if (!allocates && event.action != AllocatorAction::free_requested) continue;
    CaptureEvent e{allocates,
                   event.address,
                   event.size,
                   event.stream,
                   Nanoseconds::from_us(event.time_us - origin_us),
                   CaptureEvent::kNone,
                   allocates && new_segment};
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
