#include "traces/import/graph_notes.hpp"

#include <algorithm>
#include <map>

#include "traces/import/snapshot_ranges.hpp"

namespace foreshard::traces {
namespace {

struct Request {
  std::size_t alloc = 0;  ///< its place among the snapshot's alloc entries
  Bytes size = 0;
};
/// Of one step.
struct Requests {
  std::vector<Request> passes;  ///< before the optimizer, and …
  std::vector<Request> behind;  ///< … from it on
};

Requests requests_in(const Snapshot& snapshot, const Hooks& hooks, const StepPlaces& step) {
  const std::int64_t origin = snapshot_origin_us(snapshot);
  const auto places = std::span(hooks.places).subspan(step.first, step.count);
  const auto optimizer = std::find_if(places.begin(), places.end(),
                                      [](const HookPlace& place) { return place.hook == Hook::optimizer_begin; });
  const Nanoseconds behind = optimizer == places.end() ? step.end : optimizer->time;
  Requests out;
  std::size_t alloc = 0;
  for (const AllocatorEvent& event : snapshot.events) {
    if (event.action != AllocatorAction::alloc) continue;
    const Nanoseconds time = Nanoseconds::from_us(event.time_us - origin);
    if (time >= step.begin && time < step.end) (time < behind ? out.passes : out.behind).push_back({alloc, event.size});
    ++alloc;
  }
  return out;
}

/// How many requests of either list have no counterpart before both go on alike: the fewest together.
std::optional<std::pair<std::size_t, std::size_t>> skipped(std::span<const Request> step,
                                                           std::span<const Request> like) {
  constexpr std::size_t kMaxSkipped = 16;
  for (std::size_t both = 0; both <= kMaxSkipped; ++both)
    for (std::size_t of_step = 0; of_step <= both; ++of_step) {
      const std::size_t of_like = both - of_step;
      if (of_step < step.size() && of_like < like.size() && step[of_step].size == like[of_like].size)
        return std::pair{of_step, of_like};
    }
  return std::nullopt;
}

/// Gives the requests of `step` the notes of those of `like`.
void take_notes(std::span<const Request> step, std::span<const Request> like, std::span<const AllocationNote> eager,
                std::vector<std::optional<AllocationNote>>& out) {
  while (const auto skip = skipped(step, like)) {
    step = step.subspan(skip->first);
    like = like.subspan(skip->second);
    if (like.front().alloc < eager.size()) out[step.front().alloc] = eager[like.front().alloc];
    step = step.subspan(1);
    like = like.subspan(1);
  }
}

/// Libraries' workspaces by size: another stream makes them anew.
std::map<Bytes, AllocationNote> workspaces_of(const Snapshot& snapshot, std::span<const AllocationNote> eager) {
  std::map<Bytes, AllocationNote> out;
  std::size_t alloc = 0;
  for (const AllocatorEvent& event : snapshot.events) {
    if (event.action != AllocatorAction::alloc) continue;
    if (alloc == eager.size()) break;
    if (eager[alloc].category == MemoryCategory::workspaces) out.emplace(event.size, eager[alloc]);
    ++alloc;
  }
  return out;
}

}  // namespace

std::vector<std::optional<AllocationNote>> graph_notes(const Snapshot& snapshot, const Hooks& hooks,
                                                       const RecordedGraph& graph,
                                                       std::span<const AllocationNote> eager) {
  const auto allocs = std::count_if(snapshot.events.begin(), snapshot.events.end(),
                                    [](const AllocatorEvent& event) { return event.action == AllocatorAction::alloc; });
  std::vector<std::optional<AllocationNote>> out(eager.begin(), eager.end());
  out.resize(std::max(out.size(), static_cast<std::size_t>(allocs)));
  const Nanoseconds until = Nanoseconds::from_us(graph.eager_until_us - snapshot_origin_us(snapshot));
  const StepPlaces* like = nullptr;
  for (const StepPlaces& step : hooks.steps)
    if (step.complete && step.end <= until) like = &step;
  if (like == nullptr || eager.empty()) return out;
  const Requests pattern = requests_in(snapshot, hooks, *like);
  const std::map<Bytes, AllocationNote> workspaces = workspaces_of(snapshot, eager);
  for (const StepPlaces& step : hooks.steps) {
    if (!step.complete || step.begin < until) continue;
    const Requests requests = requests_in(snapshot, hooks, step);
    take_notes(requests.passes, pattern.passes, eager, out);
    take_notes(requests.behind, pattern.behind, eager, out);
    for (const Request& request : requests.passes)
      if (const auto made = workspaces.find(request.size); !out[request.alloc] && made != workspaces.end())
        out[request.alloc] = made->second;
  }
  return out;
}

}  // namespace foreshard::traces
