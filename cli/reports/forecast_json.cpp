// A forecast as JSON and as comma-separated values.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/reports/forecast_report.hpp"
#include "cli/reports/json_values.hpp"

namespace foreshard::cli {
namespace {

using sim::SeedForecast;

Json growth_json(const SeedForecast& seed) {
  Json list = Json::array();
  for (const sim::GrowthStep& step : seed.growth)
    list.push_back({{"step", step.step},
                    {"length", step.length},
                    {"reserved_bytes", step.reserved},
                    {"segments", step.segments},
                    {"segment_bytes", step.bytes},
                    {"largest_segment_bytes", step.largest_segment},
                    {"request", step.request},
                    {"request_bytes", step.largest_request}});
  return list;
}

Json retries_json(const SeedForecast& seed) {
  Json list = Json::array();
  for (const sim::RetryStep& step : seed.retries)
    list.push_back({{"step", step.step},
                    {"length", step.length},
                    {"num_alloc_retries", step.retries},
                    {"num_device_free", step.released},
                    {"num_device_alloc", step.made},
                    {"request", step.request},
                    {"request_bytes", step.bytes},
                    {"served", step.served},
                    {"driver_ms", step.driver.ms()}});
  return list;
}

Json failure_json(const SeedForecast& seed) {
  if (!seed.out_of_memory) return nullptr;
  const sim::FailedStep& failed = *seed.out_of_memory;
  return {{"step", failed.before_first ? Json(nullptr) : Json(failed.step)},
          {"length", failed.before_first ? Json(nullptr) : Json(failed.length)},
          {"request", failed.request},
          {"requested_bytes", failed.report.requested},
          {"segment_bytes", failed.report.tried},
          {"allocated_bytes", failed.report.allocated},
          {"reserved_bytes", failed.report.reserved}};
}

Json outcome_json(const SeedForecast& seed) {
  return {{"seed", seed.seed},
          {"steps", seed.steps.size()},
          {"behind_recorded_first", seed.behind_recorded_first},
          {"peak_reserved_bytes", seed.peak_reserved()},
          {"peak_allocated_bytes", seed.peak_allocated()},
          {"last_growth", seed.last_growth() ? Json(*seed.last_growth()) : Json(nullptr)},
          {"num_alloc_retries", seed.num_alloc_retries()},
          {"num_device_alloc", seed.driver_allocations},
          {"num_device_free", seed.driver_frees},
          {"driver_ms", seed.driver_time.ms()},
          {"steps_giving_back", seed.steps_giving_back},
          {"first_retry", seed.first_retry() ? Json(*seed.first_retry()) : Json(nullptr)},
          {"out_of_memory", failure_json(seed)}};
}

/// Each number is the worst seed's of that number.
Json over_seeds_json(const sim::SeedsOutcome& over) {
  return {
      {"seeds", over.seeds},
      {"out_of_memory", over.out_of_memory},
      {"first_out_of_memory", over.out_of_memory > 0 && !over.before_first ? Json(over.lives_until) : Json(nullptr)},
      {"peak_reserved_bytes", over.peak_reserved},
      {"num_alloc_retries", over.num_alloc_retries},
      {"num_device_alloc", over.driver_allocations},
      {"num_device_free", over.driver_frees},
      {"driver_ms", over.driver_time.ms()},
      {"steps_giving_back", over.steps_giving_back},
      {"first_retry", over.first_retry ? Json(*over.first_retry) : Json(nullptr)}};
}

Json remedy_list_json(const std::vector<sim::ForecastRemedy>& remedies) {
  Json list = Json::array();
  for (const sim::ForecastRemedy& remedy : remedies) {
    Json one{{"setting", remedy.setting},
             {"pytorch", remedy.pytorch},
             {"reason", remedy.reason},
             {"alone", remedy.alone},
             {"saving_bytes", remedy.saving},
             {"saving_steps", remedy.steps_more},
             {"saving_retries", remedy.retries_less},
             {"more_tokens", remedy.more_tokens},
             {"more_step_ms", remedy.step_ms_more ? Json(*remedy.step_ms_more) : Json(nullptr)},
             {"saving_ms", remedy.saved_ms},
             {"net_ms", remedy.net_ms}};
    one["over_seeds"] = over_seeds_json(remedy.over_all);
    one.update(outcome_json(remedy.outcome));
    list.push_back(std::move(one));
  }
  return list;
}

Json remedies_json(const sim::ForecastRemedies& remedies) {
  return {{"seed", remedies.seed},
          {"steps_tried", remedies.steps_tried},
          {"over_seeds", over_seeds_json(remedies.before)},
          {"tried", remedies.tried},
          {"useless", remedies.useless},
          {"impossible", remedies.impossible},
          {"not_valid", remedies.doubts},
          {"useful", remedy_list_json(remedies.useful)},
          {"too_dear", remedy_list_json(remedies.too_dear)}};
}

Json settings_json(const ForecastReport& report) {
  return {{"pad", report.pad},
          {"empty_cache", report.empty_cache > 0 ? Json(report.empty_cache) : Json(nullptr)},
          {"between", report.between.empty() ? Json(nullptr) : Json(report.between)},
          {"alloc_conf", report.alloc_conf},
          {"distinct_lengths", report.distinct_lengths}};
}

/// Quantiles of the seeds that do; null where none does.
Json steps_json(const StepsOfSeeds& steps, const ForecastReport& report) {
  const auto at = [&](double share) { return steps.steps.empty() ? Json(nullptr) : Json(steps.of_share(share)); };
  return {{"seeds", steps.steps.size()},
          {"probability", static_cast<double>(steps.steps.size()) / static_cast<double>(report.seeds.size())},
          {"least", at(0)},
          {"p5", at(0.05)},
          {"median", at(0.5)},
          {"p95", at(0.95)},
          {"most", at(1)}};
}

Json alone_json(const ForecastReport& report) {
  if (!report.alone) return nullptr;
  return {{"seed", report.alone->seed},
          {"length", report.alone->length},
          {"steps", report.alone->steps},
          {"fits", report.alone->fits},
          {"num_alloc_retries", report.alone->num_alloc_retries},
          {"longest_length", report.alone->longest ? Json(*report.alone->longest) : Json(nullptr)}};
}

}  // namespace

Json forecast_json(const ForecastReport& report) {
  Json json = json_result("forecast");
  json["answer"] = forecast_answer(report);
  json["source"] = report.source;
  json["name"] = report.name;
  json["model_options"] = text_or_null(report.model_options);
  json["left_out"] = report.left_out;
  json["machine"] = report.machine;
  json["lengths"] = report.lengths_text;
  json["lengths_in_list"] = report.lengths.drawn() ? Json(nullptr) : Json(report.lengths.size());
  json["steps"] = report.steps;
  json["settings"] = settings_json(report);
  json["memory_limit_bytes"] = report.limit ? Json(*report.limit) : Json(nullptr);
  json["memory_limit_is"] = "set_per_process_memory_fraction";
  json["memory_capacity_bytes"] = report.capacity;
  json["out_of_memory"] = runs_out_of_memory(report);
  json["peak_reserved_bytes"] = {{"least", peak_of_share(report, 0)},
                                 {"p5", peak_of_share(report, 0.05)},
                                 {"median", peak_of_share(report, 0.5)},
                                 {"p95", peak_of_share(report, 0.95)},
                                 {"most", peak_of_share(report, 1)}};
  json["first_retry"] = steps_json(first_retries(report), report);
  json["first_out_of_memory"] = steps_json(failures(report), report);
  json["alone"] = alone_json(report);
  Json seeds = Json::array();
  for (const SeedForecast& seed : report.seeds) {
    Json one = outcome_json(seed);
    one["growth"] = growth_json(seed);
    one["retries"] = retries_json(seed);
    seeds.push_back(std::move(one));
  }
  json["seeds"] = std::move(seeds);
  json["remedies"] = report.remedies ? remedies_json(*report.remedies) : Json(nullptr);
  json["valid"] = report.not_valid.empty();
  json["not_valid"] = report.not_valid;
  json["notes"] = report.notes;
  json["warnings"] = report.warnings;
  return json;
}

std::string forecast_csv(const ForecastReport& report) {
  std::string out =
      "seed,step,length,reserved_bytes,peak_reserved_bytes,peak_allocated_bytes,num_alloc_retries,out_of_memory\n";
  for (const SeedForecast& seed : report.seeds) {
    const auto add = [&](std::size_t step, const sim::StepUse& use, bool failed) {
      out += fmt::format("{},{},{},{},{},{},{},{}\n", seed.seed, step, report.lengths.at(seed.seed, step), use.reserved,
                         use.peak_reserved, use.peak_allocated, use.retries, failed ? 1 : 0);
    };
    for (std::size_t step = 0; step < seed.steps.size(); ++step) add(step, seed.steps[step], false);
    if (seed.out_of_memory && !seed.out_of_memory->before_first)
      add(seed.out_of_memory->step, seed.out_of_memory->use, true);
  }
  return out;
}

}  // namespace foreshard::cli
