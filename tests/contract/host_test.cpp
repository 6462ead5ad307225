#include "tests/contract/device_contract.hpp"
#include "tests/contract/host_device.hpp"

namespace foreshard {
namespace {

TEST_CASE("the host device keeps the contract of a back end") {
  HostWorld world;
  contract::device_contract({.make = [&] { return std::make_unique<HostDevice>(world, 0); }, .virtual_time = false});
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
