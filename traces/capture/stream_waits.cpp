#include "traces/capture/stream_waits.hpp"

#include <algorithm>
#include <vector>

namespace foreshard::traces {
namespace {

/// The items of some segments in host order.
std::vector<ItemPlace> places_of(const StepCalls& step, std::size_t first, std::size_t last) {
  std::vector<ItemPlace> out;
  for (std::size_t s = first; s < last; ++s)
    for (std::size_t i = 0; i < step.segments[s].items.size(); ++i) out.push_back({s, i});
  return out;
}

const DeviceOpRecord* op_at(const Run& run, const StepCalls& step, ItemPlace place) {
  const std::uint32_t op = step.segments[place.segment].items[place.item].op;
  return op == StepItem::kSynchronize ? nullptr : &run.device_ops[op];
}

}  // namespace

StreamWaits find_stream_waits(const Run& run, std::span<const StepCalls* const> steps, std::size_t first,
                              std::size_t last, StreamId compute) {
  StreamWaits out;
  const std::vector<ItemPlace> places = places_of(*steps[0], first, last);
  for (std::size_t p = 0; p < places.size(); ++p) {
    const DeviceOpRecord* collective = op_at(run, *steps[0], places[p]);
    if (collective == nullptr || collective->kind != DeviceOpRecord::Kind::collective || collective->stream == compute)
      continue;
    const auto started_after_it_everywhere = [&](ItemPlace place) {
      return std::all_of(steps.begin(), steps.end(), [&](const StepCalls* step) {
        const DeviceOpRecord* op = op_at(run, *step, place);
        return op != nullptr && op->stream == compute && op->start >= op_at(run, *step, places[p])->end;
      });
    };
    const auto waiting =
        std::find_if(places.begin() + static_cast<std::ptrdiff_t>(p) + 1, places.end(), started_after_it_everywhere);
    const ItemPlace place =
        waiting != places.end() ? *waiting : ItemPlace{last - 1, steps[0]->segments[last - 1].items.size()};
    const auto is_behind = [&](ItemPlace other) {
      const DeviceOpRecord* op = op_at(run, *steps[0], other);
      return op != nullptr && op->kind == DeviceOpRecord::Kind::collective && op->stream == collective->stream;
    };
    // Of two that are waited for at one place the later one, which comes later here, ends last.
    out[place][collective->stream] = static_cast<std::uint32_t>(
        std::count_if(places.begin() + static_cast<std::ptrdiff_t>(p) + 1, waiting, is_behind));
  }
  return out;
}

}  // namespace foreshard::traces
