#include "cli/reports/trial_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/predict/interval.hpp"
#include "sim/predict/throughput.hpp"

namespace foreshard::cli {
namespace {

Json distribution_json(const sim::Distribution& of) {
  return {{"median", of.median}, {"p95", of.p95}, {"mean", of.mean}, {"min", of.least}, {"max", of.most}};
}

/// Of how many trials, in percent.
double share(const sim::LastRank& rank, const sim::TrialTimes& trials) {
  return 100.0 * rank.trials / static_cast<double>(trials.steps_ms.size());
}

/// Of a rank, by Resource.
constexpr std::array<const char*, sim::kResources> kOf{"a GPU", "a host", "NVLink", "the network"};

/// Trials by what held up the rank that was waited for longest, most first: "a GPU in 93, a host in 7 of 100".
std::string resources(const std::array<std::uint32_t, sim::kResources>& trials) {
  std::uint32_t all = 0;
  for (const std::uint32_t of : trials) all += of;
  std::vector<std::size_t> order;
  for (std::size_t i = 0; i < trials.size(); ++i)
    if (trials[i] > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return trials[a] > trials[b]; });
  std::string out;
  for (const std::size_t i : order) out += fmt::format("{}{} in {}", out.empty() ? "" : ", ", kOf[i], trials[i]);
  return out + fmt::format(" of {}", all);
}

std::array<std::uint32_t, sim::kResources> trials_by_resource(const sim::LastRank& rank) {
  std::array<std::uint32_t, sim::kResources> out{};
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = rank.by[i].trials;
  return out;
}

/// Of all ranks.
std::array<std::uint32_t, sim::kResources> trials_by_resource(const sim::TrialTimes& trials) {
  std::array<std::uint32_t, sim::kResources> out{};
  for (const sim::LastRank& rank : trials.last)
    for (std::size_t i = 0; i < out.size(); ++i) out[i] += rank.by[i].trials;
  return out;
}

std::string blame(const sim::TrialTimes& trials) {
  if (trials.last.empty()) return "no rank waits for another";
  const sim::LastRank& most = trials.last.front();
  return fmt::format(
      "{}rank {} is waited for longest in {:.0f} % of the trials; whoever is waited for is held up most by {}",
      trials.only_chance ? "nothing but chance tells the ranks apart: " : "", most.rank, share(most, trials),
      resources(trials_by_resource(trials)));
}

Json resources_json(const sim::LastRank& rank) {
  Json out = Json::array();
  for (std::size_t i = 0; i < rank.by.size(); ++i)
    if (rank.by[i].trials > 0 || rank.by[i].awaited_ms > 0)
      out.push_back({{"resource", foreshard::name(static_cast<sim::Resource>(i))},
                     {"trials", rank.by[i].trials},
                     {"awaited_ms", rank.by[i].awaited_ms}});
  return out;
}

Json lengths_json(const sim::TrialTimes& trials) {
  if (!trials.lengths) return nullptr;
  const sim::LengthTimes& of = *trials.lengths;
  return {{"lengths", of.said},
          {"different", of.count},
          {"min", of.least},
          {"max", of.longest},
          {"mean", of.mean},
          {"interval", {{"share", sim::kIntervalShare}, {"low_ms", of.low_ms}, {"high_ms", of.high_ms}}},
          {"equal_length", of.equal},
          {"equal_step_ms", of.equal_step_ms},
          {"costs_ms", trials.step_ms.mean - of.equal_step_ms},
          {"tokens_per_s_per_gpu", sim::work_per_second(of.work, trials.step_ms.mean)},
          {"tokens_per_s_per_gpu_of_equal", sim::work_per_second(of.work, of.equal_step_ms)}};
}

}  // namespace

std::string lengths_line(const sim::TrialTimes& trials) {
  const sim::LengthTimes& of = *trials.lengths;
  const sim::Distribution& step = trials.step_ms;
  const double costs = step.mean - of.equal_step_ms;
  const double rate = sim::work_per_second(of.work, step.mean);
  const double equal = sim::work_per_second(of.work, of.equal_step_ms);
  const std::string jitter =
      trials.jitter == sim::Jitter{} ? "" : fmt::format(" with jitter ({})", text_of(trials.jitter));
  const char* beside = jitter.empty() ? "" : " and jitter";
  return fmt::format(
      "with lengths drawn for each rank and step ({}: {} to {} tokens, {:.1f} in the mean of those drawn) a step takes "
      "{:.2f} ms {}{} in the mean of {} trials, {:.2f} ms in the median and up to {:.2f} ms in 95 % of them: {:.0f} "
      "tokens/s/GPU of the tokens drawn; unequal lengths{} cost {:.2f} ms of it ({:.1f} %): with {} tokens in every "
      "sample{} it takes {:.2f} ms, {:.0f} tokens/s/GPU of as many tokens; GPUs wait for other ranks for {:.2f} ms in "
      "the mean",
      of.said, of.least, of.longest, of.mean, step.mean, interval_words(of.low_ms, of.high_ms), jitter,
      trials.steps_ms.size(), step.median, step.p95, rate, beside, costs, step.mean > 0 ? 100 * costs / step.mean : 0,
      of.equal, jitter.empty() ? "" : ", and no jitter,", of.equal_step_ms, equal, trials.waiting_ms.mean);
}

std::string interval_words(double low_ms, double high_ms) {
  const auto end_of = [](double ms) { return fmt::format("{:.{}f}", ms, ms >= 1000 ? 0 : ms >= 100 ? 1 : 2); };
  return fmt::format("({} to {})", end_of(low_ms), end_of(high_ms));
}

std::string if_longest(std::uint32_t longest) {
  return longest > 0 ? fmt::format("if all samples had {} tokens: ", longest) : std::string();
}

std::string trials_line(const sim::TrialTimes& trials, double step_ms) {
  const double longer = trials.step_ms.median - step_ms;
  return fmt::format(
      "with jitter ({}) the step takes {:.2f} ms in the median of {} trials, {:.2f} ms ({:.1f} %) {} than without, and "
      "up to {:.2f} ms in 95 % of them; GPUs wait for other ranks for {:.2f} ms in the median; {}",
      sim::text_of(trials.jitter), trials.step_ms.median, trials.steps_ms.size(), std::abs(longer),
      step_ms > 0 ? 100 * std::abs(longer) / step_ms : 0, longer < 0 ? "less" : "more", trials.step_ms.p95,
      trials.waiting_ms.median, blame(trials));
}

void print_trials(std::ostream& out, const sim::TrialTimes& trials) {
  constexpr auto kRight = Table::Align::right;
  constexpr std::size_t kNamed = 8;
  Table times({{fmt::format("{} trials, seed {}, ms", trials.steps_ms.size(), trials.seed)},
               {"median", kRight},
               {"95 %", kRight},
               {"mean", kRight},
               {"min", kRight},
               {"max", kRight}});
  const auto row = [&](const char* what, const sim::Distribution& of) {
    std::vector<std::string> cells{what};
    for (const double value : {of.median, of.p95, of.mean, of.least, of.most})
      cells.push_back(fmt::format("{:.2f}", value));
    times.row(std::move(cells));
  };
  row("step", trials.step_ms);
  row("GPUs wait for other ranks", trials.waiting_ms);
  out << '\n';
  times.print(out);
  if (trials.last.empty()) return;
  Table last({{"waited for longest", kRight},
              {"trials", kRight},
              {"", kRight},
              {"a rank's collectives stand", kRight},
              {"held up most by"}});
  for (std::size_t i = 0; i < std::min(kNamed, trials.last.size()); ++i) {
    const sim::LastRank& rank = trials.last[i];
    last.row({fmt::format("rank {}", rank.rank), std::to_string(rank.trials),
              fmt::format("{:.0f} %", share(rank, trials)), milliseconds(rank.awaited_ms),
              resources(trials_by_resource(rank))});
  }
  out << '\n';
  last.print(out);
  if (trials.last.size() > kNamed) out << fmt::format("and {} more ranks\n", trials.last.size() - kNamed);
}

Json trials_json(const sim::TrialTimes& trials, double step_ms) {
  Json json = {{"jitter", sim::text_of(trials.jitter)},
               {"seed", trials.seed},
               {"trials", trials.steps_ms.size()},
               {"step_ms", distribution_json(trials.step_ms)},
               {"waiting_ms", distribution_json(trials.waiting_ms)},
               {"only_chance", trials.only_chance},
               {"lengths", lengths_json(trials)}};
  json["last"] = Json::array();
  for (const sim::LastRank& rank : trials.last)
    json["last"].push_back({{"rank", rank.rank},
                            {"trials", rank.trials},
                            {"awaited_ms", rank.awaited_ms},
                            {"resources", resources_json(rank)}});
  json["resources"] = Json::array();
  const auto by_resource = trials_by_resource(trials);
  for (std::size_t i = 0; i < by_resource.size(); ++i)
    if (by_resource[i] > 0)
      json["resources"].push_back(
          {{"resource", foreshard::name(static_cast<sim::Resource>(i))}, {"trials", by_resource[i]}});
  json["steps_ms"] = trials.steps_ms;
  json["sentence"] = trials.lengths ? lengths_line(trials) : trials_line(trials, step_ms);
  return json;
}

}  // namespace foreshard::cli
