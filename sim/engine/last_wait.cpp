#include "sim/engine/last_wait.hpp"

#include "sim/engine/engine.hpp"

namespace foreshard::sim {

/// What an op of a stream that waited for `awaited` last was held up by: a collective, or on the compute stream the
/// kernel there, which is its GPU; else what that op waited for last itself.
LastWait Engine::behind(std::uint32_t index, const OpTable::Op& awaited) const {
  if (awaited.communicator.valid()) return LastWait::collective(awaited.communicator);
  if (index == kComputeStream.value && awaited.stream == kComputeStream) return {};
  return last_wait_of(awaited.stream.value, awaited.place);
}

/// Of a stream's op that has begun; its own GPU where that is too long ago for others to wait for it.
LastWait Engine::last_wait_of(std::uint32_t index, std::uint32_t place) const {
  const Stream& stream = streams_[index];
  const std::uint32_t begun = stream.head + (lanes_[index].running ? 1 : 0);
  return begun - place > stream.last_waits.size() ? LastWait{} : stream.last_waits[place % stream.last_waits.size()];
}

}  // namespace foreshard::sim
