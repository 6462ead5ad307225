// Every message of a ring: by hand, and held to the nanosecond against the recurrence and against an event queue.
#include "sim/network/message_ring.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <array>
#include <queue>
#include <tuple>

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

using Times = std::vector<Nanoseconds>;

Times ns(const std::vector<std::int64_t>& counts) {
  Times out;
  for (const std::int64_t count : counts) out.push_back({count});
  return out;
}

Times run(const Times& hops, std::uint32_t steps, Times begin, MessageRing::Way way) {
  MessageRing(hops, way).run(steps, begin);
  return begin;
}

/// The header's recurrence, one message at a time.
Times by_recurrence(const Times& hops, std::uint32_t steps, const Times& begin) {
  const std::size_t n = hops.size();
  if (n < 2 || steps == 0) return begin;
  std::vector<Times> end(steps + 1, begin);
  for (std::uint32_t s = 1; s <= steps; ++s)
    for (std::size_t i = 0; i < n; ++i)
      end[s][i] = (s == 1 ? begin[i] : std::max(end[s - 1][i], end[s - 1][(i + n - 1) % n])) + hops[i];
  Times out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = std::max(end[steps][i], end[steps][(i + n - 1) % n]);
  return out;
}

/// Ranks and hops that know nothing of formulas: a rank sends what it holds and has not sent, when its hop is free.
class EventRing {
 public:
  EventRing(const Times& hops, std::uint32_t steps, const Times& begin)
      : hops_(hops), steps_(steps), ranks_(hops.size()) {
    for (std::uint32_t i = 0; i < ranks_.size(); ++i) post(begin[i], What::begins, i);
  }

  Times run() {
    while (!events_.empty()) {
      const auto [time, sequence, what, rank] = events_.top();
      events_.pop();
      const std::uint32_t next = (rank + 1) % static_cast<std::uint32_t>(ranks_.size());
      if (what == What::begins) ranks_[rank].begun = true;
      if (what == What::arrives) {
        ranks_[rank].busy = false;
        ranks_[rank].done = ranks_[next].done = {time};
        ++ranks_[next].received;
        send(next, {time});
      }
      send(rank, {time});
    }
    Times out;
    for (const Rank& rank : ranks_) out.push_back(rank.done);
    return out;
  }

 private:
  enum class What : std::uint8_t { begins, arrives };
  struct Rank {
    std::uint32_t received = 0, sent = 0;
    bool busy = false, begun = false;
    Nanoseconds done;
  };
  using Event = std::tuple<std::int64_t, std::uint64_t, What, std::uint32_t>;

  void post(Nanoseconds time, What what, std::uint32_t rank) { events_.emplace(time.count, sequence_++, what, rank); }
  void send(std::uint32_t i, Nanoseconds now) {
    Rank& rank = ranks_[i];
    if (!rank.begun || rank.busy || rank.sent == steps_) return;
    if (rank.sent > rank.received) return;  // its own part first, then what came
    rank.busy = true;
    ++rank.sent;
    post(now + hops_[i], What::arrives, i);
  }

  Times hops_;
  std::uint32_t steps_;
  std::vector<Rank> ranks_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t sequence_ = 0;
};

struct Ring {
  Times hops, begin;
  std::uint32_t steps = 0;
};

/// Few different times, or all different; ranks that begin together, or not.
Ring random_ring(int most_ranks) {
  Ring ring;
  const int n = *rc::gen::inRange(1, most_ranks);
  const int kinds = *rc::gen::inRange(1, 4);
  const bool together = *rc::gen::arbitrary<bool>();
  std::vector<std::int64_t> palette;
  for (int i = 0; i < kinds; ++i) palette.push_back(*rc::gen::inRange(0, 1000));
  const bool all_differ = *rc::gen::inRange(0, 4) == 0;
  for (int i = 0; i < n; ++i) {
    const auto one = static_cast<std::size_t>(*rc::gen::inRange(0, kinds));
    ring.hops.push_back({all_differ ? *rc::gen::inRange(0, 1000) : palette[one]});
    ring.begin.push_back({together ? 7 : *rc::gen::inRange(0, 20'000)});
  }
  ring.steps = static_cast<std::uint32_t>(*rc::gen::inRange(0, 3 * n + 2));
  return ring;
}

}  // namespace

TEST_CASE("ranks that begin together wait for the slowest hop at every step") {
  const auto way = GENERATE(MessageRing::Way::by_time, MessageRing::Way::by_message);
  // Alike: a closed form.
  CHECK(run(ns({5, 5, 5, 5}), 3, ns({10, 10, 10, 10}), way) == ns({25, 25, 25, 25}));
  // One slow hop, from rank 1 to rank 2: those two end with it. Rank 3 gets its last message (the second to cross the
  // slow hop) at 10 + 10 + 1, rank 0 the first one at 10 + 1 + 1.
  CHECK(run(ns({1, 10, 1, 1}), 3, ns({0, 0, 0, 0}), way) == ns({12, 30, 30, 21}));
  // A rank that is late by less than the slow hop has queued is not seen.
  CHECK(run(ns({1, 10, 1, 1}), 3, ns({0, 0, 0, 18}), way)[2].count == 30 + 0);
  CHECK(run(ns({1, 10, 1, 1}), 3, ns({0, 0, 0, 19}), way)[2].count == 31);
  // The slow hop's own rank is.
  CHECK(run(ns({1, 10, 1, 1}), 3, ns({0, 18, 0, 0}), way)[2].count == 48);
  CHECK(run(ns({3}), 5, ns({4}), way) == ns({4}));
  CHECK(run(ns({3, 4}), 0, ns({4, 5}), way) == ns({4, 5}));
}

TEST_CASE("both ways are the recurrence, on any ring, one collective after another") {
  CHECK(rc::check([] {
    const Ring ring = random_ring(24);
    Times expected = ring.begin;
    std::array<Times, 3> found{ring.begin, ring.begin, ring.begin};
    std::array<MessageRing, 3> rings{MessageRing(ring.hops), MessageRing(ring.hops, MessageRing::Way::by_time),
                                     MessageRing(ring.hops, MessageRing::Way::by_message)};
    for (int collective = 0; collective < 3; ++collective) {
      expected = by_recurrence(ring.hops, ring.steps, expected);
      for (std::size_t way = 0; way < rings.size(); ++way) {
        rings[way].run(ring.steps, found[way]);
        RC_ASSERT(found[way] == expected);
      }
    }
  }));
}

TEST_CASE("an event queue of ranks and hops gives the same") {
  CHECK(rc::check([] {
    const Ring ring = random_ring(24);
    if (ring.hops.size() < 2 || ring.steps == 0) return;
    RC_ASSERT(EventRing(ring.hops, ring.steps, ring.begin).run() ==
              run(ring.hops, ring.steps, ring.begin, MessageRing::Way::choose));
  }));
}

TEST_CASE("512 ranks with one slow link, 33 collectives: 8.6 million messages") {
  Times hops(512, Nanoseconds{12'345});
  hops[100].count = 98'765;
  Times begin(512);
  for (std::size_t i = 0; i < begin.size(); ++i) begin[i].count = static_cast<std::int64_t>(i * 7919 % 10007);
  Times one = begin, other = begin;
  MessageRing fast(hops), slow(hops, MessageRing::Way::by_message);
  for (int i = 0; i < 33; ++i) {
    fast.run(511, one);
    slow.run(511, other);
  }
  CHECK(one == other);
}

TEST_CASE("the longest times of the largest ring stay inside 63 bits") {
  constexpr std::uint32_t n = 1U << 12;
  Times hops(n, Nanoseconds{3'600'000'000'000});
  hops[5].count = 0;
  Times begin(n);
  MessageRing(hops, MessageRing::Way::by_time).run(MessageRing::kMax - n, begin);
  CHECK(*std::max_element(begin.begin(), begin.end()) ==
        Nanoseconds{(MessageRing::kMax - n) * std::int64_t{3'600'000'000'000}});
}

TEST_CASE("a message's time is its latency and its bytes") {
  CHECK(message_time({500}, 1000, 50) == Nanoseconds{520});
  CHECK(message_time({500}, 1024, 50) == Nanoseconds{520});
  CHECK(message_time({500}, 1030, 50) == Nanoseconds{521});
  CHECK(message_time({500}, 1e18, 1) == Nanoseconds{3'600'000'000'000});
}

}  // namespace foreshard::sim
