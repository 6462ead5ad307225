#include "traces/export/dependencies.hpp"

#include <utility>

namespace foreshard::traces {

std::vector<OpDependencies> op_dependencies(const Run& run, const ExportSelection& selection) {
  std::vector<std::size_t> ops, events;
  for (std::size_t i = 0; i < run.device_ops.size(); ++i)
    if (selection.holds(run.device_ops[i])) ops.push_back(i);
  for (std::size_t i = 0; i < run.events.size(); ++i)
    if (selection.holds(run.events[i])) events.push_back(i);
  return foreshard::op_dependencies(run, std::move(ops), std::move(events));
}

}  // namespace foreshard::traces
