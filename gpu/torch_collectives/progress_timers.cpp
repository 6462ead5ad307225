#include "gpu/torch_collectives/progress_timers.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreshard::gpu {
namespace {

std::string seconds(std::chrono::milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

bool waits(const LaneProgress& lane) {
  return lane.issued != lane.done || lane.replaying;
}

}  // namespace

Result<void> ProgressTimers::look(const GroupProgress& now, Time time) {
  FORESHARD_TRY(look_at_peers(now, time));
  for (std::uint32_t kind = 0; kind < kCallKinds; ++kind) FORESHARD_TRY(look_at_lane(kind, now.lanes[kind], time));
  return {};
}

Result<void> ProgressTimers::look_at_peers(const GroupProgress& now, Time time) {
  const bool called = now.refused != refused_;
  refused_ = now.refused;
  if (!now.gone) {
    waiting_.reset();
    gone_.reset();
    return {};
  }
  if (!gone_) gone_ = time;
  if (std::none_of(now.lanes.begin(), now.lanes.end(), waits))
    waiting_.reset();
  else if (!waiting_)
    waiting_ = time;
  if (waiting_ && time - *waiting_ >= limits_.settle)
    return fail(ErrorKind::rank_lost, fmt::format("rank {} of the group has ended while rank {} waits for it in a "
                                                  "collective",
                                                  *now.gone, rank_));
  if (called && time - *gone_ >= limits_.retries)
    return fail(ErrorKind::rank_lost, fmt::format("rank {} of the group has ended, and rank {} still calls collectives "
                                                  "{} later",
                                                  *now.gone, rank_, seconds(limits_.retries)));
  return {};
}

Result<void> ProgressTimers::look_at_lane(std::uint32_t kind, const LaneProgress& lane, Time time) {
  Lane& seen = lanes_[kind];
  const bool moved = lane.done != seen.done || lane.done == lane.issued;
  seen.done = lane.done;
  if (moved || !seen.moved) seen.moved = time;
  if (time - *seen.moved < limits_.timeout) return {};
  return fail(ErrorKind::rank_hung,
              fmt::format("rank {} waits for {} in {}", rank_, seconds(limits_.timeout),
                          static_cast<CallKind>(kind) == CallKind::all_gather ? "an all-gather" : "a reduce-scatter"));
}

}  // namespace foreshard::gpu
