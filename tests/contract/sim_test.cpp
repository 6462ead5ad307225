#include "sim/collectives/modelled_collectives.hpp"
#include "sim/engine/sim_device.hpp"
#include "sim/machine/address_space.hpp"
#include "tests/contract/device_contract.hpp"

namespace foreshard {
namespace {

TEST_CASE("the simulated device keeps the contract of a back end") {
  const sim::MachineProfile machine = *sim::builtin_profile("h200");
  const sim::ModelledCollectives cost(machine);
  contract::device_contract({.make = [&] { return std::make_unique<sim::SimDevice>(machine, cost); }});
}

TEST_CASE("the simulated memory keeps the contract of a back end") {
  const sim::MachineProfile machine = *sim::builtin_profile("h200");
  contract::memory_contract({.make = [&] { return std::make_unique<sim::SimMemory>(sim::memory_options(machine)); }});
}

}  // namespace
}  // namespace foreshard
