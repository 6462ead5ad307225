#include "core/run/plan_results.hpp"

#include <algorithm>
#include <charconv>

namespace foreshard {
namespace {

bool has(const Run& run, const char* key, std::string_view text) {
  const auto found = run.results.find(key);
  return found != run.results.end() && found->second == text;
}

}  // namespace

std::optional<double> result_number(const Run& run, const std::string& key) {
  const auto found = run.results.find(key);
  if (found == run.results.end()) return std::nullopt;
  const std::string& text = found->second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::string_view plan_failure(const Run& run) {
  if (run.info.kind != RunKind::planned) return {};
  if (has(run, "out_of_memory", "true")) return "ran out of memory";
  return run.results.contains("deadlock") && !has(run, "deadlock", "null") ? "deadlocks" : "";
}

std::optional<StepRecord> out_of_memory_step(const Run& run) {
  if (run.info.kind != RunKind::planned || !has(run, "out_of_memory", "true")) return std::nullopt;
  const auto failed = std::find_if(run.allocator.rbegin(), run.allocator.rend(),
                                   [](const AllocatorRecord& record) { return record.action == AllocatorAction::oom; });
  if (failed == run.allocator.rend()) return std::nullopt;
  StepRecord step;
  step.index = -1;
  if (!run.steps.empty()) {
    step.index = run.steps.back().index + 1;
    step.start = run.steps.back().end;
  } else if (!run.phases.empty()) {
    step.index = run.phases.front().step;
    step.start = run.phases.front().start;
  }
  step.end = failed->time + Nanoseconds{1};  // what the request came behind is of the step
  const auto bytes = [&](const char* key) { return static_cast<Bytes>(result_number(run, key).value_or(0)); };
  step.peaks.requested = bytes("peak_requested_bytes");
  step.peaks.allocated = bytes("peak_allocated_bytes");
  step.peaks.active = bytes("peak_active_bytes");
  step.peaks.reserved = bytes("peak_reserved_bytes");
  step.num_alloc_retries = static_cast<std::int64_t>(result_number(run, "num_alloc_retries").value_or(0));
  return step;
}

}  // namespace foreshard
