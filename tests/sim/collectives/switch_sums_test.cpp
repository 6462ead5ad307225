// All-gathers and reduce-scatters by switches that add and multicast.
#include "sim/collectives/switch_sums.hpp"

#include "tests/sim/collectives/machine.hpp"

namespace foreshard::sim {
namespace {

MachineProfile adding(bool nvls) {
  MachineProfile machine = bare_h200();
  machine.network.sharp = true;
  machine.links.nvls = nvls;
  return machine;
}

Group group(CollectiveKind kind, Bytes bytes, std::uint32_t nodes, std::uint32_t a_node = 8) {
  return group_of({kind, Transport::nccl, bytes, nodes * a_node, a_node});
}

constexpr std::array kBoth{CollectiveKind::all_gather, CollectiveKind::reduce_scatter};

}  // namespace

TEST_CASE("an adapter carries its rail's shards of the other nodes once") {
  const MachineProfile machine = adding(true);
  const double gb_s = machine.network.nic * machine.network.sharp_efficiency;
  for (const CollectiveKind kind : kBoth) {
    const Estimate got = sharp_exchange(machine, group(kind, kGiB, 16));
    CHECK(got.network == Approx(kGiB / 8.0 * 15 / 16));
    CHECK(got.link == kGiB);
    CHECK(got.pattern == NodePattern::aggregation);
    CHECK(got.path == "NCCL NVLS and SHARP, 16 channels");
    CHECK(got.us > got.network / gb_s / 1e3);
  }
  // Without NVLS each GPU passes its rail on to the seven others; alone in its node it has nobody to pass it to.
  CHECK(sharp_exchange(adding(false), group(CollectiveKind::all_gather, kGiB, 16)).link == Approx(kGiB * 7.0 / 8));
  const Estimate alone = sharp_exchange(machine, group(CollectiveKind::all_gather, kGiB, 16, 1));
  CHECK(alone.link == 0);
  CHECK(alone.us == Approx(kGiB * 15.0 / 16 / gb_s / 1e3).epsilon(0.01));
}

TEST_CASE("they run where they are faster: small ones of many nodes, which take a ring many steps") {
  for (const CollectiveKind kind : kBoth) {
    const auto path = [&](const MachineProfile& machine, Bytes bytes, std::uint32_t nodes) {
      return price(machine, kind, Transport::nccl, bytes, nodes * 8).path;
    };
    CHECK(path(adding(true), 4 * kMiB, 64).find("NVLS and SHARP") != std::string::npos);
    CHECK(path(adding(false), 4 * kMiB, 64).find("CollNetDirect and SHARP") != std::string::npos);
    CHECK(path(adding(true), 4 * kGiB, 4).find("NCCL ring") != std::string::npos);
    CHECK(path(adding(true), 4 * kMiB, 1).find("NCCL ring") != std::string::npos);
    const MachineProfile ring = bare_h200();
    CHECK(price(adding(true), kind, Transport::nccl, 4 * kMiB, 512).time <
          price(ring, kind, Transport::nccl, 4 * kMiB, 512).time);
    CHECK_FALSE(price(adding(true), kind, Transport::nccl, 4 * kMiB, 512).caveat.empty());
  }
}

TEST_CASE("each GPU needs an adapter for itself, and a node at most eight") {
  MachineProfile machine = adding(true);
  CHECK(has_sharp_exchange(machine, group(CollectiveKind::all_gather, kMiB, 4)));
  CHECK_FALSE(has_sharp_exchange(machine, group(CollectiveKind::all_reduce, kMiB, 4)));
  CHECK_FALSE(has_sharp_exchange(machine, group(CollectiveKind::broadcast, kMiB, 4)));
  CHECK_FALSE(has_sharp_exchange(machine, group(CollectiveKind::all_gather, kMiB, 1)));
  machine.network.nics = 4;
  CHECK_FALSE(has_sharp_exchange(machine, group(CollectiveKind::all_gather, kMiB, 4)));
  CHECK_FALSE(has_sharp_exchange(bare_h200(), group(CollectiveKind::all_gather, kMiB, 4)));
}

}  // namespace foreshard::sim
