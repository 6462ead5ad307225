#include "sim/predict/hang.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/workload/workload_names.hpp"

namespace foreshard::sim {
namespace {

/// `op` is rank 0's program's.
std::string collective_words(const Run& run, OpId op) {
  const auto of_op = [&](const DeviceOpRecord& record) { return record.correlation == op.value + std::uint64_t{1}; };
  const auto record = std::find_if(run.device_ops.begin(), run.device_ops.end(), of_op);
  if (record == run.device_ops.end()) return "collective";
  std::string out(dashed_name(record->collective));
  if (!record->unit.valid()) return out;
  const std::string& unit = run.units[record->unit.value].name;
  return out + " of " + (unit.empty() ? std::string("the root") : unit);
}

Hang::Ranks ranks_of(const StuckRank& stuck, const Job& job, const JobRequest& request, const Run& run) {
  Hang::Ranks out;
  for (std::uint32_t rank = 0; rank < job.classes.of_rank.size(); ++rank)
    if (job.classes.of_rank[rank] == stuck.of_class) out.ranks.push_back(rank);
  const HostProgram& program = *request.programs[request.ranks[out.ranks.front()].program];
  const HostProgram& of_rank_0 = *request.programs[request.ranks[0].program];
  out.host = stuck.host;
  const auto issued = [&](OpId end) { return end.value < stuck.issued; };
  out.host_step = static_cast<std::uint32_t>(
      std::find_if_not(program.step_ends.begin(), program.step_ends.end(), issued) - program.step_ends.begin());
  if (out.host_step == program.step_ends.size() && out.host_step > 0) {  // what a real one does next is not simulated
    out.host = HostStop::program_end;
    --out.host_step;
  }
  for (const StuckRank::Collective& wait : stuck.waits) {
    const std::uint32_t place = program.table.op(wait.op).communicator_place;
    const OpId same{of_rank_0.table.communicator_ops(wait.communicator.value)[place]};
    out.waits.push_back({collective_words(run, same), program.communicators[wait.communicator.value].name, wait.of,
                         wait.absent, wait.issued});
  }
  return out;
}

std::string_view host_words(HostStop host) {
  switch (host) {
    case HostStop::program_end:
      return "has issued all that was simulated";
    case HostStop::launch_queue:
      return "is blocked by a full launch queue";
    case HostStop::event:
      return "is blocked in synchronizing with an event";
    case HostStop::all:
      return "is blocked in synchronizing with the device";
    case HostStop::dead:
      return "is dead";
  }
  return {};
}

}  // namespace

Hang hang_of(const Job& job, const JobRequest& request, const Run& run) {
  Hang out;
  out.world = static_cast<std::uint32_t>(request.ranks.size());
  out.steps = UINT32_MAX;
  out.issued = kNever;
  for (std::uint32_t rank = 0; rank < out.world; ++rank)
    if (request.ranks[rank].dead_from != kNeverDies) out.dead.push_back({rank, request.ranks[rank].dead_from});
  for (const StuckRank& stuck : job.stuck) {
    out.steps = std::min(out.steps, stuck.steps);
    for (const StuckRank::Collective& wait : stuck.waits) out.issued = std::min(out.issued, wait.issued);
    if (stuck.host != HostStop::dead) out.ranks.push_back(ranks_of(stuck, job, request, run));
  }
  if (out.steps == UINT32_MAX) out.steps = 0;
  if (out.issued == kNever) out.issued = {};
  for (const JobRank& rank : job.ranks)
    if (out.steps > 0 && rank.step_ends.size() >= out.steps)
      out.begin = std::max(out.begin, rank.step_ends[out.steps - 1]);
  out.end = out.issued + kNcclTimeout + kNcclDumpWait;
  return out;
}

std::string rank_list(const std::vector<std::uint32_t>& ranks) {
  constexpr std::size_t kNamed = 6;
  std::string out;
  std::size_t runs = 0;
  for (std::size_t i = 0; i < ranks.size();) {
    std::size_t last = i;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (++runs > kNamed) return out + fmt::format(" and {} more", ranks.size() - i);
    out += fmt::format("{}{}", out.empty() ? "" : ", ", ranks[i]);
    if (last > i) out += fmt::format("{}{}", last > i + 1 ? "-" : ", ", ranks[last]);
    i = last + 1;
  }
  return out;
}

std::string text_of(const Hang& hang) {
  std::string out;
  for (const Hang::Dead& dead : hang.dead)
    out += fmt::format("rank {} issues nothing from step {} on\n", dead.rank, dead.step);
  for (const Hang::Ranks& ranks : hang.ranks) {
    std::string waits;
    for (const Hang::Collective& wait : ranks.waits)
      waits += fmt::format("{}{} ({}, {} ranks) waits for rank{} {}", waits.empty() ? "" : "; ", wait.what,
                           wait.communicator, wait.of, wait.absent.size() == 1 ? "" : "s", rank_list(wait.absent));
    out += fmt::format("rank{} {}: {}; in step {} the host {}\n", ranks.ranks.size() == 1 ? "" : "s",
                       rank_list(ranks.ranks), waits.empty() ? "never goes on" : waits, ranks.host_step,
                       host_words(ranks.host));
  }
  return out;
}

}  // namespace foreshard::sim
