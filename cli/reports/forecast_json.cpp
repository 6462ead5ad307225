// A forecast as JSON and as comma-separated values.

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/reports/forecast_report.hpp"

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
                    {"request_bytes", step.bytes}});
  return list;
}

Json failure_json(const SeedForecast& seed) {
  if (!seed.out_of_memory) return nullptr;
  const sim::FailedStep& failed = *seed.out_of_memory;
  return {{"step", failed.step},
          {"length", failed.length},
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
          {"first_retry", seed.first_retry() ? Json(*seed.first_retry()) : Json(nullptr)},
          {"out_of_memory", failure_json(seed)}};
}

Json remedies_json(const sim::ForecastRemedies& remedies) {
  Json list = Json::array();
  for (const sim::ForecastRemedy& remedy : remedies.useful) {
    Json one{{"setting", remedy.setting},
             {"pytorch", remedy.pytorch},
             {"reason", remedy.reason},
             {"saving_bytes", remedy.saving},
             {"more_tokens", remedy.more_tokens}};
    one.update(outcome_json(remedy.outcome));
    list.push_back(std::move(one));
  }
  return {{"seed", remedies.seed},
          {"tried", remedies.tried},
          {"useless", remedies.useless},
          {"impossible", remedies.impossible},
          {"useful", std::move(list)}};
}

}  // namespace

Json forecast_json(const ForecastReport& report) {
  Json json = json_result("forecast");
  json["answer"] = forecast_answer(report);
  json["source"] = report.source;
  json["name"] = report.name;
  json["machine"] = report.machine;
  json["lengths"] = report.lengths_text;
  json["lengths_in_list"] = report.lengths.drawn() ? Json(nullptr) : Json(report.lengths.size());
  json["steps"] = report.steps;
  json["memory_limit_bytes"] = report.limit ? Json(*report.limit) : Json(nullptr);
  json["memory_capacity_bytes"] = report.capacity;
  json["out_of_memory"] = runs_out_of_memory(report);
  json["peak_reserved_bytes"] = {{"least", peak_of_share(report, 0)},
                                 {"p5", peak_of_share(report, 0.05)},
                                 {"median", peak_of_share(report, 0.5)},
                                 {"p95", peak_of_share(report, 0.95)},
                                 {"most", peak_of_share(report, 1)}};
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
  std::string out = "seed,step,length,reserved_bytes,peak_reserved_bytes,peak_allocated_bytes,num_alloc_retries\n";
  for (const SeedForecast& seed : report.seeds)
    for (std::size_t step = 0; step < seed.steps.size(); ++step) {
      const sim::StepUse& use = seed.steps[step];
      out += fmt::format("{},{},{},{},{},{},{}\n", seed.seed, step, report.lengths.at(seed.seed, step), use.reserved,
                         use.peak_reserved, use.peak_allocated, use.retries);
    }
  return out;
}

}  // namespace foreshard::cli
