#include "cli/reports/run_summary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/reports/plan_answer.hpp"
#include "core/base/json_io.hpp"
#include "core/compare/run_totals.hpp"
#include "core/explain_time/phase_times.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/run/graph_replay.hpp"
#include "core/run/plan_results.hpp"
#include "core/run/step_title.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::cli {
namespace {

/// Of the step whose time is reported, as `explain --time` and the plan have them.
void add_step_times(const Run& run, const WantedStep& wanted, RunSummary& summary) {
  const auto time = explain_time(run, wanted);
  if (!time || time->compute.count == 0) return;
  summary.compute_ms = time->compute.ms();
  summary.communication_ms = time->communication.ms();
  const PhaseTime sums = total(phase_times(run, *time));
  summary.kernel_contention_ms = sums.contention.ms();
  summary.exposed_communication_ms = time->exposed_communication.ms();
  summary.host_ms = sums.host.ms();
  summary.other_ms = sums.other.ms();
}

/// "step 2", or "step 1 of the trace, memory of step 3 of the snapshot".
std::string steps_title(const Run& run, const WantedStep& wanted, const WantedStep& wanted_memory) {
  const StepRecord* time = timed_step(run, wanted);
  const auto memory = run.allocator.empty() ? std::nullopt : memory_step(run, wanted_memory);
  std::string text = time == nullptr ? std::string() : step_title(run, time->recording, time->index);
  const bool same =
      memory && time != nullptr && memory->recording == time->recording && (!wanted || wanted == wanted_memory);
  if (!memory || same) return text;
  const std::string of_memory =
      "memory of " + (memory->index < 0 ? "set-up" : step_title(run, memory->recording, memory->index));
  return text.empty() ? of_memory : text + ", " + of_memory;
}

/// Of an import the GPU that it was recorded on: `machine` may be another profile, where that has none.
std::string machine_of(const Run& run) {
  if (run.info.kind != RunKind::imported || run.info.gpu.empty()) return run.info.machine;
  return std::string(sim::builtin_profile_of(run.info.gpu).value_or(run.info.gpu));
}

std::optional<Bytes> memory_limit_of(const Run& run) {
  const auto planned = result_number(run, "memory_capacity_bytes");
  if (run.info.kind != RunKind::planned || !planned) return std::nullopt;
  const auto capacity = static_cast<Bytes>(*planned);
  const auto machine = sim::builtin_profile(run.info.machine);
  return machine && sim::memory_options(*machine).capacity == capacity ? std::nullopt : std::optional(capacity);
}

}  // namespace

std::string plan_text(const Run& run, const std::string& key, const char* member) {
  const auto kept = run.results.find(key);
  if (run.info.kind != RunKind::planned || kept == run.results.end()) return {};
  nlohmann::json value = parse_json_text(kept->second);
  if (member != nullptr) value = value.is_object() ? value.value(member, nlohmann::json()) : nlohmann::json();
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::vector<std::string> not_in_run_lines(const Run& run) {
  std::vector<std::string> lines;
  for (const NotInRun& one : not_in_run(run))
    lines.push_back(fmt::format("the plan {}; what follows is {}", one.plan, one.run));
  return lines;
}

std::string slower_ranks_words(const Run& run) {
  const auto kept = run.results.find("ranks");
  if (run.info.kind != RunKind::planned || kept == run.results.end()) return {};
  const nlohmann::json ranks = parse_json_text(kept->second);
  const nlohmann::json slower = ranks.is_object() ? ranks.value("slower", nlohmann::json()) : nlohmann::json();
  const nlohmann::json words = slower.is_object() ? slower.value("sentence", nlohmann::json()) : nlohmann::json();
  return words.is_string() ? words.get<std::string>() : std::string();
}

RunSummary summarise(const Run& run, const std::string& path, const WantedStep& wanted, const WantedStep& memory) {
  const WantedStep& wanted_memory = memory ? memory : wanted;
  RunSummary summary;
  summary.path = path;
  summary.info = run.info;
  summary.setting_options = setting_options(run.settings);
  summary.units = run.units.size();
  summary.machine = machine_of(run);
  summary.memory_limit = memory_limit_of(run);
  summary.ranks = plan_text(run, "ranks", "differ");
  summary.told_rank = run.ranks.empty() ? out_of_memory_rank(run).value_or(0) : run.ranks.front().rank;
  summary.ranks_cost = plan_text(run, "ranks", "sentence");
  summary.slower = slower_ranks_words(run);
  summary.fabric = plan_text(run, "fabric");
  summary.topology = plan_text(run, "topology", "file");
  summary.model_options = plan_text(run, "model_options");
  if (run.info.kind == RunKind::planned) summary.job_options = job_options(run.results);
  summary.not_in_run = not_in_run(run);
  summary.trials = stored_trials(run);
  summary.drawn_memory = stored_drawn_memory(run);
  if (const auto settled = stored_settled_memory(run)) summary.settled_reserved = settled->reserved;
  summary.no_time = step_time_unknown(run);
  summary.failure = plan_failure(run);
  summary.ends = plan_end(run);
  summary.hangs = hung_step(run).has_value() && !summary.ends.empty();
  if (summary.hangs) return summary;
  if (out_of_memory_step(run)) summary.failure += " in " + text_of(failed_place(run));
  if (!wanted) {
    const auto time = step_time(run);
    if (time) summary.step_ms = time->ms;
    summary.step_ms_source = time ? time->source : "";
  }
  if (const auto step = memory_step(run, wanted_memory)) {
    summary.peaks = step->peaks;
    summary.num_alloc_retries = step->num_alloc_retries;
  }
  summary.graph_pool = graph_pool_bytes(run);
  summary.phases_ms = phases_ms(run, wanted);
  add_step_times(run, wanted, summary);
  summary.steps = steps_title(run, wanted, wanted_memory);
  return summary;
}

}  // namespace foreshard::cli
