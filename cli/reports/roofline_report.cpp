#include "cli/reports/roofline_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/add_up.hpp"

namespace foreshard::cli {
namespace {

using Align = Table::Align;

std::string_view what(const sim::RoofRow& row) {
  switch (row.kind) {
    case sim::RoofKind::gemm:
      return "GEMMs";
    case sim::RoofKind::attention:
      return "attention";
    case sim::RoofKind::bytes:
      return "other kernels";
    case sim::RoofKind::optimizer:
      return "optimizer";
    case sim::RoofKind::link:
      break;
  }
  return title(*row.link);
}

bool counts_flop(const sim::RoofRow& row) {
  return row.kind <= sim::RoofKind::attention;
}

std::string ms(Nanoseconds time) {
  return fmt::format("{:.2f}", time.ms());
}

std::string of_compute(const sim::RoofRow& row) {
  return fmt::format("{}{}", what(row), row.beside_compute && row.kind != sim::RoofKind::link ? ", beside" : "");
}

}  // namespace

Json roofline_json(const sim::Roofline& roofline) {
  Json json = {{"machine", roofline.machine},
               {"compute_least_ns", roofline.compute.count},
               {"least_ns", roofline.least.count},
               {"longest", roofline.longest ? Json(what(roofline.rows[*roofline.longest])) : Json("compute stream")},
               {"rows", Json::array()}};
  for (const sim::RoofRow& row : roofline.rows)
    json["rows"].push_back({{"what", what(row)},
                            {"kind", name(row.kind)},
                            {"beside_compute", row.beside_compute},
                            {counts_flop(row) ? "flop" : "bytes", row.work},
                            {"rate", row.rate},
                            {"least_ns", row.least.count},
                            {"takes_ns", row.takes.count}});
  return json;
}

void print_roofline(std::ostream& out, const sim::Roofline& roofline, const TimeExplanation& step,
                    std::string_view step_name) {
  out << fmt::format("\nwhat the {} takes at least (rates of {}; no wait, gap or contention)\n", step_name,
                     roofline.machine);
  Table table(
      {{"work"}, {"amount", Align::right}, {"at", Align::right}, {"least, ms", Align::right}, {"takes", Align::right}});
  const auto add = [&](const sim::RoofRow& row) {
    const bool flop = counts_flop(row);
    table.row({"  " + of_compute(row),
               flop ? fmt::format("{:.1f} TFLOP", row.work / 1e12) : fmt::format("{:.1f} GB", row.work / 1e9),
               flop ? fmt::format("{:.0f} TFLOP/s", row.rate / 1e12) : fmt::format("{:.0f} GB/s", row.rate / 1e9),
               ms(row.least), ms(row.takes)});
  };
  Nanoseconds listed;
  bool faster = false;
  for (const sim::RoofRow& row : roofline.rows) {
    faster = faster || row.takes < row.least;
    if (row.beside_compute) continue;
    add(row);
    listed += row.takes;
  }
  if (listed < step.compute) table.row({"  FSDP2's copies and the like", "", "", "", ms(step.compute - listed)});
  table.row({"compute stream", "", "", ms(roofline.compute), ms(step.compute)});
  for (const sim::RoofRow& row : roofline.rows)
    if (row.beside_compute) add(row);
  table.row({"step", "", "", ms(roofline.least), ms(step.length())});
  table.print(out);
  const double above = printed_difference(step.length().ms(), roofline.least.ms(), 2);
  if (above >= 0 && step.length().count > 0)
    out << fmt::format(
        "  the step takes {:.2f} ms ({:.0f} %) more: waits, gaps and what each part takes above its least\n", above,
        100 * above / step.length().ms());
  if (faster)
    out << "  below their least: attention of fast shapes, operands that L2 holds, links faster than the profile has "
           "them\n";
}

}  // namespace foreshard::cli
