#include "core/run/plan_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"

namespace foreshard {
namespace {

constexpr std::string_view kDeadlocks = "deadlocks";

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

std::optional<std::uint32_t> out_of_memory_rank(const Run& run) {
  if (run.info.kind != RunKind::planned || !has(run, "out_of_memory", "true")) return std::nullopt;
  const double rank = result_number(run, "out_of_memory_rank").value_or(0);
  if (!(rank >= 1 && rank < run.settings.world())) return std::nullopt;
  return static_cast<std::uint32_t>(rank);
}

std::string plan_failure(const Run& run) {
  if (run.info.kind != RunKind::planned) return {};
  if (has(run, "out_of_memory", "true")) {
    const auto rank = out_of_memory_rank(run);
    return rank ? fmt::format("ran out of memory on rank {}", *rank) : "ran out of memory";
  }
  return run.results.contains("deadlock") && !has(run, "deadlock", "null") ? std::string(kDeadlocks) : std::string();
}

std::string step_time_unknown(const Run& run) {
  if (run.info.kind != RunKind::planned || !plan_failure(run).empty() || !has(run, "step_ms", "null")) return {};
  const auto kept = run.results.find("step_time_unknown");
  const nlohmann::json why = kept == run.results.end() ? nlohmann::json() : parse_json_text(kept->second);
  return why.is_string() ? why.get<std::string>() : "the source has no times";
}

std::vector<std::string> result_texts(const Run& run, const std::string& key) {
  std::vector<std::string> out;
  const auto kept = run.results.find(key);
  if (kept == run.results.end()) return out;
  const nlohmann::json texts = parse_json_text(kept->second);
  if (!texts.is_array()) return out;
  for (const nlohmann::json& text : texts)
    if (text.is_string()) out.push_back(text.get<std::string>());
  return out;
}

std::vector<RankMember> ranks_with(const Run& run, const std::string& member) {
  std::vector<RankMember> out;
  const auto kept = run.results.find("ranks");
  if (run.info.kind != RunKind::planned || kept == run.results.end()) return out;
  const nlohmann::json ranks = parse_json_text(kept->second);
  if (!ranks.is_object() || !ranks.contains("groups") || !ranks["groups"].is_array()) return out;
  const auto number = [](const nlohmann::json& of, const char* key) -> std::optional<std::uint32_t> {
    const auto found = of.find(key);
    if (found == of.end() || !found->is_number_unsigned()) return std::nullopt;
    return found->get<std::uint32_t>();
  };
  const std::uint32_t told = number(ranks, "told_rank").value_or(0);
  for (const nlohmann::json& group : ranks["groups"]) {
    const auto first = group.is_object() ? number(group, "first_rank") : std::nullopt;
    if (first && group.contains(member) && !group[member].is_null()) out.push_back({*first, *first == told});
  }
  return out;
}

std::vector<std::string> plan_end(const Run& run) {
  return run.info.kind == RunKind::planned ? result_texts(run, "ends") : std::vector<std::string>{};
}

std::optional<std::int32_t> hung_step(const Run& run) {
  if (plan_failure(run) != kDeadlocks) return std::nullopt;
  for (const StepRecord& step : run.steps)
    if (!step.device_end) return step.index;
  if (run.rank_ops.empty()) return std::nullopt;
  return run.steps.empty() ? 0 : run.steps.back().index + 1;
}

bool counts_events(const Run& run) {
  return run.info.kind == RunKind::planned && run.allocator.size() > 1 &&
         run.allocator.back().time.count == static_cast<std::int64_t>(run.allocator.size()) - 1;
}

std::string moment_words(Nanoseconds time, int decimals, bool events) {
  if (events) {
    std::string number = std::to_string(std::max<std::int64_t>(0, time.count));
    for (std::size_t at = number.size(); at > 3;) number.insert(at -= 3, ",");
    return "event " + number;
  }
  return fmt::format("{:.{}f} ms", time.ms(), decimals);
}

bool never_ends(const Run& run, const StepRecord& step) {
  const auto hung = hung_step(run);
  return hung && step.recording == Recording::run && step.index >= *hung;
}

Error no_device_ops(const Run& run, std::string what, std::string where) {
  return {ErrorKind::input, std::move(what), std::move(where),
          plan_end(run).empty()
              ? "import the run with its profiler trace (--trace)"
              : fmt::format("the job ends before rank {} comes to an op of its GPU: explain --time and export "
                            "--format dot say who waits for whom",
                            run.ranks.empty() ? 0 : run.ranks.front().rank)};
}

std::optional<Nanoseconds> hang_end(const Run& run) {
  if (!hung_step(run)) return std::nullopt;
  Nanoseconds last;
  for (const DeviceOpRecord& op : run.device_ops) last = std::max(last, op.end);
  for (const RankOpRecord& row : run.rank_ops) last = std::max(last, row.op.end);
  return last;
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
