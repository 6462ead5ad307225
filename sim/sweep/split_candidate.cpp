#include "sim/sweep/split_candidate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/adapt/split_root.hpp"
#include "core/models/fsdp_section_costs.hpp"
#include "core/settings/python_lines.hpp"
#include "sim/predict/predict.hpp"

namespace foreshard::sim {
namespace {

/// "model.tok", or "[model.norm, model.head]" of several.
std::string modules(const std::string& names) {
  std::string text = "model.";
  std::size_t from = 0;
  for (std::size_t comma = names.find(", "); comma != std::string::npos; comma = names.find(", ", from)) {
    text += names.substr(from, comma - from) + ", model.";
    from = comma + 2;
  }
  text += names.substr(from);
  return from == 0 ? text : "[" + text + "]";
}

/// The arguments that the blocks' fully_shard has, but for the module and reshard_after_forward.
std::string shared_arguments(const Settings& settings) {
  const PythonLines lines = python_lines(settings);
  for (const std::string& line : lines.lines) {
    const std::size_t from = line.find("    fully_shard("), comma = line.find(", ");
    const std::size_t to = line.find(", reshard_after_forward=");
    if (from != std::string::npos && to != std::string::npos && comma < to) return line.substr(comma, to - comma);
  }
  return {};
}

}  // namespace

Result<SplitCandidate> split_workload(const Workload& workload, const MachineProfile& machine,
                                      const Settings& settings) {
  const auto refuse = [](std::string what) { return fail(ErrorKind::usage, std::move(what)); };
  if (!from_model(workload))
    return refuse(
        "the recording gathers both with the root: plan the model (its preset or config.json), or record it so "
        "wrapped");
  if (workload.settings.units_per_group != settings.units_per_group)
    return refuse("the run's units are other ones than its workload's");
  auto split = split_root(workload);
  FORESHARD_TRY(split);
  SplitCandidate out{std::move(split->workload), {}};
  auto sections = model::section_costs(out.workload, machine.host_calls);
  FORESHARD_TRY(sections);
  out.workload.sections = std::move(*sections);
  const std::string embedding = modules(split->embedding), head = modules(split->head);
  const bool reshards = settings.reshard_after_forward.kind != Reshard::Kind::never;
  Candidate& candidate = out.candidate;
  candidate.settings = settings;
  candidate.settings.reshard_of_unit[split->head] = {Reshard::Kind::never, 0};
  candidate.setting = fmt::format("fully_shard({}), fully_shard({})", embedding, head);
  candidate.reason = "embedding and head are units of their own: smaller collectives at both ends of the step";
  const std::string arguments = shared_arguments(settings);
  candidate.pytorch = fmt::format(
      "fully_shard({}{}, reshard_after_forward={})\nfully_shard({}{}, reshard_after_forward=False)\n"
      "# both before fully_shard(model, ...)",
      embedding, arguments, reshards ? "True" : "False", head, arguments);
  return out;
}

}  // namespace foreshard::sim
