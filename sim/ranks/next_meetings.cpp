#include "sim/ranks/next_meetings.hpp"

#include <utility>

namespace foreshard::sim {
namespace {

constexpr std::uint32_t kMasked = 32;  ///< communicators that One::behind has; of others nothing is known

std::int64_t at_pace(std::int64_t ns, std::int64_t pace) {
  return pace <= kFullRate ? ns : static_cast<std::int64_t>(__extension__ __int128{ns} * kFullRate / pace);
}

}  // namespace

MeetingNeeds::MeetingNeeds(const OpTable& table) : by_communicator_(table.communicators()) {
  // By op: ops of the compute stream, then collectives of each communicator, that end before it does.
  const std::size_t width = 1 + by_communicator_.size();
  std::vector<std::uint32_t> ended(table.ops().size() * width);
  for (std::uint32_t id = 0; id < table.ops().size(); ++id) {
    const OpTable::Op& op = table.ops()[id];
    std::uint32_t* const own = &ended[id * width];
    const auto wait_for = [&](std::uint32_t awaited) {
      for (std::size_t i = 0; i < width; ++i) own[i] = std::max(own[i], ended[awaited * width + i]);
    };
    if (op.place > 0) wait_for(table.stream_ops(op.stream.value)[op.place - 1]);
    for (const std::uint32_t awaited : table.awaited(op.waits_for)) wait_for(awaited);
    if (op.communicator.valid()) {
      const std::uint32_t c = op.communicator.value;
      if (op.communicator_place > 0) wait_for(table.communicator_ops(c)[op.communicator_place - 1]);
      by_communicator_[c].push_back({own[0], static_cast<std::uint32_t>(collectives_.size()), op.work >> kWorkShift});
      collectives_.insert(collectives_.end(), own + 1, own + width);
      own[1 + c] = op.communicator_place + 1;
    }
    if (op.stream == kComputeStream) {
      own[0] = op.place + 1;
      compute_before_.push_back(compute_before_.back() + (op.communicator.valid() ? 0 : op.work >> kWorkShift));
    }
  }
}

std::int64_t MeetingNeeds::compute_ns(std::uint32_t from, std::uint32_t to, double factor) const {
  if (from >= to) return 0;
  const auto ns = static_cast<double>(compute_before_[to] - compute_before_[from]) * factor;
  // Each kernel's time was rounded, and so was the sum's product.
  constexpr double kExact = 1 - 1e-9;
  return std::max<std::int64_t>(0, static_cast<std::int64_t>(ns * kExact) - (to - from));
}

void NextMeetings::find(const Engine& engine, const MeetingNeeds& needs, double kernels,
                        const ByCommunicator<std::int64_t>& most_pace) {
  const std::int64_t now = engine.now().count;
  const std::uint32_t ended = engine.ended_on(kComputeStream);
  const std::int64_t running = engine.left_on(kComputeStream);
  of_.resize(needs.communicators());
  for (std::uint32_t c = 0; c < of_.size(); ++c) {
    One& one = of_[c];
    one = {};
    const Engine::CollectiveCourse course = engine.collective({c});
    std::uint32_t next = course.place;
    if (course.gate != Engine::Gate::open) {
      one.at = course.gate == Engine::Gate::moving ? At::moving : At::answer;
      one.pace = course.pace;
      one.ns = needs.ns(c, next);
      if (one.at == At::moving) one.done = now + at_pace(course.left, most_pace[c]);
      ++next;
    }
    if (next >= needs.count(c)) continue;
    const std::uint32_t compute = needs.compute(c, next);
    one.start = now;
    if (running > 0 && ended < compute) one.start += running - 1;
    one.start += needs.compute_ns(ended + (running > 0 ? 1 : 0), compute, kernels);
    for (std::uint32_t other = 0; other < of_.size(); ++other)
      if (other != c && other < kMasked && engine.collective({other}).place < needs.of(c, next, other))
        one.behind |= 1U << other;
  }
}

void NextMeetings::begin(CommunicatorId communicator, Nanoseconds at, std::int64_t most_pace) {
  One& one = of_[communicator.value];
  one.at = At::moving;
  one.done = at.count + at_pace(one.ns, most_pace);
}

void NextMeetings::end(CommunicatorId communicator, Nanoseconds at) {
  of_[communicator.value].at = At::start;
  for (One& one : of_) {
    if (communicator.value < kMasked) one.behind &= ~(1U << communicator.value);
    one.start = std::max(one.start, at.count);
  }
}

bool NextMeetings::set_pace(CommunicatorId communicator, std::int64_t pace) {
  return std::exchange(of_[communicator.value].pace, pace) != pace;
}

Nanoseconds NextMeetings::earliest() const {
  std::int64_t out = kNever.count;
  bool waits = false;
  for (const One& one : of_) {
    waits |= one.at == At::answer;
    if (one.at == At::moving) out = std::min(out, one.done);
    if (one.at == At::start && one.behind == 0) out = std::min(out, one.start);
  }
  return out == kNever.count && !waits ? Nanoseconds{} : Nanoseconds{out};
}

}  // namespace foreshard::sim
