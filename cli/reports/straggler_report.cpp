#include "cli/reports/straggler_report.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/terminal/printable.hpp"
#include "core/base/units.hpp"
#include "core/run/allocation_names.hpp"
#include "core/run/phase_words.hpp"
#include "core/straggler/straggler_text.hpp"

namespace foreshard::cli {
namespace {

std::string rank_cell(const RankTime& rank) {
  return rank.stands_for > 1 ? fmt::format("{} ({} ranks)", rank.rank, rank.stands_for) : std::to_string(rank.rank);
}

void print_times(std::ostream& out, const Stragglers& found) {
  const auto right = Table::Align::right;
  Table table({{"rank", right},
               {"step", right},
               {"compute", right},
               {"waits for ranks", right},
               {"behind collectives", right},
               {"idle", right},
               {"others wait for it", right}});
  for (const RankTime& rank : found.ranks)
    table.row({rank_cell(rank), milliseconds(rank.step.ms()), milliseconds(rank.compute.ms()),
               milliseconds(rank.waiting.ms()), milliseconds(rank.communication.ms()), milliseconds(rank.idle.ms()),
               milliseconds(rank.delay.ms())});
  table.print(out);
}

void print_phases(std::ostream& out, const LateRank& late) {
  const auto right = Table::Align::right;
  out << '\n';
  Table table({{"rank " + std::to_string(late.rank)},
               {"compute", right},
               {"others", right},
               {"idle", right},
               {"others", right},
               {"behind collectives", right},
               {"others", right},
               {"they wait for it", right}});
  for (const PhaseDelay& phase : late.phases)
    table.row({phase_title(phase.phase), milliseconds(phase.compute.ms()), milliseconds(phase.compute_of_others.ms()),
               milliseconds(phase.idle.ms()), milliseconds(phase.idle_of_others.ms()),
               milliseconds(phase.communication.ms()), milliseconds(phase.communication_of_others.ms()),
               milliseconds(phase.delay.ms())});
  table.print(out);
}

}  // namespace

void print_stragglers(std::ostream& out, const Stragglers& found) {
  out << "\nranks (GPU time a step, mean of " << found.steps << (found.steps == 1 ? " step)\n" : " steps)\n");
  for (const std::string& sentence : straggler_sentences(found)) out << "  " << in_line(sentence) << '\n';
  out << '\n';
  print_times(out, found);
  if (found.late) print_phases(out, *found.late);
}

void print_rank_path(std::ostream& out, const RankPath& path) {
  constexpr std::size_t kLines = 12;
  out << fmt::format("\ncritical path over the ranks, {:.2f} ms from the last rank's end to the last rank's end\n",
                     (path.end() - path.begin()).ms());
  for (const std::string& line : path_lines(path, kLines)) out << "  " << in_line(line) << '\n';
}

Json rank_path_json(const RankPath& path) {
  Json visits = Json::array();
  for (const PathVisit& visit : path.visits)
    visits.push_back({{"rank", visit.rank},
                      {"begin_ns", visit.begin.count},
                      {"end_ns", visit.end.count},
                      {"compute_ns", visit.compute.count},
                      {"communication_ns", visit.communication.count},
                      {"idle_ns", visit.idle.count},
                      {"most", visit.most.empty() ? Json(nullptr) : Json(visit.most)},
                      {"most_ns", visit.most_time.count},
                      {"last_to_begin", visit.collective.empty() ? Json(nullptr) : Json(visit.collective)}});
  return {{"step", path.step},
          {"begin_ns", path.begin().count},
          {"end_ns", path.end().count},
          {"visits", std::move(visits)}};
}

Json rank_shapes_json(const std::vector<RankShape>& shapes) {
  if (shapes.empty()) return nullptr;
  Json out = Json::array();
  for (const RankShape& of : shapes) out.push_back({{"rank", of.rank}, {"batch", of.batch}, {"seq", of.seq}});
  return out;
}

Json own_kernels_json(const std::optional<OwnKernels>& own) {
  if (!own) return nullptr;
  return {{"extra", own->extra},
          {"extra_ms", own->extra_time.ms()},
          {"missing", own->missing},
          {"missing_ms", own->missing_time.ms()},
          {"extra_copies", own->extra_copies},
          {"extra_copies_ms", own->extra_copies_time.ms()},
          {"missing_copies", own->missing_copies},
          {"missing_copies_ms", own->missing_copies_time.ms()},
          {"most", own->name}};
}

Json stragglers_json(const Stragglers& found) {
  Json json = {{"world", found.world}, {"steps", found.steps}, {"sentences", straggler_sentences(found)}};
  json["waiting_ns"] = found.waiting.count;
  json["times"] = Json::array();
  for (const RankTime& rank : found.ranks)
    json["times"].push_back({{"rank", rank.rank},
                             {"stands_for", rank.stands_for},
                             {"step_ns", rank.step.count},
                             {"compute_ns", rank.compute.count},
                             {"waiting_ns", rank.waiting.count},
                             {"communication_ns", rank.communication.count},
                             {"idle_ns", rank.idle.count},
                             {"others_wait_ns", rank.delay.count}});
  json["equally_late"] = Json::array();
  for (const RankRun& run : found.equally_late) json["equally_late"].push_back({run.first, run.count, run.stride});
  json["shapes"] = rank_shapes_json(found.shapes);
  json["title"] = straggler_title(found);
  json["under_profiler"] = found.under_profiler ? Json(*found.under_profiler) : Json(nullptr);
  json["late"] = nullptr;
  if (!found.late) return json;
  Json late = {{"rank", found.late->rank},          {"by_path", found.late->by_path},
               {"path_ns", found.late->path.count}, {"phase", found.late->phase},
               {"host", found.late->host},          {"collectives", found.late->collectives},
               {"more_work", found.late->more_work}};
  for (const RankTime& rank : found.ranks)
    if (rank.rank == found.late->rank) late["others_wait_ns"] = rank.delay.count;
  late["phases"] = Json::array();
  for (const PhaseDelay& phase : found.late->phases)
    late["phases"].push_back({{"phase", phase.phase},
                              {"compute_ns", phase.compute.count},
                              {"compute_of_others_ns", phase.compute_of_others.count},
                              {"idle_ns", phase.idle.count},
                              {"idle_of_others_ns", phase.idle_of_others.count},
                              {"communication_ns", phase.communication.count},
                              {"communication_of_others_ns", phase.communication_of_others.count},
                              {"others_wait_ns", phase.delay.count}});
  late["kernels"] = Json::array();
  for (const KernelExcess& kernel : found.late->kernels)
    late["kernels"].push_back({{"name", kernel.name},
                               {"title", op_title(kernel.name)},
                               {"time_ns", kernel.time.count},
                               {"time_of_others_ns", kernel.time_of_others.count},
                               {"calls", kernel.calls},
                               {"calls_of_others", kernel.calls_of_others}});
  late["own_kernels"] = own_kernels_json(found.late->own);
  json["late"] = std::move(late);
  return json;
}

}  // namespace foreshard::cli
