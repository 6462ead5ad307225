#include "cli/reports/growth_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/reports/counted.hpp"
#include "cli/reports/stored_trials.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/units.hpp"
#include "core/run/block_names.hpp"
#include "core/timeline/allocator_waits.hpp"

namespace foreshard::cli {
namespace {

using Align = Table::Align;

constexpr std::size_t kGrowthRows = 12;  // of a table; --json has all

/// Of a plan whose driver's calls take time, as of a recording, the times of its entries have what a retry took.
bool has_prices(const GrowthReport& report) {
  return report.run.info.kind != RunKind::planned || has_simulated_calls(report.run);
}

std::string request_name(const Run& run, const BlockNames& names, BlockId block) {
  return block.value < run.blocks.size() ? names.title(run.blocks[block.value]) : std::string("not recorded");
}

Bytes request_bytes(const Run& run, BlockId block) {
  return block.value < run.blocks.size() ? run.blocks[block.value].requested : 0;
}

/// "in step 40"
std::string in_step(std::int32_t step) {
  return step < 0 ? "before the first step" : fmt::format("in step {}", step);
}

std::string step_name(std::int32_t step) {
  return step < 0 ? "before" : std::to_string(step);
}

std::string length_of(const GrowthReport& report, std::int32_t step) {
  const auto place = static_cast<std::size_t>(step);
  return step >= 0 && place < report.lengths.size() && report.lengths[place] > 0 ? std::to_string(report.lengths[place])
                                                                                 : std::string("-");
}

/// Those of one step's growth, the largest.
const GrownSegment* largest_of(const GrowthReport& report, const GrowthOfStep& step) {
  const GrownSegment* largest = nullptr;
  for (const std::size_t place : step.segments) {
    const GrownSegment& segment = report.growth.segments[place];
    if (largest == nullptr || segment.bytes > largest->bytes) largest = &segment;
  }
  return largest;
}

void print_steps(std::ostream& out, const GrowthReport& report, const BlockNames& names) {
  out << "\nsteps that made reserved memory grow\n";
  Table table({{"step", Align::right},
               {"length", Align::right},
               {"reserved", Align::right},
               {"new segments", Align::right},
               {"of", Align::right},
               {"since released", Align::right},
               {"free then", Align::right},
               {"the largest one's request"}});
  const std::size_t shown = std::min(report.growth.steps.size(), kGrowthRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const GrowthOfStep& step = report.growth.steps[i];
    Bytes bytes = 0;
    Bytes unused = 0;
    std::size_t released = 0;
    for (const std::size_t place : step.segments) {
      const GrownSegment& segment = report.growth.segments[place];
      bytes += segment.bytes;
      unused += segment.unused;
      released += segment.released ? 1 : 0;
    }
    const GrownSegment* largest = largest_of(report, step);
    table.row({step_name(step.step), length_of(report, step.step), format_bytes_fixed(step.reserved),
               std::to_string(step.segments.size()), format_bytes_fixed(bytes), std::to_string(released),
               format_bytes_fixed(unused),
               largest == nullptr ? std::string()
                                  : fmt::format("{} for {}", request_name(report.run, names, largest->request),
                                                format_bytes(request_bytes(report.run, largest->request)))});
  }
  table.print(out);
  if (shown < report.growth.steps.size())
    out << fmt::format("and {} more; --json has all\n", report.growth.steps.size() - shown);
}

void print_lost(std::ostream& out, const GrowthReport& report, const BlockNames& names) {
  const std::vector<GrownSegment>& all = report.growth.segments;
  std::vector<std::size_t> order(all.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return all[a].unused > all[b].unused; });
  order.resize(static_cast<std::size_t>(
      std::find_if(order.begin(), order.end(), [&](std::size_t i) { return all[i].unused == 0; }) - order.begin()));
  if (order.empty()) return;
  out << "\nsegments with most of what is free then\n";
  Table table({{"made in step", Align::right}, {"bytes", Align::right}, {"free", Align::right}, {"made for"}});
  const std::size_t shown = std::min(order.size(), kGrowthRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const GrownSegment& segment = all[order[i]];
    table.row({step_name(segment.step), format_bytes_fixed(segment.bytes), format_bytes_fixed(segment.unused),
               fmt::format("{} for {}", request_name(report.run, names, segment.request),
                           format_bytes(request_bytes(report.run, segment.request)))});
  }
  table.print(out);
  if (shown < order.size()) out << fmt::format("and {} more; --json has all\n", order.size() - shown);
}

void print_retries(std::ostream& out, const GrowthReport& report, const BlockNames& names) {
  if (report.growth.retries.empty()) return;
  out << "\nrequests for which segments were given back\n";
  Table table({{"step", Align::right},
               {"length", Align::right},
               {"cudaFree", Align::right},
               {"of", Align::right},
               {"cudaMalloc", Align::right},
               {"host time", Align::right},
               {"before", Align::right},
               {"wait", Align::right},
               {"rest", Align::right},
               {"request"}});
  const std::size_t shown = std::min(report.growth.retries.size(), kGrowthRows);
  for (std::size_t i = 0; i < shown; ++i) {
    const GrowthRetry& retry = report.growth.retries[i];
    const auto price = [&](Nanoseconds time) { return has_prices(report) ? format_time(time) : std::string("-"); };
    table.row({step_name(retry.step), length_of(report, retry.step), std::to_string(retry.released),
               format_bytes_fixed(retry.released_bytes), std::to_string(retry.made),
               has_prices(report) ? format_time(retry.took.all()) : std::string("not simulated"),
               price(retry.took.before), price(retry.took.wait), price(retry.took.rest),
               retry.failed ? fmt::format("out of memory, for {}", format_bytes(retry.requested))
                            : fmt::format("{} for {}", request_name(report.run, names, retry.request),
                                          format_bytes(retry.requested))});
  }
  table.print(out);
  if (shown < report.growth.retries.size())
    out << fmt::format("and {} more; --json has all\n", report.growth.retries.size() - shown);
}

/// Of the record of memory: a profiler's steps lie among them, and are counted anew.
std::size_t steps_of_record(const Run& run) {
  return static_cast<std::size_t>(std::count_if(
      run.steps.begin(), run.steps.end(), [](const StepRecord& step) { return step.recording != Recording::trace; }));
}

RetryPrice all_retries(const Growth& growth) {
  RetryPrice sum;
  for (const GrowthRetry& retry : growth.retries) sum += retry.took;
  return sum;
}

std::string price_words(const RetryPrice& price) {
  const std::string all = fmt::format("took {} of the host", format_time(price.all()));
  if (price.wait.count == 0) return all;  // of pages
  return all + fmt::format(", {} of it from each one's first cudaFree, which waits for the GPU, to the next entry",
                           format_time(price.wait));
}

}  // namespace

std::string growth_answer(const GrowthReport& report) {
  const Growth& growth = report.growth;
  std::string text = growth.steps.empty()
                         ? fmt::format("reserved does not grow in the record, at {}", format_bytes(growth.reserved))
                         : fmt::format("reserved last grows {}, to {}", in_step(growth.steps.back().step),
                                       format_bytes(growth.reserved));
  const Bytes unused = growth.most_used.reserved - std::min(growth.most_used.reserved, growth.most_used.allocated);
  text += fmt::format("; from then on no more than {} are allocated, {} of {} are free even so",
                      format_bytes(growth.most_used.allocated), format_bytes(unused),
                      format_bytes(growth.most_used.reserved));
  if (!growth.retries.empty())
    text += fmt::format("; {} {}", counted(static_cast<std::int64_t>(growth.retries.size()), "retry", "retries"),
                        has_prices(report) ? price_words(all_retries(growth)) : "whose price is not simulated");
  if (const auto settled = stored_settled_memory(report.run); settled && settled->reserved > growth.reserved)
    text += fmt::format("; of these steps alone: a longer run comes to {} (plan)", format_bytes(settled->reserved));
  return text;
}

void print_growth(std::ostream& out, const GrowthReport& report) {
  const BlockNames names(report.run);
  out << growth_answer(report) << '\n'
      << in_line(report.run.info.name)
      << fmt::format(", {} steps; from then on most is allocated {}; free then is what even that step does not need\n",
                     steps_of_record(report.run), in_step(report.growth.most_used.step));
  print_steps(out, report, names);
  print_lost(out, report, names);
  print_retries(out, report, names);
}

Json growth_json(const GrowthReport& report) {
  const BlockNames names(report.run);
  const Growth& growth = report.growth;
  Json json = json_result("explain");
  json["run"] = report.path;
  json["name"] = report.run.info.name;
  json["answer"] = growth_answer(report);
  json["peak_reserved_bytes"] = growth.reserved;
  json["last_growth"] = growth.steps.empty() ? Json(nullptr) : Json(growth.steps.back().step);
  json["most_used"] = {{"step", growth.most_used.step},
                       {"time_ns", growth.most_used.time.count},
                       {"allocated_bytes", growth.most_used.allocated},
                       {"reserved_bytes", growth.most_used.reserved}};
  Json steps = Json::array();
  for (const GrowthOfStep& step : growth.steps)
    steps.push_back({{"step", step.step}, {"peak_reserved_bytes", step.reserved}, {"segments", step.segments}});
  json["steps"] = std::move(steps);
  Json segments = Json::array();
  for (const GrownSegment& segment : growth.segments)
    segments.push_back({{"step", segment.step},
                        {"bytes", segment.bytes},
                        {"stream", segment.stream.value},
                        {"expandable", segment.expandable},
                        {"request", request_name(report.run, names, segment.request)},
                        {"request_bytes", request_bytes(report.run, segment.request)},
                        {"released", segment.released ? Json(*segment.released) : Json(nullptr)},
                        {"unused_bytes", segment.unused}});
  json["segments"] = std::move(segments);
  Json retries = Json::array();
  const auto price = [&](Nanoseconds time) { return has_prices(report) ? Json(time.count) : Json(nullptr); };
  for (const GrowthRetry& retry : growth.retries)
    retries.push_back({{"step", retry.step},
                       {"request", request_name(report.run, names, retry.request)},
                       {"request_bytes", retry.requested},
                       {"num_device_free", retry.released},
                       {"released_bytes", retry.released_bytes},
                       {"num_device_alloc", retry.made},
                       {"host_ns", price(retry.took.all())},
                       {"before_ns", price(retry.took.before)},
                       {"wait_ns", price(retry.took.wait)},
                       {"rest_ns", price(retry.took.rest)},
                       {"out_of_memory", retry.failed}});
  json["retries"] = std::move(retries);
  json["odd_events"] = growth.odd_events;
  return json;
}

}  // namespace foreshard::cli
