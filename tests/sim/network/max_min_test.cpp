// Fair shares: by hand, and by what defines them.
#include "sim/network/max_min.hpp"

#include <rapidcheck.h>

#include <algorithm>

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

using Shares = std::vector<LinkShare>;

std::vector<double> rates(const std::vector<double>& capacity, const std::vector<std::pair<Shares, double>>& flows) {
  std::vector<Flow> all;
  for (const auto& [shares, most] : flows) all.push_back({shares, most});
  return max_min_rates(capacity, all);
}

std::pair<Shares, double> random_flow(std::size_t links) {
  Shares shares;
  for (std::uint32_t l = 0; l < links; ++l)
    if (*rc::gen::inRange(0, 3) == 0) shares.push_back({l, *rc::gen::inRange(1, 8) / 4.0});
  return {shares, *rc::gen::inRange(1, 9) / 4.0};
}

std::vector<double> random_capacity() {
  return *rc::gen::container<std::vector<double>>(
      static_cast<std::size_t>(*rc::gen::inRange(1, 12)),
      rc::gen::map(rc::gen::inRange(1, 9), [](int quarters) { return quarters / 4.0; }));
}

}  // namespace

TEST_CASE("flows of one link share it evenly, and leave what they cannot use") {
  CHECK(rates({1}, {{{{0, 1}}, 1}, {{{0, 1}}, 1}}) == std::vector{0.5, 0.5});
  CHECK(rates({1}, {{{{0, 1}}, 0.25}, {{{0, 1}}, 1}}) == std::vector{0.25, 0.75});
  // One that has another link to itself takes what the first link's flows leave.
  CHECK(rates({1, 2}, {{{{0, 1}}, 9}, {{{0, 1}, {1, 1}}, 9}, {{{1, 1}}, 9}}) == std::vector{0.5, 0.5, 1.5});
  // A collective with two messages on a link counts twice.
  CHECK(rates({1}, {{{{0, 2}}, 1}, {{{0, 1}}, 1}}) == std::vector{1.0 / 3, 1.0 / 3});
  CHECK(rates({1}, {{{}, 3}}) == std::vector{3.0});
  // One that nothing holds does not stop where others do.
  const double endless = std::numeric_limits<double>::infinity();
  CHECK(rates({1}, {{{}, endless}, {{{0, 1}}, endless}}) == std::vector{endless, 1.0});
}

TEST_CASE("no flow can be raised without lowering one that is no faster") {
  CHECK(rc::check([] {
    const std::vector<double> capacity = random_capacity();
    std::vector<std::pair<Shares, double>> flows;
    for (int i = *rc::gen::inRange(1, 10); i > 0; --i) flows.push_back(random_flow(capacity.size()));
    const std::vector<double> rate = rates(capacity, flows);
    std::vector<double> used(capacity.size());
    for (std::size_t i = 0; i < flows.size(); ++i)
      for (const LinkShare& share : flows[i].first) used[share.link] += share.share * rate[i];
    for (std::size_t l = 0; l < capacity.size(); ++l) RC_ASSERT(used[l] <= capacity[l] * (1 + 1e-9));
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (rate[i] == flows[i].second) continue;
      RC_ASSERT(rate[i] < flows[i].second);
      const bool held = std::any_of(flows[i].first.begin(), flows[i].first.end(), [&](const LinkShare& share) {
        if (used[share.link] < capacity[share.link] * (1 - 1e-9)) return false;
        for (std::size_t j = 0; j < flows.size(); ++j)
          for (const LinkShare& other : flows[j].first)
            if (other.link == share.link && rate[j] > rate[i] * (1 + 1e-9)) return false;
        return true;
      });
      RC_ASSERT(held);
    }
  }));
}

}  // namespace foreshard::sim
