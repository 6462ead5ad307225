// Rates that are kept up to date against the full solution, whatever came and went.
#include "sim/network/flow_rates.hpp"

#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/network/max_min.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

using Shares = std::vector<LinkShare>;
using FlowId = FlowRates::FlowId;

struct Coming {
  Shares shares;
  double most = 1;
};

double rate(const FlowRates& rates, FlowId flow) {
  return static_cast<double>(rates.rate(flow)) / static_cast<double>(FlowRates::kWholeRate);
}

Coming random_coming(std::size_t links) {
  Coming out;
  for (std::uint32_t l = 0; l < links; ++l)
    if (*rc::gen::inRange(0, 3) == 0) out.shares.push_back({l, *rc::gen::inRange(1, 8) / 4.0});
  out.most = *rc::gen::inRange(1, 9) / 4.0;
  return out;
}

std::vector<double> random_capacities() {
  return *rc::gen::container<std::vector<double>>(
      static_cast<std::size_t>(*rc::gen::inRange(1, 12)),
      rc::gen::map(rc::gen::inRange(1, 9), [](int quarters) { return quarters / 4.0; }));
}

void equal_to_the_full_solution(const std::vector<double>& capacity, const FlowRates& kept,
                                const std::map<FlowId, Coming>& present) {
  std::vector<Flow> flows;
  for (const auto& [id, flow] : present) flows.push_back({flow.shares, flow.most});
  const std::vector<double> full = max_min_rates(capacity, flows);
  FlowRates anew(capacity);
  std::size_t i = 0;
  for (const auto& [id, flow] : present) {
    RC_ASSERT(std::abs(rate(kept, id) - full[i]) <= 1e-6);
    ++i;
  }
  std::vector<FlowId> ids;
  for (const auto& [id, flow] : present) ids.push_back(anew.add(flow.shares, flow.most));
  i = 0;
  for (const auto& [id, flow] : present) RC_ASSERT(anew.rate(ids[i++]) == kept.rate(id));
}

}  // namespace

TEST_CASE("flows and capacities that change have the rates of the full solution, to the bit those of any history") {
  CHECK(rc::check([] {
    std::vector<double> capacity = random_capacities();
    FlowRates rates(capacity);
    std::map<FlowId, Coming> present;
    for (int step = *rc::gen::inRange(1, 24); step > 0; --step) {
      std::map<FlowId, std::int64_t> before;
      for (const auto& [id, flow] : present) before[id] = rates.rate(id);
      for (int at_once = *rc::gen::inRange(1, 5); at_once > 0; --at_once) {
        if (present.empty() || *rc::gen::inRange(0, 3) > 0) {
          const Coming flow = random_coming(capacity.size());
          present[rates.begin(flow.shares, flow.most)] = flow;
        } else {
          const auto gone = std::next(present.begin(), *rc::gen::inRange(0, static_cast<int>(present.size())));
          rates.end(gone->first);
          before.erase(gone->first);
          present.erase(gone);
        }
      }
      for (int changes = *rc::gen::inRange(0, 3); changes > 0; --changes) {
        const auto link = *rc::gen::inRange<std::uint32_t>(0, static_cast<std::uint32_t>(capacity.size()));
        capacity[link] = *rc::gen::inRange(0, 9) / 4.0;  // or nothing
        rates.set_capacity(link, capacity[link]);
      }
      rates.settle();
      RC_ASSERT(rates.size() == present.size());
      equal_to_the_full_solution(capacity, rates, present);
      for (const auto& [id, flow] : present) {
        const bool told = std::binary_search(rates.changed().begin(), rates.changed().end(), id);
        RC_ASSERT(told == (!before.contains(id) || before[id] != rates.rate(id)));
      }
    }
  }));
}

TEST_CASE("of any shares and capacities no history decides, and no link carries more than it can") {
  CHECK(rc::check([] {
    const auto power = [] { return std::ldexp(1.0, *rc::gen::inRange(-30, 11)); };
    std::vector<double> capacity(static_cast<std::size_t>(*rc::gen::inRange(1, 6)));
    for (double& one : capacity) one = power();
    std::vector<Coming> coming(static_cast<std::size_t>(*rc::gen::inRange(1, 12)));
    for (Coming& flow : coming) {
      for (std::uint32_t l = 0; l < capacity.size(); ++l)
        if (*rc::gen::inRange(0, 2) == 0) flow.shares.push_back({l, power()});
      flow.most = power();
    }
    FlowRates forth(capacity), back(capacity);
    std::vector<FlowId> ids(coming.size()), other(coming.size());
    for (std::size_t i = 0; i < coming.size(); ++i) ids[i] = forth.add(coming[i].shares, coming[i].most);
    for (std::size_t i = coming.size(); i-- > 0;) other[i] = back.add(coming[i].shares, coming[i].most);
    std::vector<double> carried(capacity.size());
    for (std::size_t i = 0; i < coming.size(); ++i) {
      RC_ASSERT(forth.rate(ids[i]) == back.rate(other[i]));
      RC_ASSERT(rate(forth, ids[i]) > 0);
      RC_ASSERT(rate(forth, ids[i]) <= coming[i].most);
      if (forth.rate(ids[i]) == 1) continue;  // a rate is 1 at least, also where its link has less for it
      for (const LinkShare& share : coming[i].shares) carried[share.link] += share.share * rate(forth, ids[i]);
    }
    for (std::size_t l = 0; l < capacity.size(); ++l) RC_ASSERT(carried[l] <= capacity[l] * (1 + 1e-12));
  }));
}

TEST_CASE("a link that is asked for next to nothing holds nobody") {
  FlowRates rates(std::vector<double>{1024, std::ldexp(1.0, -10)});
  rates.add(Shares{{0, 1024}, {1, 1}}, 2);  // could fill link 0, but for link 1
  const FlowId small = rates.add(Shares{{0, std::ldexp(1.0, -30)}}, 1);
  CHECK(rate(rates, small) == 1);
}

TEST_CASE("a link that carries nothing stops its flows and leaves other links to others") {
  FlowRates rates(std::vector<double>{1, 1});
  const FlowId over_both = rates.add(Shares{{0, 1}, {1, 1}}, 1), other = rates.add(Shares{{1, 1}}, 1);
  CHECK(rate(rates, over_both) == 0.5);
  rates.set_capacity(0, 0);
  rates.settle();
  CHECK(rates.rate(over_both) == 0);
  CHECK(rate(rates, other) == 1);
  rates.set_capacity(0, 1);
  rates.settle();
  CHECK(rate(rates, over_both) == 0.5);
  CHECK(rate(rates, other) == 0.5);
}

TEST_CASE("a flow looks only at what hangs together with it through links that can fill") {
  FlowRates rates(std::vector<double>{1, 1, 2, 1});
  const FlowId a = rates.add(Shares{{0, 1}, {2, 1}}, 1);
  const FlowId b = rates.add(Shares{{1, 1}, {2, 1}}, 1);  // link 2 has room for both
  CHECK(rates.looked_at() == 1);
  CHECK(rates.changed() == std::vector{b});
  const FlowId c = rates.add(Shares{{1, 1}, {3, 1}}, 1);
  CHECK(rates.looked_at() == 2);
  CHECK(rates.changed() == std::vector{b, c});
  CHECK(rate(rates, a) == 1);
  CHECK(rate(rates, b) == 0.5);
  rates.remove(b);
  CHECK(rates.changed() == std::vector{c});
  CHECK(rate(rates, c) == 1);
  rates.remove(a);
  CHECK(rates.changed().empty());
  CHECK(rates.add(Shares{{0, 1}}, 1) == a);
}

TEST_CASE("flows that are alike have the same rate to the bit") {
  // Seven of one link of a third each, beside what other links have stopped before: no order among them decides.
  FlowRates rates(std::vector<double>{1, 0.1, 1.0 / 3});
  std::vector<FlowId> alike;
  rates.add(Shares{{0, 1.0 / 3}, {1, 1}}, 1);
  for (int i = 0; i < 7; ++i) alike.push_back(rates.add(Shares{{0, 1.0 / 3}, {2, 1.0 / 7}}, 1));
  for (const FlowId flow : alike) CHECK(rates.rate(flow) == rates.rate(alike[0]));
}

}  // namespace foreshard::sim
