#include "gpu/bootstrap/handshake.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

const Key kRunKey("0123456789abcdef", "");
const Key kOtherKey("another run's secret", "");

RankHandshake::FindKey finds(const Key& key) {
  return [key]() -> Result<Key> { return key; };
}

/// One of each kind, with fields that are not the handshake's own.
std::vector<Message> every_message() {
  return {Hello{0, 2, 0, 2, "host", 1, {}},
          Enter{0, "what", "bytes"},
          Heartbeat{},
          Failed{},
          Finish{},
          Welcome{},
          Refused{},
          Gathered{},
          ServerHeartbeat{},
          Abort{},
          LeaveNotice{},
          Greeting{random_block()},
          Challenge{random_block()},
          Proof{random_block()},
          Unproven{}};
}

struct Ends {
  RankHandshake rank;
  RendezvousHandshake rendezvous;

  Message challenge(const Key& key) { return rendezvous.hear(rank.greeting(), key).value(); }
};

}  // namespace

TEST_CASE("two ends that know one secret prove it and read each other's seals") {
  Ends ends;
  const auto proof = ends.rank.hear(ends.challenge(kRunKey), finds(kRunKey));
  REQUIRE(proof);
  REQUIRE(*proof);
  CHECK_FALSE(ends.rendezvous.seals());
  const auto answer = ends.rendezvous.hear(**proof, kRunKey);
  REQUIRE(answer);
  REQUIRE(ends.rendezvous.seals());
  CHECK_FALSE(ends.rank.seals());
  const auto last = ends.rank.hear(*answer, finds(kRunKey));
  REQUIRE(last);
  CHECK_FALSE(*last);
  REQUIRE(ends.rank.seals());
  Seals rank = *ends.rank.seals(), rendezvous = *ends.rendezvous.seals();
  CHECK(rendezvous.incoming.opens("up", rank.outgoing.next("up")));
  CHECK(rank.incoming.opens("down", rendezvous.outgoing.next("down")));
}

TEST_CASE("a rendezvous tells a rank with another secret nothing but its nonce") {
  Ends ends;
  const auto proof = ends.rank.hear(ends.challenge(kRunKey), finds(kOtherKey));
  REQUIRE(proof);
  const auto answer = ends.rendezvous.hear(**proof, kRunKey);
  REQUIRE_FALSE(answer);
  CHECK(answer.error().what == "it does not know the run's secret");
  CHECK_FALSE(ends.rendezvous.seals());
}

TEST_CASE("a rank takes neither its own proof nor one of another connection") {
  Ends ends, earlier;
  const auto old = earlier.rendezvous.hear(**earlier.rank.hear(earlier.challenge(kRunKey), finds(kRunKey)), kRunKey);
  REQUIRE(old);
  const auto proof = ends.rank.hear(ends.challenge(kRunKey), finds(kRunKey));
  for (const Message& false_proof : {Message(**proof), *old}) {
    RankHandshake rank = ends.rank;
    const auto heard = rank.hear(false_proof, finds(kRunKey));
    REQUIRE_FALSE(heard);
    CHECK(heard.error().what == "it does not know the run's secret");
    CHECK_FALSE(rank.seals());
  }
}

TEST_CASE("a rank without a key says why") {
  Ends ends;
  const auto heard = ends.rank.hear(ends.challenge(kRunKey), []() -> Result<Key> {
    return fail(ErrorKind::rendezvous, "there is none", "/run/user/7/foreshard/4000", "hint");
  });
  REQUIRE_FALSE(heard);
  CHECK(heard.error().where == "/run/user/7/foreshard/4000");
}

TEST_CASE("in each state one kind of message leads on, and every other ends the connection") {
  const auto kinds = [](auto hear) {
    std::vector<std::size_t> out;
    for (const Message& message : every_message())
      if (hear(message)) out.push_back(message.index());
    return out;
  };
  const auto index = [](const Message& message) { return std::vector{message.index()}; };
  const auto by_rank = [&](const RankHandshake& at) {
    return kinds([at](const Message& message) mutable {
      RankHandshake rank = at;
      return rank.hear(message, finds(kRunKey)).has_value();
    });
  };
  const auto by_rendezvous = [&](const RendezvousHandshake& at) {
    return kinds([at](const Message& message) mutable {
      RendezvousHandshake rendezvous = at;
      return rendezvous.hear(message, kRunKey).has_value();
    });
  };
  Ends ends;
  CHECK(by_rank(ends.rank) == index(Challenge{}));
  CHECK(by_rendezvous(ends.rendezvous) == index(Greeting{}));
  const auto proof = ends.rank.hear(ends.challenge(kRunKey), finds(kRunKey));
  CHECK(by_rank(ends.rank).empty());
  CHECK(by_rendezvous(ends.rendezvous).empty());
  REQUIRE(ends.rank.hear(*ends.rendezvous.hear(**proof, kRunKey), finds(kRunKey)));
  CHECK(by_rank(ends.rank).empty());
  CHECK(by_rendezvous(ends.rendezvous).empty());
}
