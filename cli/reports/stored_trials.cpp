#include "cli/reports/stored_trials.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"

namespace foreshard::cli {
namespace {

/// An object of a plan's answers; null where there is none.
nlohmann::json stored(const Run& run, const char* key) {
  const auto kept = run.results.find(key);
  if (run.info.kind != RunKind::planned || kept == run.results.end()) return nullptr;
  nlohmann::json value = parse_json_text(kept->second);
  return value.is_object() ? value : nlohmann::json();
}

nlohmann::json member(const nlohmann::json& of, const char* name) {
  return of.is_object() && of.contains(name) ? of[name] : nlohmann::json();
}

/// 0 where it is no number.
double number(const nlohmann::json& of, const char* name) {
  const nlohmann::json value = member(of, name);
  return value.is_number() ? value.get<double>() : 0;
}

std::uint64_t count(const nlohmann::json& of, const char* name) {
  const nlohmann::json value = member(of, name);
  return value.is_number_unsigned() ? value.get<std::uint64_t>() : 0;
}

}  // namespace

std::optional<StoredTrials> stored_trials(const Run& run) {
  const nlohmann::json trials = stored(run, "trials");
  const nlohmann::json step = member(trials, "step_ms");
  if (!step.is_object()) return std::nullopt;
  StoredTrials out;
  out.trials = static_cast<std::uint32_t>(count(trials, "trials"));
  out.median_ms = number(step, "median");
  out.p95_ms = number(step, "p95");
  out.mean_ms = number(step, "mean");
  if (const nlohmann::json text = member(trials, "sentence"); text.is_string()) out.sentence = text.get<std::string>();
  const nlohmann::json lengths = member(trials, "lengths");
  const nlohmann::json interval = member(lengths, "interval");
  out.lengths = lengths.is_object();
  out.low_ms = number(interval, "low_ms");
  out.high_ms = number(interval, "high_ms");
  out.tokens_per_s_gpu = number(lengths, "tokens_per_s_per_gpu");
  return out;
}

std::optional<sim::SettledMemory> stored_settled_memory(const Run& run) {
  const nlohmann::json settled = stored(run, "settled_memory");
  if (count(settled, "reserved_bytes") == 0) return std::nullopt;
  sim::SettledMemory out;
  out.reserved = count(settled, "reserved_bytes");
  out.num_alloc_retries =
      static_cast<std::int64_t>(std::min<std::uint64_t>(count(settled, "num_alloc_retries"), 1U << 30));
  return out;
}

std::optional<sim::DrawnMemory> stored_drawn_memory(const Run& run) {
  const nlohmann::json drawn = stored(run, "drawn_memory");
  if (!drawn.is_object()) return std::nullopt;
  sim::DrawnMemory out;
  out.steps = count(drawn, "steps");
  out.processes = count(drawn, "processes");
  out.seed = count(drawn, "seed");
  const nlohmann::json peaks = member(drawn, "peak_reserved_bytes");
  out.least = count(peaks, "least");
  out.most = count(peaks, "most");
  out.out_of_memory = count(drawn, "out_of_memory");
  out.num_alloc_retries = static_cast<std::int64_t>(count(drawn, "num_alloc_retries"));
  out.driver_ms = number(drawn, "driver_ms");
  return out;
}

}  // namespace foreshard::cli
