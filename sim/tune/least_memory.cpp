#include "sim/tune/least_memory.hpp"

#include <tuple>

#include "sim/parallel/for_each.hpp"
#include "sim/sweep/enough_memory.hpp"

namespace foreshard::sim {

std::optional<PlannedPoint> least_memory(WorkloadSource& source, const MachineProfile& machine, PointRequest shared,
                                         const std::vector<Settings>& tried, unsigned threads) {
  const MachineProfile enough = with_enough_memory(machine);
  shared.memory_limit = std::nullopt;
  shared.step_alone = true;
  std::vector<SweepPoint> found(tried.size());
  for_each(tried.size(), threads, [&](std::size_t i) { found[i] = simulate_point(source, enough, shared, tried[i]); });
  const auto size = [&](std::size_t i) { return std::tuple(found[i].most_reserved, found[i].step_ms, i); };
  std::optional<std::size_t> least;
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i].state == SweepPoint::State::ran && (!least || size(i) < size(*least))) least = i;
  if (!least) return std::nullopt;
  shared.step_alone = false;
  shared.every_op = true;
  return plan_point(source, enough, shared, tried[*least]);
}

}  // namespace foreshard::sim
