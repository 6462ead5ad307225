// No meeting of a rank is before the earliest that is known of it, and most are known to be some time off.
#include "sim/ranks/next_meetings.hpp"

#include <random>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "sim/ranks/first_of.hpp"
#include "sim/ranks/rank.hpp"
#include "tests/catch.hpp"
#include "tests/sim/ranks/logged_program.hpp"

namespace foreshard::sim {
namespace {

/// Shard groups and replicas, so that collectives of two communicators are under way.
HostProgram hybrid(const MachineProfile& machine) {
  Settings settings;
  settings.gpus = 4;
  settings.nodes = 4;
  settings.replicate = 4;
  settings.batch = 2;
  settings.seq = 1024;
  settings.param_dtype = DType::bfloat16;
  const Workload workload = generate(*preset("llama-tiny"), settings, machine.host_calls, machine.gpu(), true).value();
  return test::logged_program(workload, machine).program;
}

struct Counts {
  int meetings = 0;
  int known_to_be_later = 0;
};

/// One rank alone, whose meetings are answered up to `slow` ns later. What is known of it is found where it comes to a
/// meeting, and from then on follows its answers alone.
Counts play(const MachineProfile& machine, const HostProgram& program, double kernels, unsigned slow) {
  const HostSchedule schedule(program, 0.1);
  RateTable rates(machine, program.table);
  RankTraits traits;
  traits.kernels = kernels;
  Rank rank(machine, program, schedule, traits, 0.1, {}, &rates);
  const MeetingNeeds needs(program.table);
  ByCommunicator<std::int64_t> most_pace;
  for (std::size_t c = 0; c < needs.communicators(); ++c) most_pace.push_back(kFullRate);
  std::mt19937 random(slow);
  std::vector<Meeting> asked;  // `at`: when it is answered
  NextMeetings next;
  Nanoseconds since;  // the last meeting
  Counts out;
  for (;;) {
    const auto first =
        std::min_element(asked.begin(), asked.end(), [](const Meeting& a, const Meeting& b) { return a.at < b.at; });
    rank.run_before(first == asked.end() ? kNever : first->at);
    if (rank.engine().meetings().empty()) {
      if (first == asked.end()) return out;
      if (first->kind == Meeting::Kind::arrived) {
        rank.engine().release(first->communicator, first->at);
        next.begin(first->communicator, first->at, kFullRate);
      } else {
        rank.engine().finish(first->communicator, first->at);
        next.end(first->communicator, first->at);
      }
      asked.erase(first);
      continue;
    }
    for (Meeting meeting : rank.engine().meetings()) {
      REQUIRE((out.meetings == 0 || meeting.at >= next.earliest()));
      ++out.meetings;
      if (next.earliest() > since) ++out.known_to_be_later;
      since = meeting.at;
      meeting.at += Nanoseconds{1 + static_cast<std::int64_t>(random() % slow)};
      asked.push_back(meeting);
    }
    rank.engine().clear_meetings();
    next.find(rank.engine(), needs, kernels, most_pace);
  }
}

}  // namespace

TEST_CASE("a rank comes to no meeting before the earliest that is known of it") {
  const MachineProfile machine = *builtin_profile("h200");
  const HostProgram program = hybrid(machine);
  REQUIRE(program.communicators.size() == 2);
  for (const double kernels : {1.0, 1.37, 0.8})
    for (const unsigned slow : {1U, 30'000U, 1'000'000U}) {
      CAPTURE(kernels, slow);
      const Counts counts = play(machine, program, kernels, slow);
      CHECK(counts.meetings > 20);
      CHECK(2 * counts.known_to_be_later > counts.meetings);
    }
}

TEST_CASE("the first of some times, and all to a time") {
  FirstOf order(5);
  CHECK(order.time() == kNever);
  for (const auto& [i, at] : {std::pair{3U, 7}, {1U, 9}, {4U, 7}, {0U, 8}}) order.set(i, {at});
  CHECK(order.first() == 3);
  std::vector<std::size_t> taken;
  order.each_to({8}, [&](std::size_t i) { taken.push_back(i); });
  CHECK(taken == std::vector<std::size_t>{0, 3, 4});
  order.set(3, kNever);
  order.set(4, {10});
  CHECK(order.first() == 0);
  CHECK(order.time() == Nanoseconds{8});
  CHECK(order.of(4) == Nanoseconds{10});
}

}  // namespace foreshard::sim
