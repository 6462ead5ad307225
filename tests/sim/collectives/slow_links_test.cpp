// A degraded NVLink or adapter: nothing is faster for it, and NCCL chooses as if it were not there.
#include <array>
#include <string>

#include "sim/collectives/bound.hpp"
#include "tests/sim/collectives/machine.hpp"

namespace foreshard::sim {
namespace {

struct Shape {
  std::uint32_t ranks, per_node;
};
constexpr std::array kShapes{Shape{2, 8}, Shape{4, 8}, Shape{8, 8}, Shape{16, 8}};
constexpr std::array kSlowdowns{1.05, 4.0};

template <typename Check>
void for_sizes(Check check) {
  for (Bytes bytes = 64 * kKiB; bytes < 2 * kGiB; bytes *= 2) check(bytes);
}

/// Those with tables, with NVLS, and without either.
template <typename Check>
void for_machines(Check check) {
  MachineProfile nvls = bare_h200();
  nvls.links.nvls = true;
  for (const MachineProfile& machine : {h200(), nvls, *builtin_profile("a100")}) {
    INFO(machine.name << (machine.links.nvls ? " with NVLS" : ""));
    check(machine);
  }
}

MachineProfile with_link(MachineProfile machine, double slowdown) {
  machine.links.slow_links = {{0, slowdown}};
  return machine;
}

MachineProfile with_adapter(MachineProfile machine, double slowdown) {
  machine.network.slow_adapters = {{1, 0, slowdown}};
  return machine;
}

}  // namespace

TEST_CASE("a slow NVLink is never faster, and changes nothing of what runs") {
  for_machines([](const MachineProfile& healthy) {
    for (std::size_t i = 0; i < kSlowdowns.size(); ++i) {
      const MachineProfile less = with_link(healthy, i > 0 ? kSlowdowns[i - 1] : 1);
      const MachineProfile more = with_link(healthy, kSlowdowns[i]);
      const ModelledCollectives before(less), after(more);
      for (const CollectiveKind kind : kEnumValues<CollectiveKind>)
        for (const Transport transport : {Transport::nccl, Transport::symmetric, Transport::copy_engine})
          for (const Shape& shape : kShapes)
            for_sizes([&](Bytes bytes) {
              const CollectiveRequest request{kind, transport, bytes, shape.ranks, shape.per_node};
              const CollectivePrice fast = before.price(request), slow = after.price(request);
              if (slow.time >= fast.time && slow.period >= fast.period && slow.path == fast.path) return;
              INFO(dashed_name(kind) << " of " << bytes << " B, " << shape.ranks << " ranks, " << kSlowdowns[i]);
              CHECK(slow.time >= fast.time);
              CHECK(slow.period >= fast.period);
              CHECK(slow.path == fast.path);
            });
    }
  });
}

TEST_CASE("a slow adapter is never faster") {
  for_machines([](const MachineProfile& healthy) {
    for (std::size_t i = 0; i < kSlowdowns.size(); ++i) {
      const MachineProfile less = i > 0 ? with_adapter(healthy, kSlowdowns[i - 1]) : healthy;
      const MachineProfile more = with_adapter(healthy, kSlowdowns[i]);
      const ModelledCollectives before(less), after(more);
      for (const CollectiveKind kind : kEnumValues<CollectiveKind>)
        for (const Shape& shape : {Shape{16, 8}, Shape{64, 8}, Shape{4, 1}})
          for_sizes([&](Bytes bytes) {
            const CollectiveRequest request{kind, Transport::nccl, bytes, shape.ranks, shape.per_node};
            const CollectivePrice fast = before.price(request), slow = after.price(request);
            if (slow.time >= fast.time && slow.period >= fast.period) return;
            INFO(dashed_name(kind) << " of " << bytes << " B, " << shape.ranks << " ranks, " << kSlowdowns[i]);
            CHECK(slow.time >= fast.time);
            CHECK(slow.period >= fast.period);
          });
    }
  });
}

TEST_CASE("a table of many nodes is of healthy adapters") {
  MachineProfile machine = bare_h200();
  machine.collectives.push_back(
      {CollectiveKind::all_gather, Transport::nccl, 16, 8, {{kGiB, Nanoseconds{4'000'000}}}, "a test"});
  CHECK(price(machine, CollectiveKind::all_gather, Transport::nccl, kGiB, 16).time == Nanoseconds{4'000'000});
  const MachineProfile slow = with_adapter(machine, 4);
  CHECK(price(slow, CollectiveKind::all_gather, Transport::nccl, kGiB, 16).time > Nanoseconds{12'000'000});
}

TEST_CASE("at the size where NCCL goes over to Simple a slow link does not keep it at LL") {
  const auto us = [](const MachineProfile& machine) {
    return price(machine, CollectiveKind::all_gather, Transport::nccl, 2 * kMiB, 2).time.us();
  };
  CHECK(us(h200()) == Approx(20.693));
  CHECK(us(with_link(h200(), 1.05)) == Approx(20.829));
}

TEST_CASE("what more speed saves is of the protocol that runs") {
  // LL below 2 MiB, Simple from there on: the latency of either is what holds it, and by about as much.
  for (const Bytes bytes : {kMiB * 3 / 2, 2 * kMiB, 3 * kMiB}) {
    const Holding held = holding(h200(), {CollectiveKind::all_gather, Transport::nccl, bytes, 2, 2});
    CAPTURE(bytes);
    CHECK(held.now == Bound::latency);
    CHECK(held.saves > 0.3);
    CHECK(held.saves < 0.45);
  }
  // Half of a part, or twice its speed, saves half of the time at most, and never costs.
  for (const CollectiveKind kind :
       {CollectiveKind::all_gather, CollectiveKind::reduce_scatter, CollectiveKind::all_reduce})
    for (const Transport transport : {Transport::nccl, Transport::symmetric})
      for (const Shape& shape : {Shape{2, 8}, Shape{8, 8}, Shape{16, 8}})
        for_sizes([&](Bytes bytes) {
          const Holding held = holding(bare_h200(), {kind, transport, bytes, shape.ranks, shape.per_node});
          INFO(dashed_name(kind) << " of " << bytes << " B, " << shape.ranks << " ranks by " << name(transport));
          CHECK(held.saves >= 0);
          CHECK(held.saves <= 0.5001);
        });
}

TEST_CASE("what NCCL chooses on one machine can be timed on another") {
  MachineProfile twice = bare_h200();
  twice.links.ring *= 2;
  const ModelledCollectives now(bare_h200()), same(twice, bare_h200());
  for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::all_reduce})
    for_sizes([&](Bytes bytes) {
      const CollectiveRequest request{kind, Transport::nccl, bytes, 8, 8};
      CHECK(same.price(request).path == now.price(request).path);
      CHECK(same.price(request).time <= now.price(request).time);
    });
}

}  // namespace foreshard::sim
