// A link that flaps: when it is down, and which links a job can say it of.
#include "sim/network/flapping_link.hpp"

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

Flap flap(std::int64_t down, std::int64_t period, std::int64_t phase) {
  Flap out;
  out.link.down = {down};
  out.link.period = {period};
  out.phase = {phase};
  return out;
}

}  // namespace

TEST_CASE("a link is down for the same part of every period, before its phase too") {
  const Flap one = flap(20, 100, 30);
  for (const std::int64_t period : {-200LL, -100LL, 0LL, 100LL, 1'000'000'000'000LL}) {
    CHECK_FALSE(one.is_down({period + 29}));
    CHECK(one.is_down({period + 30}));
    CHECK(one.is_down({period + 49}));
    CHECK_FALSE(one.is_down({period + 50}));
    CHECK(one.next_change({period + 29}) == Nanoseconds{period + 30});
    CHECK(one.next_change({period + 30}) == Nanoseconds{period + 50});
    CHECK(one.next_change({period + 49}) == Nanoseconds{period + 50});
    CHECK(one.next_change({period + 50}) == Nanoseconds{period + 130});
  }
  const Flap across = flap(20, 100, 90);  // of the period before time 0
  CHECK(across.is_down({}));
  CHECK(across.next_change({}) == Nanoseconds{10});
}

TEST_CASE("a link that is down for no time never changes") {
  const Flap never = flap(0, 100, 30);
  CHECK_FALSE(never.is_down({30}));
  CHECK(never.next_change({30}).count == INT64_MAX);
}

TEST_CASE("a link that carries nothing for longer than the transport tries ends the job") {
  CHECK(kTransportGivesUp.count == 30'064'771'072);
  FlappingLink link;
  link.down = kTransportGivesUp;
  link.period = {2 * kTransportGivesUp.count};
  CHECK(ends_job(link));
  link.left = 0.01;
  CHECK_FALSE(ends_job(link));
  link.left = 0;
  --link.down.count;
  CHECK_FALSE(ends_job(link));
}

TEST_CASE("only links that the job uses flap") {
  Network network;
  network.nics = 8;
  const auto refusal = [&](const FlappingLink& link, std::uint32_t nodes) {
    const auto checked = check_flapping_link({network, 8, 8, nodes}, link);
    REQUIRE_FALSE(checked);
    CHECK(checked.error().kind == ErrorKind::usage);
    return checked.error().what;
  };
  FlappingLink link;
  link.place = 1;
  link.adapter = 3;
  CHECK(check_flapping_link({network, 8, 8, 2}, link));
  CHECK(refusal(link, 1).find("on one node") != std::string::npos);
  link.place = 2;
  CHECK(refusal(link, 2).find("no adapter 2.3") != std::string::npos);
  link.kind = FlappingLink::Kind::uplinks;
  CHECK(refusal(link, 8).find("no leaf switches") != std::string::npos);
  network.leaf_nodes = 4;
  CHECK(refusal(link, 4).find("no leaf switches") != std::string::npos);
  CHECK(refusal(link, 8).find("no leaf switch 2 in a job of 2") != std::string::npos);
  CHECK(check_flapping_link({network, 8, 8, 9}, link));
}

}  // namespace foreshard::sim
