#include "sim/forecast/settings_changes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreshard::sim {

std::vector<Candidate> settings_changes(const Settings& base) {
  std::vector<Candidate> out = candidates(base, true);
  std::erase_if(out, [&](const Candidate& one) {
    return one.settings.alloc_conf != base.alloc_conf || one.settings.nodes != base.nodes;
  });
  for (std::uint32_t batch = base.batch.value_or(1) / 2; batch > 0; batch /= 2) {
    Candidate& smaller = out.emplace_back();
    smaller.settings = base;
    smaller.settings.batch = batch;
    smaller.setting = setting_text(base, smaller.settings);
    smaller.reason = fmt::format("{} of {} samples a GPU and microbatch", batch, *base.batch);
  }
  return out;
}

}  // namespace foreshard::sim
