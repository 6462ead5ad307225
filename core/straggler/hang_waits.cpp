#include "core/straggler/hang_waits.hpp"

#include "core/straggler/hang_answer.hpp"

namespace foreshard {

std::map<std::uint32_t, std::uint32_t> hang_waits(const Run& run) {
  std::map<std::uint32_t, std::uint32_t> out;
  const auto hang = hang_answer(run);
  if (!hang) return out;
  for (const HangAnswer::Ranks& group : hang->ranks)
    if (!group.waits.empty() && !group.waits.front().absent.empty())
      for (const std::uint32_t rank : group.ranks) out[rank] = group.waits.front().absent.front();
  return out;
}

}  // namespace foreshard
