#include "cli/reports/run_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/reports/json_values.hpp"
#include "cli/reports/plan_answer.hpp"
#include "cli/reports/stored_trials.hpp"
#include "core/base/add_up.hpp"
#include "core/base/json_io.hpp"
#include "core/base/units.hpp"
#include "core/compare/run_totals.hpp"
#include "core/run/rank_shapes.hpp"
#include "core/run/step_shapes.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/throughput.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {
namespace {

/// An answer of `plan` or `run` under a key; null where there is none.
Json result_of(const Run& run, const std::string& key) {
  const auto found = run.results.find(key);
  if (found == run.results.end()) return nullptr;
  Json value = parse_ordered_json_text(found->second);
  return value.is_discarded() ? Json(nullptr) : value;
}

std::vector<std::string> texts_of(const Json& list) {
  std::vector<std::string> out;
  if (list.is_array())
    for (const Json& text : list)
      if (text.is_string()) out.push_back(text.get<std::string>());
  return out;
}

void add_capacity(const Run& run, RunAnswer& answer) {
  if (const Json planned = result_of(run, "memory_capacity_bytes"); planned.is_number_unsigned()) {
    answer.capacity = planned.get<Bytes>();
    const auto machine = sim::builtin_profile(run.info.machine);
    const bool whole = machine && sim::memory_options(*machine).capacity == *answer.capacity;
    answer.capacity_of = whole || !machine ? run.info.machine : "the plan's limit";
    return;
  }
  // An import's machine may be another profile, where its GPU has none.
  const bool recorded = run.info.kind == RunKind::imported || run.info.machine.empty();
  const auto named = recorded ? sim::builtin_profile_of(run.info.gpu) : run.info.machine;
  if (named)
    if (const auto machine = sim::builtin_profile(*named)) {
      answer.capacity = sim::memory_options(*machine).capacity;
      answer.capacity_of = machine->name;
      return;
    }
  const Json device = result_of(run, "device_memory_bytes");
  if (!device.is_number_unsigned()) return;
  answer.capacity = device.get<Bytes>();
  answer.capacity_of = "the recorded GPU";
}

/// What `plan` and `compare` say: of a plan its own peak, the largest where its steps differ or have drawn lengths; of
/// a recording the largest of any step.
void add_peak(const Run& run, RunAnswer& answer) {
  if (const Json planned = result_of(run, "peak_reserved_bytes"); planned.is_number_unsigned()) {
    answer.peak_reserved = planned.get<Bytes>();
    const Json steps = result_of(run, "steps");
    const auto peaks = steps.is_array() ? steps : Json::array();
    for (const Json& step : peaks)
      if (step.is_object() && step.value("peak_reserved_bytes", Json()).is_number_unsigned())
        answer.peak_reserved = std::max(*answer.peak_reserved, step["peak_reserved_bytes"].get<Bytes>());
    if (const auto drawn = stored_drawn_memory(run))
      answer.peak_reserved = std::max(*answer.peak_reserved, drawn->most);
    if (const auto settled = stored_settled_memory(run))
      answer.peak_reserved = std::max(*answer.peak_reserved, settled->reserved);
  } else {
    std::vector<Bytes> reserved;
    for (const StepRecord& step : run.steps)
      if (step.recording != Recording::trace && step.peaks.reserved > 0) reserved.push_back(step.peaks.reserved);
    if (!reserved.empty()) answer.peak_reserved = *std::max_element(reserved.begin(), reserved.end());
    if (reserved.size() > 2) {
      const Bytes before = *std::max_element(reserved.begin(), reserved.end() - 1);
      answer.grew_last = reserved.back() - std::min(reserved.back(), before);
    }
  }
  answer.may_run_out_of_memory = result_of(run, "may_run_out_of_memory") == Json(true);
  answer.out_of_memory = std::any_of(run.allocator.begin(), run.allocator.end(), [](const AllocatorRecord& record) {
    return record.action == AllocatorAction::oom;
  });
}

void add_time(const Run& run, RunAnswer& answer) {
  const auto time = step_time(run);
  if (!time || time->ms <= 0) return;
  answer.step_ms = time->ms;
  answer.step_source = time->source;
  if (const Json share = result_of(run, "uncertainty"); share.is_number()) answer.uncertainty = share.get<double>();
  const Json planned = result_of(run, "tokens_per_s_per_gpu");
  const double work = sim::work_of_shapes(StepShapes(run).of_mean(), run.settings);
  const double rate = planned.is_number() ? planned.get<double>() : sim::work_per_second(work, time->ms);
  if (rate <= 0) return;
  answer.rate = rate;
  answer.rate_unit = rate_unit(run.settings);
}

/// As plan says it, or of what was recorded, where the GPU has a built-in profile.
void add_utilization(const Run& run, const std::optional<Workload>& workload, RunAnswer& answer) {
  const auto text = [&](const char* key) {
    const Json value = result_of(run, key);
    return value.is_string() ? value.get<std::string>() : std::string();
  };
  if (run.results.contains("mfu")) {
    const Json planned = result_of(run, "mfu");
    answer.utilization = {planned.is_number() ? planned.get<double>() : 0, text("mfu_rests_on"), text("mfu_unknown")};
    return;
  }
  if (workload && answer.step_ms) answer.utilization = utilization_of(run, *workload, *answer.step_ms);
}

/// Of a run that no plan answered for: what was recorded.
void add_lines(RunAnswer& answer) {
  answer.lines.push_back(fit_line(answer));
  if (!answer.step_ms) return;
  std::string line = fmt::format("{} a step ({})", milliseconds(*answer.step_ms), answer.step_source);
  if (answer.rate) line += fmt::format(", {:.0f} {}", *answer.rate, answer.rate_unit);
  if (answer.utilization.value > 0) line += fmt::format(", MFU {:.0f} %", 100 * answer.utilization.value);
  answer.lines.push_back(std::move(line));
}

}  // namespace

RunAnswer memory_answer(const Run& run) {
  RunAnswer answer;
  answer.lines = texts_of(result_of(run, "answer"));
  answer.deadlock = result_of(run, "deadlock").is_string();
  add_capacity(run, answer);
  add_peak(run, answer);
  return answer;
}

RunAnswer run_answer(const Run& run) {
  RunAnswer answer = memory_answer(run);
  answer.not_valid = texts_of(result_of(run, "not_valid"));
  answer.warnings = run.info.warnings;
  answer.valid = run.info.valid;
  std::erase_if(answer.warnings, [&](const std::string& text) {
    return std::find(answer.not_valid.begin(), answer.not_valid.end(), text) != answer.not_valid.end();
  });
  std::optional<Workload> recorded;  // of a run that no plan answered for
  if (!run.results.contains("mfu") && !run.workload_json.empty())
    if (auto stored = traces::stored_workload(run.workload_json, run.info.kind == RunKind::executed, run.info.name))
      recorded = std::move(*stored);
  add_time(run, answer);
  add_utilization(run, recorded, answer);
  if (answer.lines.empty()) add_lines(answer);
  // The page says these apart.
  std::erase_if(answer.lines, [](const std::string& line) { return line.starts_with("not valid: "); });
  return answer;
}

sim::Utilization utilization_of(const Run& run, const Workload& workload, double step_ms) {
  const std::string named =
      run.info.machine.empty() ? std::string(sim::builtin_profile_of(run.info.gpu).value_or("")) : run.info.machine;
  const auto machine = sim::builtin_profile(named);
  if (!machine) return {0, {}, "no profile of its GPU is built in"};
  const auto of_ranks = rank_shapes(run).empty() ? std::vector<StepShape>() : StepShapes(run).of_mean();
  return sim::model_flops_utilization(workload, run.settings, machine->peaks, step_ms, of_ranks);
}

Json run_answer_json(const RunAnswer& answer) {
  const auto or_null = [](const auto& value) { return value ? Json(*value) : Json(nullptr); };
  return {{"lines", answer.lines},
          {"valid", answer.valid},
          {"not_valid", answer.not_valid},
          {"warnings", answer.warnings},
          {"fits", fits_word(answer)},
          {"may_run_out_of_memory", answer.may_run_out_of_memory},
          {"step_ms", or_null(answer.step_ms)},
          {"step_source", answer.step_source},
          {"uncertainty", or_null(answer.uncertainty)},
          {"rate", or_null(answer.rate)},
          {"rate_unit", answer.rate_unit},
          {"mfu", answer.utilization.value > 0 ? Json(answer.utilization.value) : Json(nullptr)},
          {"mfu_rests_on", text_or_null(answer.utilization.rests_on)},
          {"mfu_unknown", text_or_null(answer.utilization.unknown)},
          {"peak_reserved_bytes", or_null(answer.peak_reserved)},
          {"capacity_bytes", or_null(answer.capacity)},
          {"capacity_of", answer.capacity_of}};
}

std::string fit_line(const RunAnswer& answer) {
  const std::string_view word = answer.deadlock ? "until then" : fits_word(answer);
  if (!answer.lines.empty() && !word.empty() && answer.lines.front().starts_with(fmt::format("{}: ", word)))
    return answer.lines.front();
  if (!answer.peak_reserved) return word.empty() ? "fits: not known, no memory was recorded" : std::string(word);
  const std::string peak = format_bytes(*answer.peak_reserved);
  if (!answer.capacity)
    return fmt::format("{}: {} reserved at the peak, and what the GPU has is in no profile and no trace",
                       word.empty() ? "fits: not known" : word, peak);
  const Bytes left = *answer.capacity - std::min(*answer.capacity, *answer.peak_reserved);
  if (answer.out_of_memory)
    return fmt::format("{}: {} of {} reserved until then", word, peak, format_bytes(*answer.capacity));
  return fmt::format(
      "{}: {} of {} reserved at the peak{}, {} ({:.0f} %) left", word, peak, format_bytes(*answer.capacity),
      answer.grew_last > 0 ? fmt::format(", {} of it new in the last step recorded", format_bytes(answer.grew_last))
                           : std::string(),
      format_bytes(printed_difference(*answer.capacity, *answer.capacity - left)),
      100 * static_cast<double>(left) / static_cast<double>(std::max<Bytes>(*answer.capacity, 1)));
}

Json fit_json(const RunAnswer& answer) {
  const bool known = answer.capacity && answer.peak_reserved;
  return {{"line", fit_line(answer)},
          {"fits", text_or_null(std::string(fits_word(answer)))},
          {"peak_reserved_bytes", answer.peak_reserved ? Json(*answer.peak_reserved) : Json(nullptr)},
          {"capacity_bytes", answer.capacity ? Json(*answer.capacity) : Json(nullptr)},
          {"capacity_of", text_or_null(answer.capacity_of)},
          {"headroom_bytes",
           known ? Json(*answer.capacity - std::min(*answer.capacity, *answer.peak_reserved)) : Json(nullptr)}};
}

std::string_view fits_word(const RunAnswer& answer) {
  if (answer.out_of_memory) return "out of memory";
  if (answer.deadlock) return "deadlocks";
  // Of lengths that are drawn: the stored step alone fits, and not the processes that its plan ran for their steps.
  if (!answer.lines.empty() && answer.lines.front().starts_with("does not fit: ")) return "does not fit";
  if (!answer.peak_reserved || !answer.capacity) return "";
  if (*answer.peak_reserved > *answer.capacity) return "does not fit";
  return answer.may_run_out_of_memory ? "may not fit" : "fits";
}

}  // namespace foreshard::cli
