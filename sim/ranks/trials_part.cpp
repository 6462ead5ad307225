#include "sim/ranks/trials_part.hpp"

#include <array>
#include <nlohmann/json.hpp>

namespace foreshard::sim {
namespace {

constexpr PieceKind kKind{"trials", kMaxTrials};
/// By Resource.
constexpr std::array<const char*, kResources> kAwaitedKeys{"awaited_gpu_ns", "awaited_host_ns", "awaited_nvlink_ns",
                                                           "awaited_network_ns"};

Trial trial_from(PieceMembers& members) {
  Trial out;
  members.read("step_ns", out.step.count);
  members.read("waiting_ns", out.waiting.count);
  members.read("last", out.last);
  members.read("awaited_ns", out.awaited.all.count);
  for (std::size_t r = 0; r < kResources; ++r) members.read(kAwaitedKeys[r], out.awaited.by[r].count);
  return out;
}

}  // namespace

std::string trials_part_text(const Part& part, const std::string& fingerprint, const std::vector<Trial>& trials) {
  return part_text(kKind, part, fingerprint, trials.size(), [&](std::size_t i) {
    const Trial& trial = trials[i];
    nlohmann::ordered_json out{{"step_ns", trial.step.count},
                               {"waiting_ns", trial.waiting.count},
                               {"last", trial.last},
                               {"awaited_ns", trial.awaited.all.count}};
    for (std::size_t r = 0; r < kResources; ++r) out[kAwaitedKeys[r]] = trial.awaited.by[r].count;
    return out;
  });
}

Result<PartFile<Trial>> parse_trials_part(std::string_view text, const std::string& where) {
  return read_part_file<Trial>(kKind, text, where, trial_from);
}

}  // namespace foreshard::sim
