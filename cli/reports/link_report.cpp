#include "cli/reports/link_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/terminal/printable.hpp"

namespace foreshard::cli {
namespace {

using Align = Table::Align;

std::string share(Nanoseconds time, const TimeExplanation& step) {
  return step.length().count > 0 ? fmt::format("{:.1f} %", 100 * time.ms() / step.length().ms()) : "";
}

std::string rate(double gb_s) {
  return fmt::format("{:.1f} GB/s", gb_s);
}

Json load_json(const LinkLoad& link, Nanoseconds from, Nanoseconds to) {
  Json load = Json::array();
  for (const LoadStretch& stretch : load_over_time(link))
    if (stretch.begin < to && stretch.end > from)
      load.push_back({std::max(stretch.begin, from).count, std::min(stretch.end, to).count, stretch.gb_s});
  return load;
}

}  // namespace

Json links_json(const RunLinks& links, const TimeExplanation& step, bool whole) {
  constexpr Nanoseconds kFirst{INT64_MIN}, kLast{INT64_MAX};
  Json json = {{"machine", links.loads.machine}, {"notes", links.notes},   {"not_placed", links.loads.not_placed},
               {"full_share", kFullLink},        {"links", Json::array()}, {"slow", Json::array()}};
  for (const LinkLoad& link : links.loads.links) {
    const LinkUse use = link_use(link, step);
    json["links"].push_back({{"link", name(link.link)},
                             {"title", title(link.link)},
                             {"most_gb_s", link.most},
                             {"bytes", use.bytes},
                             {"mean_gb_s", use.mean_gb_s},
                             {"peak_gb_s", use.peak_gb_s},
                             {"busy_ns", use.busy.count},
                             {"full_ns", use.full.count},
                             {"waited_ns", use.waited.count},
                             {"waited_idle_ns", use.waited_idle.count},
                             {"load", load_json(link, whole ? kFirst : step.begin, whole ? kLast : step.end)}});
  }
  for (const SlowLinkLoad& slow : links.slow) {
    const LinkUse use = link_use(slow.load, step);
    json["slow"].push_back({{"name", slow.name},
                            {"rank", slow.rank},
                            {"link", name(slow.load.link)},
                            {"most_gb_s", slow.load.most},
                            {"bytes", use.bytes},
                            {"mean_gb_s", use.mean_gb_s},
                            {"peak_gb_s", use.peak_gb_s},
                            {"busy_ns", use.busy.count},
                            {"full_ns", use.full.count}});
  }
  return json;
}

void print_links(std::ostream& out, const RunLinks& links, const TimeExplanation& step, std::string_view step_name) {
  if (links.loads.links.empty()) return;
  out << fmt::format("\nwhat the {} puts on its GPU's links (one direction, rates of {})\n", step_name,
                     links.loads.machine);
  Table table({{"link"},
               {"a step", Align::right},
               {"mean", Align::right},
               {"peak", Align::right},
               {"carries", Align::right},
               {"busy", Align::right},
               {fmt::format("over {:.0f} %", 100 * kFullLink), Align::right},
               {"waited for", Align::right},
               {"of it idle", Align::right}});
  for (const LinkLoad& link : links.loads.links) {
    const LinkUse use = link_use(link, step);
    table.row({std::string(title(link.link)), fmt::format("{:.2f} GB", use.bytes / 1e9), rate(use.mean_gb_s),
               rate(use.peak_gb_s), rate(link.most), share(use.busy, step), share(use.full, step),
               share(use.waited, step), share(use.waited_idle, step)});
  }
  for (const SlowLinkLoad& slow : links.slow) {
    const LinkUse use = link_use(slow.load, step);
    table.row({fmt::format("{} (rank {})", slow.name, slow.rank), fmt::format("{:.2f} GB", use.bytes / 1e9),
               rate(use.mean_gb_s), rate(use.peak_gb_s), rate(slow.load.most), share(use.busy, step),
               share(use.full, step), "", ""});
  }
  table.print(out);
  if (links.loads.not_placed > 0)
    out << fmt::format("  left out: {} collectives whose process group the run does not tell\n",
                       links.loads.not_placed);
  for (const std::string& note : links.notes) out << "  " << in_line(note) << '\n';
}

}  // namespace foreshard::cli
