#include "sim/collectives/measured_collectives.hpp"

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

const MachineProfile& h200() {
  static const MachineProfile kProfile = *builtin_profile("h200");
  return kProfile;
}

CollectivePrice price(CollectiveKind kind, Transport transport, Bytes bytes, std::uint32_t ranks) {
  return MeasuredCollectives(h200()).price({kind, transport, bytes, ranks, 8});
}

TEST_CASE("measured points come out exactly and without a caveat") {
  for (const CollectiveTable& table : h200().collectives)
    for (const CollectiveTable::Point& point : table.points) {
      const CollectivePrice got = price(table.kind, table.transport, point.bytes, table.ranks);
      CHECK(got.time == point.time);
      CHECK(got.uses == table.uses);
      CHECK(got.caveat.empty());
    }
}

TEST_CASE("sizes between, below and beyond the measured ones") {
  // 4 ranks, nccl: 16 MiB takes 61.571 us, 64 MiB 189.862 us; 512 MiB 1249.222, 1 GiB 2415.488.
  const auto time = [](Bytes bytes) { return price(CollectiveKind::all_gather, Transport::nccl, bytes, 4).time; };
  CHECK(time(40 * kMiB) == Nanoseconds{(61571 + 189862) / 2 + 1});
  CHECK(time(1) == Nanoseconds{29718});
  CHECK(time(2 * kGiB) == Nanoseconds{2415488 + 2 * (2415488 - 1249222)});
}

TEST_CASE("other worlds scale by (n-1)/n and say so") {
  const CollectivePrice eight = price(CollectiveKind::reduce_scatter, Transport::nccl, kGiB, 8);
  CHECK(eight.time == Nanoseconds{2501322}.scaled(0.875 / 0.75));
  CHECK(eight.caveat.find("scaled from 4 ranks") != std::string::npos);
  CHECK(price(CollectiveKind::all_gather, Transport::nccl, kGiB, 1).time == Nanoseconds{0});
  const CollectivePrice nodes =
      MeasuredCollectives(h200()).price({CollectiveKind::all_gather, Transport::nccl, kGiB, 16, 8});
  CHECK(nodes.caveat.find("nodes of 8") != std::string::npos);
}

TEST_CASE("transports without a table fall back, and say so") {
  const CollectivePrice registered = price(CollectiveKind::all_gather, Transport::nccl_registered, kGiB, 4);
  CHECK(registered.time == price(CollectiveKind::all_gather, Transport::nccl, kGiB, 4).time);
  CHECK(registered.caveat.find("nccl-registered") != std::string::npos);
  const CollectivePrice low = price(CollectiveKind::all_gather, Transport::low_contention, kGiB, 4);
  CHECK(low.uses == CollectiveResource::copy_engine);
  CHECK_FALSE(low.caveat.empty());
  CHECK(price(CollectiveKind::reduce_scatter, Transport::low_contention, kGiB, 4).uses ==
        CollectiveResource::symmetric);
}

TEST_CASE("an all-reduce of two ranks is 3.2 all-gathers") {
  const CollectivePrice two = price(CollectiveKind::all_reduce, Transport::nccl, 122'000'000, 2);
  CHECK(two.time == price(CollectiveKind::all_gather, Transport::nccl, 122'000'000, 2).time.scaled(3.2));
  CHECK(two.time.us() == Approx(811).margin(1));
  CHECK(two.caveat.empty());
  const CollectivePrice four = price(CollectiveKind::all_reduce, Transport::nccl, 122'000'000, 4);
  CHECK(four.time.us() == Approx(two.time.us() * 1.5));
  CHECK_FALSE(four.caveat.empty());
}

TEST_CASE("more bytes never take less time beyond 4 MiB") {
  // Below, the measurements themselves are not monotone (launch-bound).
  for (const CollectiveTable& table : h200().collectives) {
    Nanoseconds before;
    for (Bytes bytes = 4 * kMiB; bytes < 8 * kGiB; bytes += bytes / 7) {
      const Nanoseconds now = price(table.kind, table.transport, bytes, table.ranks).time;
      CHECK(now >= before);
      before = now;
    }
  }
}

}  // namespace
}  // namespace foreshard::sim
