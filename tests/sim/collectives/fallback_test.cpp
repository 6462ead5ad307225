#include "tests/sim/collectives/machine.hpp"

namespace foreshard::sim {
namespace {

using Catch::Matchers::Contains;

std::string path(CollectiveKind kind, Transport transport, std::uint32_t ranks, std::uint32_t per_node,
                 Bytes bytes = kGiB, Reduction reduction = Reduction::sum) {
  return ModelledCollectives(h200()).price({kind, transport, bytes, ranks, per_node, reduction}).path;
}

TEST_CASE("the path says what ran and why it is not what was asked for") {
  const auto gather = CollectiveKind::all_gather;
  const auto scatter = CollectiveKind::reduce_scatter;
  CHECK(path(gather, Transport::nccl, 4, 4) == "NCCL ring, Simple, 24 channels");
  CHECK(path(gather, Transport::copy_engine, 8, 8) == "NCCL copy engines, 7 pushes, no SM");
  CHECK(path(gather, Transport::copy_engine, 16, 8) ==
        "NCCL ring, Simple, 16 channels over 2 nodes: a copy-engine all-gather does not cross nodes (NCCL 2.28)");
  CHECK_THAT(path(gather, Transport::symmetric, 16, 8), Contains("symmetric kernels do not cross nodes"));
  CHECK_THAT(path(scatter, Transport::low_contention, 16, 8), Contains("only GPUs of the same node"));
  CHECK_THAT(path(scatter, Transport::copy_engine, 4, 4),
             Contains("NCCL symmetric kernel") && Contains("no copy-engine reduce-scatter"));
  CHECK_THAT(path(scatter, Transport::copy_engine, 4, 4, kGiB, Reduction::average),
             Contains("NCCL ring") && Contains("ncclSum only"));
  CHECK_THAT(path(scatter, Transport::symmetric, 4, 4, kGiB, Reduction::average), Contains("ncclSum only"));
  CHECK_THAT(path(gather, Transport::symmetric, 8, 8, 80 * kGiB), Contains("64 GiB"));
  CHECK_THAT(path(gather, Transport::symmetric, 8, 8), Contains("no multicast"));
  CHECK_THAT(path(scatter, Transport::nccl_registered, 8, 8), Contains("registration changes nothing"));
  CHECK_THAT(path(CollectiveKind::all_reduce, Transport::symmetric, 8, 8), Contains("no symmetric window"));
}

TEST_CASE("multicast is a switch of the machine") {
  MachineProfile machine = bare_h200();
  const auto of = [&](CollectiveKind kind, Transport transport) { return price(machine, kind, transport, kGiB, 8); };
  const CollectivePrice without = of(CollectiveKind::all_reduce, Transport::nccl);
  const double many_sms = of(CollectiveKind::all_gather, Transport::symmetric).sms;
  machine.links.nvls = true;
  const CollectivePrice with = of(CollectiveKind::all_reduce, Transport::nccl);
  CHECK_THAT(without.path, Contains("ring"));
  CHECK_THAT(with.path, Contains("NVLS"));
  CHECK(with.time < without.time);
  CHECK(many_sms == 9);
  CHECK(of(CollectiveKind::all_gather, Transport::symmetric).sms == 2);
  CHECK(of(CollectiveKind::reduce_scatter, Transport::symmetric).sms == 2);
  // One rank a node has nothing to multicast to.
  CHECK_THAT(price(machine, CollectiveKind::all_reduce, Transport::nccl, kGiB, 4, 1).path, !Contains("NVLS"));
}

TEST_CASE("a fall-back costs what runs instead") {
  const CollectivePrice asked = price(h200(), CollectiveKind::all_gather, Transport::copy_engine, kGiB, 32);
  const CollectivePrice ring = price(h200(), CollectiveKind::all_gather, Transport::nccl, kGiB, 32);
  CHECK(asked.time == ring.time);
  CHECK(asked.sms == ring.sms);
  CHECK(asked.copied_bytes == 0);
}

TEST_CASE("first use: a communicator once, registration where something is registered") {
  const ModelledCollectives model(h200());
  const auto first = [&](Transport transport, std::uint32_t ranks) {
    return model.first_use({CollectiveKind::all_gather, transport, kGiB, ranks, 8});
  };
  CHECK(first(Transport::nccl, 1).communicator == Nanoseconds{0});
  CHECK(first(Transport::nccl, 8).communicator > Nanoseconds{0});
  CHECK(first(Transport::nccl, 64).communicator > first(Transport::nccl, 8).communicator);
  CHECK(first(Transport::nccl, 8).registration == Nanoseconds{0});
  CHECK(first(Transport::copy_engine, 8).registration > Nanoseconds{0});
  CHECK_THAT(first(Transport::symmetric, 8).why, Contains("ncclCommWindowRegister"));
  CHECK(first(Transport::copy_engine, 16).registration == Nanoseconds{0});  // the ring runs instead
}

}  // namespace
}  // namespace foreshard::sim
