#include "cli/reports/hang_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cli/terminal/printable.hpp"
#include "core/base/json_io.hpp"
#include "core/run/plan_results.hpp"
#include "core/straggler/hang_answer.hpp"
#include "core/straggler/rank_members.hpp"

namespace foreshard::cli {
namespace {

std::string_view stop_name(sim::HostStop stop) {
  switch (stop) {
    case sim::HostStop::program_end:
      return "program end";
    case sim::HostStop::launch_queue:
      return "launch queue";
    case sim::HostStop::event:
      return "event";
    case sim::HostStop::all:
      return "device";
    case sim::HostStop::dead:
      return "dead";
  }
  return {};
}

std::size_t waiting_ranks(const sim::Hang& hang) {
  std::size_t out = 0;
  for (const sim::Hang::Ranks& ranks : hang.ranks) out += ranks.ranks.size();
  return out;
}

/// Whether ranks wait for one another on a communicator: each has come, to a call of another kind or size.
bool unlike_calls_meet(const sim::Hang& hang) {
  const auto waits_for = [](const sim::Hang::Collective& wait, const sim::Hang::Ranks& others) {
    return std::find(wait.absent.begin(), wait.absent.end(), others.ranks.front()) != wait.absent.end();
  };
  for (const sim::Hang::Ranks& one : hang.ranks)
    for (const sim::Hang::Ranks& other : hang.ranks)
      for (const sim::Hang::Collective& mine : one.waits)
        for (const sim::Hang::Collective& theirs : other.waits)
          if (mine.communicator == theirs.communicator && waits_for(mine, other) && waits_for(theirs, one)) return true;
  return false;
}

Json ranks_json(const sim::Hang::Ranks& ranks) {
  Json waits = Json::array();
  for (const sim::Hang::Collective& wait : ranks.waits)
    waits.push_back({{"collective", wait.what},
                     {"communicator", wait.communicator},
                     {"ranks", wait.of},
                     {"absent", wait.absent},
                     {"issued_ns", wait.issued.count}});
  return {{"ranks", ranks.ranks},
          {"waits", std::move(waits)},
          {"host_stands_at", stop_name(ranks.host)},
          {"host_step", ranks.host_step}};
}

}  // namespace

std::vector<std::string> hang_lines(const sim::Hang& hang) {
  std::string why;
  const auto add = [&](std::string one) { why += (why.empty() ? "" : ", ") + std::move(one); };
  for (const sim::Hang::Dead& one : hang.dead)
    add(fmt::format("rank {} issues nothing from step {} on", one.rank, one.step));
  for (const auto& [rank, skipped] : hang.skips)
    add(fmt::format("rank {} does not run {} from step {} on", rank, skipped.unit, skipped.from_step));
  const double seconds = (hang.end - hang.begin).ms() / 1e3;
  if (!why.empty()) why += ", and ";
  std::vector<std::string> out{
      fmt::format("hangs: {}{} of {} ranks wait for {} for ever", why, waiting_ranks(hang), hang.world,
                  hang.dead.empty()       ? "one another"
                  : hang.dead.size() == 1 ? "it"
                                          : "them"),
      fmt::format("PyTorch ends the job {:.1f} s behind {}: {:.0f} minutes after the first "
                  "collective that never ends was issued (ProcessGroupNCCL's timeout), and {:.0f} s for the flight "
                  "recorder; {:.2f} GPU hours of {} GPUs are lost, and what was not in a checkpoint",
                  seconds, hang.steps > 0 ? "its last whole step" : "its begin, with no whole step",
                  sim::kNcclTimeout.ms() / 6e4, sim::kNcclDumpWait.ms() / 1e3, hang.gpu_seconds() / 3600, hang.world)};
  for (const sim::MixedCollectives& mixed : hang.mixed) out.push_back("before it hangs, " + text_of(mixed));
  if (unlike_calls_meet(hang))
    out.emplace_back(
        "where collectives of other kinds or sizes meet NCCL promises nothing: the job is taken to hang there, and may "
        "go on with wrong numbers instead, so that a loss of NaN tells and no timeout");
  if (!hang.skips.empty() && hang.dead.empty())
    out.emplace_back(
        "what keeps it from that: a rank whose data do not come to a unit runs it all the same, on a dummy input, and "
        "adds its output times zero");
  return out;
}

Json hang_json(const sim::Hang& hang) {
  Json json = {{"world", hang.world}, {"dead", Json::array()}, {"ranks", Json::array()}};
  for (const sim::Hang::Dead& one : hang.dead) json["dead"].push_back({{"rank", one.rank}, {"from_step", one.step}});
  json["skips"] = Json::array();
  for (const auto& [rank, skipped] : hang.skips)
    json["skips"].push_back({{"rank", rank}, {"unit", skipped.unit}, {"from_step", skipped.from_step}});
  for (const sim::Hang::Ranks& ranks : hang.ranks) json["ranks"].push_back(ranks_json(ranks));
  json["unlike_calls_meet"] = unlike_calls_meet(hang);
  json["mixed"] = Json::array();
  for (const sim::MixedCollectives& mixed : hang.mixed)
    json["mixed"].push_back({{"ranks", mixed.ranks},
                             {"others", mixed.others},
                             {"collectives", mixed.count},
                             {"first", mixed.first},
                             {"first_of_others", mixed.first_of_others}});
  json["whole_steps"] = hang.steps;
  json["last_whole_step_end_ns"] = hang.begin.count;
  json["first_issued_ns"] = hang.issued.count;
  json["timeout_s"] = sim::kNcclTimeout.ms() / 1e3;
  json["dump_wait_s"] = sim::kNcclDumpWait.ms() / 1e3;
  json["ended_ns"] = hang.end.count;
  json["gpu_seconds_lost"] = hang.gpu_seconds();
  return json;
}

Json stored_hang(const Run& run) {
  return hang_answer(run) ? parse_ordered_json_text(run.results.at("hang")) : Json(nullptr);
}

namespace {

/// When the wait began on the first of equal ranks; one whose ops are not kept is not known to have begun it.
std::string begun(const Run& run, const HangAnswer::Ranks& group, const HangAnswer::Wait& wait) {
  const auto row = std::find_if(run.rank_ops.begin(), run.rank_ops.end(), [&](const RankOpRecord& of) {
    return of.rank == group.ranks.front() && of.op.issue == wait.issued &&
           of.op.kind == DeviceOpRecord::Kind::collective;
  });
  return row == run.rank_ops.end() ? std::string("-") : milliseconds(row->op.start.ms());
}

}  // namespace

void print_stored_hang(std::ostream& out, const Run& run) {
  for (const std::string& line : plan_end(run)) out << in_line(line) << '\n';
  const auto hang = hang_answer(run);
  if (!hang) return;
  Table table({{"ranks"},
               {"wait in"},
               {"of", Table::Align::right},
               {"for ranks"},
               {"issued at", Table::Align::right},
               {"since", Table::Align::right},
               {"their hosts stand at"}});
  for (const HangAnswer::Ranks& group : hang->ranks)
    for (const HangAnswer::Wait& wait : group.waits)
      table.row({rank_words(runs_of(group.ranks)), fmt::format("{} ({})", wait.collective, wait.communicator),
                 std::to_string(wait.ranks), rank_words(runs_of(wait.absent)), milliseconds(wait.issued.ms()),
                 begun(run, group, wait), fmt::format("{}, step {}", group.host_stands_at, group.host_step)});
  out << "\nwho waits for whom\n";
  table.print(out);
  out << fmt::format("times since the process began; {}\n",
                     hang->whole_steps == 0
                         ? std::string("no step is whole")
                         : fmt::format("step {} is the last whole one, and ends at {}", hang->whole_steps - 1,
                                       milliseconds(hang->last_whole_step_end.ms())));
}

}  // namespace foreshard::cli
