// What exchanges of experts cost the host: /host/calls of h200 against what tools/probe_exchange.py measured.
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/machine/profile.hpp"
#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

namespace foreshard::sim {
namespace {

TEST_CASE("what exchanges cost h200's host is what was measured, at the speed of the profile's host") {
  const MachineProfile machine = builtin_profile("h200").value();
  const auto us = [&](HostCall call) { return machine.host_calls[call].us(); };
  // expert_major, whose time says how fast the measured host was: ten elementwise kernels, three reductions, four
  // views.
  const double anchor = 10 * us(HostCall::elementwise) + 3 * us(HostCall::reduction) + 4 * us(HostCall::view);
  const auto file = nlohmann::json::parse(test::file_bytes("sim/machine/measured/h200_exchange_host.json"));
  std::map<HostCall, double> mean;
  for (const auto& run : file["quartiles_us"]) {
    REQUIRE(run["ranks"] == 2);  // with one rank expert_major copies nothing
    const auto median = [&](const char* part) { return run["parts_us"][part][1].get<double>(); };
    const double share = anchor / median("expert_major") / static_cast<double>(file["quartiles_us"].size());
    mean[HostCall::all_to_all] += share * (median("all_to_all_single") + median("all_to_all_single_autograd")) / 2;
    mean[HostCall::all_to_all_wait] += share * (median("wait_tensor") + 2 * median("wait by the first use")) / 3;
    mean[HostCall::backward_all_to_all] += share * median("all_to_all_single_autograd, backward");
  }
  for (const auto& [call, time] : mean) {
    CAPTURE(name(call));
    CHECK(us(call) == Approx(time).margin(0.5));
  }
}

TEST_CASE("a complete profile of before takes what exchanges cost from h200, with what that was fitted on") {
  auto profile = nlohmann::json::parse(builtin_profile_json("h200").value());
  auto& calls = profile["host"]["calls"];
  for (const char* call : {"all_to_all", "all_to_all_wait", "backward_all_to_all"}) calls.erase(call);
  profile["measurements"].erase("exchange-host-runs");
  const auto read = parse_profile(profile.dump(), "before.json");
  INFO((read ? "" : read.error().text()));
  REQUIRE(read);
  CHECK(read->host_calls[HostCall::all_to_all] == builtin_profile("h200")->host_calls[HostCall::all_to_all]);
}

}  // namespace
}  // namespace foreshard::sim
