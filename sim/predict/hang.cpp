#include "sim/predict/hang.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "core/workload/workload_names.hpp"

namespace foreshard::sim {
namespace {

std::string words_of(const CollectiveNames& names, OpId op) {
  const auto name = names.find(op.value);
  return name == names.end() ? "collective" : name->second;
}

std::vector<std::uint32_t> ranks_of_class(const Job& job, std::uint32_t of_class) {
  std::vector<std::uint32_t> out;
  for (std::uint32_t rank = 0; rank < job.classes.of_rank.size(); ++rank)
    if (job.classes.of_rank[rank] == of_class) out.push_back(rank);
  return out;
}

std::uint32_t program_of(const Job& job, const JobRequest& request, std::uint32_t of_class) {
  return request.ranks[job.classes.classes[of_class].first].program;
}

Hang::Ranks ranks_of(const StuckRank& stuck, const Job& job, const JobRequest& request,
                     const std::vector<CollectiveNames>& names) {
  Hang::Ranks out;
  out.ranks = ranks_of_class(job, stuck.of_class);
  const std::uint32_t number = program_of(job, request, stuck.of_class);
  const HostProgram& program = *request.programs[number];
  out.host = stuck.host;
  const auto issued = [&](OpId end) { return end.value < stuck.issued; };
  out.host_step = static_cast<std::uint32_t>(
      std::find_if_not(program.step_ends.begin(), program.step_ends.end(), issued) - program.step_ends.begin());
  if (out.host_step == program.step_ends.size() && out.host_step > 0) {  // what a real one does next is not simulated
    out.host = HostStop::program_end;
    --out.host_step;
  }
  for (const StuckRank::Collective& wait : stuck.waits)
    out.waits.push_back({words_of(names[number], wait.op), program.communicators[wait.communicator.value].name, wait.of,
                         wait.absent, wait.issued});
  return out;
}

struct Named {
  const Job& job;
  const JobRequest& request;
  const std::vector<CollectiveNames>& names;
};

/// Of classes of one group, the first `end` calls of a communicator: those of `others` that are not as `most`'s, told
/// as one meeting.
void add_mixed(const Named& of, std::uint32_t most, const std::vector<std::uint32_t>& others,
               std::uint32_t communicator, std::size_t end, std::vector<MixedCollectives>& out) {
  const std::uint32_t program = program_of(of.job, of.request, most);
  const std::vector<std::uint32_t>& ops = of.request.programs[program]->table.communicator_ops(communicator);
  MixedCollectives mixed{{}, ranks_of_class(of.job, most), 0, {}, {}};
  std::set<std::size_t> places;
  for (const std::uint32_t one : others) {
    const std::uint32_t other = program_of(of.job, of.request, one);
    const std::vector<std::uint32_t>& other_ops = of.request.programs[other]->table.communicator_ops(communicator);
    bool differs = false;
    for (std::size_t i = 0; other != program && i < std::min({ops.size(), other_ops.size(), end}); ++i) {
      const std::string usual = words_of(of.names[program], OpId{ops[i]});
      const std::string own = words_of(of.names[other], OpId{other_ops[i]});
      if (own == usual) continue;
      differs = true;
      if (places.empty() || i < *places.begin()) {
        mixed.first = own;
        mixed.first_of_others = usual;
      }
      places.insert(i);
    }
    if (!differs) continue;
    const std::vector<std::uint32_t> ranks = ranks_of_class(of.job, one);
    mixed.ranks.insert(mixed.ranks.end(), ranks.begin(), ranks.end());
  }
  if (places.empty()) return;
  std::sort(mixed.ranks.begin(), mixed.ranks.end());
  mixed.count = places.size();
  out.push_back(std::move(mixed));
}

/// The first of the classes that most ranks are of.
std::uint32_t largest_class(const Job& job, const std::vector<std::uint32_t>& of) {
  return *std::max_element(of.begin(), of.end(), [&](std::uint32_t a, std::uint32_t b) {
    return job.classes.classes[a].count < job.classes.classes[b].count;
  });
}

/// Of classes that wait for one another in one place of a communicator's, what they called before.
std::vector<MixedCollectives> mixed_before(const Job& job, const JobRequest& request,
                                           const std::vector<CollectiveNames>& names) {
  std::vector<MixedCollectives> out;
  for (std::size_t i = 0; i < job.stuck.size(); ++i)
    for (const StuckRank::Collective& wait : job.stuck[i].waits) {
      const std::uint32_t of_class = job.stuck[i].of_class;
      const OpTable& table = request.programs[program_of(job, request, of_class)]->table;
      const auto waits_for = [&](const StuckRank& other) {
        return std::find(wait.absent.begin(), wait.absent.end(), job.classes.classes[other.of_class].first) !=
               wait.absent.end();
      };
      const auto other = std::find_if(job.stuck.begin(), job.stuck.begin() + static_cast<std::ptrdiff_t>(i), waits_for);
      if (other != job.stuck.begin() + static_cast<std::ptrdiff_t>(i)) {
        const std::uint32_t most = largest_class(job, {other->of_class, of_class});
        add_mixed({job, request, names}, most, {most == of_class ? other->of_class : of_class}, wait.communicator.value,
                  table.op(wait.op).communicator_place, out);
      }
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

CollectiveNames collective_names(const Run& run) {
  CollectiveNames out;
  for (const DeviceOpRecord& record : run.device_ops) {
    if (record.kind != DeviceOpRecord::Kind::collective || record.correlation == 0) continue;
    std::string& name = out[static_cast<std::uint32_t>(record.correlation - 1)];
    name = dashed_name(record.collective);
    if (!record.unit.valid()) continue;
    const std::string& unit = run.units[record.unit.value].name;
    name += " of " + (unit.empty() ? std::string("the root") : unit);
  }
  return out;
}

Hang hang_of(const Job& job, const JobRequest& request, const std::vector<CollectiveNames>& names) {
  Hang out;
  out.world = static_cast<std::uint32_t>(request.ranks.size());
  out.steps = UINT32_MAX;
  out.issued = kNever;
  for (std::uint32_t rank = 0; rank < out.world; ++rank)
    if (request.ranks[rank].dead_from != kNeverDies) out.dead.push_back({rank, request.ranks[rank].dead_from});
  for (const StuckRank& stuck : job.stuck) {
    out.steps = std::min(out.steps, stuck.steps);
    for (const StuckRank::Collective& wait : stuck.waits) out.issued = std::min(out.issued, wait.issued);
    if (stuck.host != HostStop::dead) out.ranks.push_back(ranks_of(stuck, job, request, names));
  }
  if (out.steps == UINT32_MAX) out.steps = 0;
  if (out.issued == kNever) out.issued = {};
  for (const JobRank& rank : job.ranks)
    if (out.steps > 0 && rank.step_ends.size() >= out.steps)
      out.begin = std::max(out.begin, rank.step_ends[out.steps - 1]);
  out.end = out.issued + kNcclTimeout + kNcclDumpWait;
  out.mixed = mixed_before(job, request, names);
  return out;
}

std::vector<MixedCollectives> mixed_collectives(const Job& job, const JobRequest& request,
                                                const std::vector<CollectiveNames>& names) {
  std::vector<MixedCollectives> out;
  for (const RankClasses::Group& group : job.classes.groups) {
    const std::uint32_t most = largest_class(job, group.classes);
    std::vector<std::uint32_t> others = group.classes;
    std::erase(others, most);
    add_mixed({job, request, names}, most, others, group.communicator, SIZE_MAX, out);
  }
  return out;
}

std::string text_of(const MixedCollectives& mixed) {
  const auto ranks = [](const std::vector<std::uint32_t>& of) {
    return fmt::format("rank{} {}", of.size() == 1 ? "" : "s", rank_list(of));
  };
  return fmt::format(
      "{} collective{} of {} meet{} other units' of {}, first {} meets {}: their kind and size are equal, so NCCL "
      "raises no error and the numbers are wrong",
      mixed.count, mixed.count == 1 ? "" : "s", ranks(mixed.ranks), mixed.count == 1 ? "s" : "", ranks(mixed.others),
      mixed.first, mixed.first_of_others);
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
  for (const auto& [rank, skipped] : hang.skips)
    out += fmt::format("rank {} does not run {} from step {} on\n", rank, skipped.unit, skipped.from_step);
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
