#include "sim/predict/keeps_up.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "core/straggler/straggler_text.hpp"

namespace foreshard::sim {

std::string own_differences(const RankGroup& group) {
  std::vector<std::string> how;
  if (group.traits.kernels != 1) how.push_back(fmt::format("kernels × {}", group.traits.kernels));
  if (group.traits.host != 1) how.push_back(fmt::format("host × {}", group.traits.host));
  if (!group.own_program.empty()) how.push_back(group.own_program);
  if (group.seq > 0) how.push_back(fmt::format("{} tokens a sample", group.seq));
  if (group.gemms) how.push_back(words(*group.gemms));
  return fmt::format("{}", fmt::join(how, ", "));
}

std::string still_holds_up(const Prediction& p) {
  if (p.keeps_up < 0 || !p.with_more.empty()) return {};
  const auto slower = [&](const RankGroup& group) {
    const bool more = group.traits.kernels > 1 || group.traits.host > 1 || group.seq > 0 || group.gemms;
    return more && has_rank(group.members, static_cast<std::uint32_t>(p.keeps_up));
  };
  const auto own = std::find_if(p.ranks.begin(), p.ranks.end(), slower);
  return own == p.ranks.end() ? std::string() : own_differences(*own);
}

std::string keeps_up_words(const Prediction& p) {
  if (const std::string still = still_holds_up(p); !still.empty())
    return fmt::format("if nothing but {} holds rank {} up", still, p.keeps_up);
  return foreshard::keeps_up_words(static_cast<std::uint32_t>(p.keeps_up), p.with_more);
}

}  // namespace foreshard::sim
