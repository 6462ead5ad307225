#include <thread>
#include <vector>

#include "tests/contract/device_contract.hpp"
#include "tests/contract/host_device.hpp"

namespace foreshard {
namespace {

TEST_CASE("the host device keeps the contract of a back end") {
  HostWorld world;
  contract::device_contract({.make = [&] { return std::make_unique<HostDevice>(world, 0); }, .virtual_time = false});
}

TEST_CASE("the host device's collectives move what their kinds say") {
  constexpr std::size_t kRanks = 3;
  constexpr std::size_t kParts = 2;  // float32 elements for each rank
  HostWorld world;
  using Values = std::vector<float>;
  const auto results = [&](CollectiveKind kind, Reduction reduction = Reduction::sum) {
    std::vector<Values> inputs(kRanks, Values(kRanks * kParts));
    std::vector<Values> outputs(kRanks, Values(kRanks * kParts, -1));
    std::vector<std::thread> ranks;
    for (std::size_t r = 0; r < kRanks; ++r) {
      for (std::size_t i = 0; i < inputs[r].size(); ++i) inputs[r][i] = static_cast<float>(10 * r + i);
      ranks.emplace_back([&, r] {
        HostDevice device(world, static_cast<std::uint32_t>(r));
        const CommunicatorId all = device.create_communicator({"all", kRanks, kRanks, {0, 1, 2}});
        CollectiveWork work{kind, Transport::nccl, kRanks * kParts * sizeof(float), {}};
        work.input = reinterpret_cast<Address>(inputs[r].data());
        work.output = reinterpret_cast<Address>(outputs[r].data());
        work.reduction = reduction;
        static_cast<void>(device.collective(kComputeStream, all, work));
      });
    }
    for (std::thread& rank : ranks) rank.join();
    return outputs;
  };
  const Values own{0, 1, 2, 3, 4, 5};
  const Values untouched(6, -1);
  CHECK(results(CollectiveKind::all_to_all) ==
        std::vector<Values>{{0, 1, 10, 11, 20, 21}, {2, 3, 12, 13, 22, 23}, {4, 5, 14, 15, 24, 25}});
  CHECK(results(CollectiveKind::broadcast) == std::vector<Values>{own, own, own});
  CHECK(results(CollectiveKind::reduce) == std::vector<Values>{{30, 33, 36, 39, 42, 45}, untouched, untouched});
  const Values largest{20, 21, 22, 23, 24, 25};
  CHECK(results(CollectiveKind::all_reduce, Reduction::maximum) == std::vector<Values>{largest, largest, largest});
  CHECK(results(CollectiveKind::send_recv) ==
        std::vector<Values>{{20, 21, 22, 23, 24, 25}, own, {10, 11, 12, 13, 14, 15}});
}

TEST_CASE("the host's memory keeps the contract of a back end") {
  const auto make = [] {
    auto memory = std::make_unique<HostMemory>();
    memory->limit(4 * kGiB);
    return memory;
  };
  contract::memory_contract({.make = make});
}

}  // namespace
}  // namespace foreshard
