#include "cli/reports/flapping_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/reports/plan_answer.hpp"
#include "core/base/json_io.hpp"
#include "core/base/units.hpp"
#include "sim/predict/throughput.hpp"

namespace foreshard::cli {
namespace {

/// "adapter 1.3 is down for 200 ms of every 2 s".
std::string flap_words(const sim::FlappingLink& link) {
  const bool several = link.kind == sim::FlappingLink::Kind::uplinks;
  const std::string how = link.left > 0 ? fmt::format("{} {:.3g} % of {} bytes", several ? "carry" : "carries",
                                                      100 * link.left, several ? "their" : "its")
                                        : std::string(several ? "are down" : "is down");
  return fmt::format("{} {} for {} of every {}", words(link), how, format_time(link.down), format_time(link.period));
}

std::string flap_words(const std::vector<sim::FlappingLink>& links) {
  std::string out;
  for (std::size_t i = 0; i < links.size(); ++i)
    out += (i == 0 ? "" : i + 1 < links.size() ? ", " : " and ") + flap_words(links[i]);
  return out;
}

/// "adapter 1.3 and adapter 2.0".
std::string link_words(const std::vector<sim::FlappingLink>& links) {
  std::vector<std::string> out;
  for (const sim::FlappingLink& link : links) out.push_back(words(link));
  return fmt::format("{}", fmt::join(out, " and "));
}

Json link_json(const sim::FlappingLink& link) {
  Json json = {{"link", words(link)}};
  json[link.kind == sim::FlappingLink::Kind::adapter ? "node" : "leaf"] = link.place;
  if (link.kind == sim::FlappingLink::Kind::adapter) json["adapter"] = link.adapter;
  json.update({{"down_ms", link.down.ms()}, {"period_ms", link.period.ms()}, {"left", link.left}});
  return json;
}

std::string end_words(const sim::FlappingLink& link) {
  return fmt::format(
      "ends with an error: {}, and NCCL's transport gives up after {} (7 retries of 4.096 us x 2^20: "
      "NCCL_IB_RETRY_CNT, NCCL_IB_TIMEOUT)",
      flap_words(link), format_time(sim::kTransportGivesUp));
}

/// Of one GPU over a run in which links flap; 0 where the batch is not known.
double rate_of_run(const sim::Prediction& p) {
  return sim::work_per_second(p.work, p.flapping->step_ms.mean);
}

}  // namespace

std::string flapping_line(const sim::Prediction& p) {
  const sim::FlappingTimes& flapping = *p.flapping;
  if (flapping.job_end) return end_words(flapping.job_end->link);
  const bool loses_all = std::any_of(flapping.links.begin(), flapping.links.end(),
                                     [](const sim::FlappingLink& link) { return link.left == 0; });
  const bool several = flapping.links.size() > 1;
  const double longer = flapping.step_ms.mean - flapping.without_ms;
  const double rate = rate_of_run(p);
  const std::string at =
      rate > 0 ? fmt::format(": {}{:.0f} {}", loses_all ? "at most " : "", rate, rate_unit(p.run.settings))
               : std::string();
  return fmt::format(
      "while {} the step takes {}{:.2f} ms in the mean of a run, {:.2f} ms ({:.1f} %) more than without{}; {:.2f} ms "
      "in the median, up to {:.2f} ms in 95 % of the steps, {:.2f} ms in the longest; an outage costs {:.2f} ms{} "
      "({} trials of {}{} steps, seed {})",
      flap_words(flapping.links), loses_all ? "at least " : "", flapping.step_ms.mean, longer,
      flapping.without_ms > 0 ? 100 * longer / flapping.without_ms : 0, at, flapping.step_ms.median,
      flapping.step_ms.p95, flapping.step_ms.most, flapping.outage_costs, several ? " on average" : "", flapping.trials,
      several ? "up to " : "", flapping.steps, flapping.seed);
}

std::vector<std::string> link_end_lines(const sim::Prediction& p) {
  const sim::JobEnd& end = *p.flapping->job_end;
  const std::string when =
      end.within ? fmt::format(", at most {:.1f} s after the job began with it up", end.within->ms() / 1e3)
                 : std::string("; an outage in whose beginning no collective moves it may outlive");
  return {flapping_line(p),
          fmt::format("that is {} after the first collective that an outage stops{}; up to {:.2f} GPU hours of {} GPUs "
                      "are lost, and what was not in a checkpoint",
                      format_time(sim::kTransportGivesUp), when, end.gpu_seconds / 3600, p.run.settings.world())};
}

Json flapping_json(const sim::Prediction& p) {
  if (!p.flapping) return nullptr;
  const sim::FlappingTimes& flapping = *p.flapping;
  Json json = flapping.links.size() == 1 ? link_json(flapping.links[0]) : Json{{"link", link_words(flapping.links)}};
  json["links"] = Json::array();
  for (const sim::FlappingLink& link : flapping.links) json["links"].push_back(link_json(link));
  json.update({{"job_ends", flapping.job_end.has_value()},
               {"ends_within_ms", nullptr},
               {"gpu_seconds_lost", nullptr},
               {"transport_gives_up_ms", sim::kTransportGivesUp.ms()},
               {"seed", flapping.seed},
               {"trials", flapping.trials},
               {"steps", flapping.steps},
               {"without_ms", nullptr},
               {"step_ms", nullptr},
               {"tokens_per_s_per_gpu", nullptr},
               {"outage_costs_ms", nullptr}});
  if (const std::optional<sim::JobEnd>& end = flapping.job_end) {
    if (end->within) json["ends_within_ms"] = end->within->ms();
    json["gpu_seconds_lost"] = end->gpu_seconds;
  } else {
    const sim::Distribution& of = flapping.step_ms;
    json["without_ms"] = flapping.without_ms;
    json["step_ms"] = {{"median", of.median}, {"p95", of.p95}, {"mean", of.mean}, {"min", of.least}, {"max", of.most}};
    if (const double rate = rate_of_run(p); rate > 0) json["tokens_per_s_per_gpu"] = rate;
    json["outage_costs_ms"] = flapping.outage_costs;
  }
  json["sentence"] = flapping_line(p);
  return json;
}

Json stored_flapping(const Run& run) {
  const auto kept = run.results.find("flapping");
  return kept == run.results.end() ? Json(nullptr) : parse_ordered_json_text(kept->second);
}

}  // namespace foreshard::cli
