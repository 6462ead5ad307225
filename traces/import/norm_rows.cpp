#include "traces/import/norm_rows.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreshard::traces {
namespace {

constexpr std::string_view kNormKernel = "vectorized_layer_norm_kernel<";
constexpr Bytes kStatisticBytes = 4;  // float32: that kernel is none of double's

struct Window {
  Nanoseconds begin;
  Nanoseconds end;
};

/// The forwards of a step, ends included.
std::vector<Window> forwards_of(const Hooks& hooks, const StepPlaces& step) {
  std::vector<Window> forwards;
  for (const HookPlace& place : std::span(hooks.places).subspan(step.first, step.count)) {
    if (place.hook == Hook::forward_begin) forwards.push_back({place.time, place.time});
    if (place.hook == Hook::forward_end && !forwards.empty()) forwards.back().end = place.time;
  }
  return forwards;
}

bool is_in(std::span<const Window> forwards, Nanoseconds time) {
  return std::any_of(forwards.begin(), forwards.end(),
                     [&](const Window& forward) { return forward.begin <= time && time <= forward.end; });
}

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
  std::vector<NormRows> steps;
  for (const StepPlaces& step : hooks.steps) {
    if (!step.complete) continue;
    NormRows& norms = steps.emplace_back();
    const std::vector<Window> forwards = forwards_of(hooks, step);
    for (const DeviceOpRecord& op : run.device_ops)
      if (op.kind == DeviceOpRecord::Kind::kernel && is_in(forwards, op.issue) &&
          run.labels.text(op.label).find(kNormKernel) != std::string::npos)
        ++norms[op.grid[0]];
  }
  return steps;
}

std::vector<std::vector<Bytes>> forward_requests(std::span<const CaptureEvent> events, const Hooks& hooks) {
  std::vector<std::vector<Bytes>> steps;
  for (const StepPlaces& step : hooks.steps) {
    if (!step.complete) continue;
    std::vector<Bytes>& requests = steps.emplace_back();
    const std::vector<Window> forwards = forwards_of(hooks, step);
    for (const CaptureEvent& event : events)
      if (event.allocates && is_in(forwards, event.time)) requests.push_back(event.size);
  }
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
