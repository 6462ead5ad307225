#include "traces/import/norm_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>

namespace foreshard::traces {
namespace {

constexpr std::string_view kNormKernel = "vectorized_layer_norm_kernel<";
constexpr Bytes kStatisticBytes = 4;  // float32: that kernel is none of double's

/// A forward, ends included.
struct Window {
  Nanoseconds begin;
  Nanoseconds end;
  std::size_t step = 0;  // of the complete ones
};

/// The forwards of all complete steps, which follow one another.
class Forwards {
 public:
  explicit Forwards(const Hooks& hooks) {
    for (const StepPlaces& step : hooks.steps)
      if (step.complete) add(hooks, step);
  }

  [[nodiscard]] std::size_t steps() const { return steps_; }
  /// The step in one of whose forwards `time` is.
  [[nodiscard]] std::optional<std::size_t> step_at(Nanoseconds time) const {
    const auto after = std::upper_bound(forwards_.begin(), forwards_.end(), time,
                                        [](Nanoseconds t, const Window& forward) { return t < forward.begin; });
    if (after == forwards_.begin() || std::prev(after)->end < time) return std::nullopt;
    return std::prev(after)->step;
  }

 private:
  void add(const Hooks& hooks, const StepPlaces& step) {
    const std::size_t before = forwards_.size();
    for (const HookPlace& place : std::span(hooks.places).subspan(step.first, step.count)) {
      if (place.hook == Hook::forward_begin) forwards_.push_back({place.time, place.time, steps_});
      if (place.hook == Hook::forward_end && forwards_.size() > before) forwards_.back().end = place.time;
    }
    ++steps_;
  }

  std::vector<Window> forwards_;
  std::size_t steps_ = 0;
};

/// What only a process's first step requests, workspaces, does not count.
bool differ(std::span<const std::vector<Bytes>> requests) {
  return requests.size() > 2 && std::any_of(requests.begin() + 2, requests.end(),
                                            [&](const std::vector<Bytes>& step) { return step != requests[1]; });
}

/// The norms whose requests the step does not make; {0, 0}: it makes all.
std::pair<std::uint32_t, std::size_t> missing(const NormRows& norms, const std::vector<Bytes>& requests) {
  for (const auto& [rows, count] : norms) {
    const auto made = std::count(requests.begin(), requests.end(), rows * kStatisticBytes);
    if (static_cast<std::size_t>(made) < count) return {rows, count};
  }
  return {};
}

}  // namespace

std::vector<NormRows> norm_rows(const Run& run, const Hooks& hooks) {
  const Forwards forwards(hooks);
  std::vector<NormRows> steps(forwards.steps());
  for (const DeviceOpRecord& op : run.device_ops) {
    if (op.kind != DeviceOpRecord::Kind::kernel) continue;
    const auto step = forwards.step_at(op.issue);
    if (step && run.labels.text(op.label).find(kNormKernel) != std::string::npos) ++steps[*step][op.grid[0]];
  }
  return steps;
}

std::vector<std::vector<Bytes>> forward_requests(std::span<const CaptureEvent> events, const Hooks& hooks) {
  const Forwards forwards(hooks);
  std::vector<std::vector<Bytes>> steps(forwards.steps());
  for (const CaptureEvent& event : events)
    if (event.allocates)
      if (const auto step = forwards.step_at(event.time)) steps[*step].push_back(event.size);
  return steps;
}

Result<void> check_norm_rows(std::span<const NormRows> profiled, std::span<const std::vector<Bytes>> requests,
                             const std::string& trace_file, const std::string& snapshot_file) {
  if (profiled.empty() || requests.empty() || differ(requests)) return {};
  const NormRows& norms = profiled.back();
  if (std::any_of(profiled.begin(), profiled.end(), [&](const NormRows& step) { return step != norms; })) return {};
  for (const std::vector<Bytes>& step : requests)
    if (missing(norms, step).second == 0) return {};
  const auto [rows, count] = missing(norms, requests.back());
  return fail(ErrorKind::mismatch,
              fmt::format("a forward has {} layer norms of {} rows, but none in {} requests their statistics ({} bytes "
                          "each) so often: its steps have another batch size or sequence length",
                          count, rows, snapshot_file, rows * kStatisticBytes),
              trace_file, "give the files of one run, recorded at one batch size and sequence length");
}

}  // namespace foreshard::traces
