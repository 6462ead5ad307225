#include "sim/calibrate/fit_machine.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/collectives/modelled_collectives.hpp"
#include "sim/machine/profile.hpp"
#include "tests/catch.hpp"
#include "tests/sim/calibrate/samples.hpp"

namespace foreshard::sim {
namespace {

/// Times of h200's own mechanisms with other constants: what a fit has to find again.
Measurements measured_on(const MachineProfile& machine, Transport transport, CollectiveKind kind,
                         std::uint32_t ranks = 8) {
  Measurements out;
  out.path = "made up";
  out.format = "nccl-tests text";
  const ModelledCollectives model(machine);
  for (Bytes bytes = kMiB; bytes <= 1024 * kMiB; bytes *= 4)
    out.collectives.push_back(
        {kind, transport, ranks, ranks, bytes, model.price({kind, transport, bytes, ranks, ranks}).period.us()});
  return out;
}

MachineProfile base() {
  MachineProfile machine = *builtin_profile("h200");
  machine.collectives.clear();
  return machine;
}

const FittedConstant* constant(const MachineFit& fit, std::string_view place) {
  for (const FittedConstant& c : fit.constants)
    if (c.place == place) return &c;
  return nullptr;
}

MachineFit fitted(std::vector<Measurements> inputs, const std::string& machine = "h200") {
  auto fit = fit_machine(inputs, {"mine", machine, {}});
  if (!fit) FAIL(fit.error().text());
  return *fit;
}

Error refused(std::vector<Measurements> inputs, const std::string& machine = "h200") {
  const auto fit = fit_machine(inputs, {"mine", machine, {}});
  REQUIRE_FALSE(fit);
  CHECK(fit.error().kind == ErrorKind::mismatch);
  return fit.error();
}

TEST_CASE("least squares finds the constants that made the times") {
  MachineProfile other = base();
  other.links.push = 300;
  const MachineFit push = fitted({measured_on(other, Transport::copy_engine, CollectiveKind::all_gather)});
  REQUIRE(constant(push, "/links/push") != nullptr);
  CHECK(constant(push, "/links/push")->after == Approx(300).epsilon(0.002));
  other.links.gather_channel = 12;
  other.links.ring_drift = 40;
  const MachineFit ring = fitted({measured_on(other, Transport::nccl, CollectiveKind::all_gather)});
  REQUIRE(constant(ring, "/links/gather_channel") != nullptr);
  CHECK(constant(ring, "/links/gather_channel")->after == Approx(12).epsilon(0.02));
}

TEST_CASE("the fitted profile reads, gives measured points back and says what it covers") {
  const MachineFit fit = fitted({*read_measurements(kAllGatherText, "all_gather.txt")});
  const auto profile = parse_profile(fit.json, "mine.json");
  if (!profile) FAIL(profile.error().text());
  CHECK(fit.machine.sources == profile->sources);
  CHECK(fit.machine.collectives.size() == profile->collectives.size());
  CHECK(profile->name == "mine");
  CHECK(fit.tables == 1);
  const ModelledCollectives model(*profile);
  CHECK(model.price({CollectiveKind::all_gather, Transport::nccl, 16 * kMiB, 4, 4}).period.us() == Approx(61.57));
  CHECK(profile->valid_range.bytes->least == kMiB);
  CHECK(profile->valid_range.bytes->most == 16 * kMiB);
  CHECK(profile->valid_range.ranks->most == 4);
  CHECK(profile->valid_range.dtypes == builtin_profile("h200")->valid_range.dtypes);
  CHECK(nlohmann::json::parse(fit.json)["calibration"]["inputs"][0]["format"] == "nccl-tests text");
  CHECK(fit.residuals.size() >= 2);
}

TEST_CASE("a topology gives the node's shape; a wrong base is told by its links") {
  const MachineFit fit = fitted({*read_measurements(kTopology, "topo.xml")});
  const auto profile = parse_profile(fit.json, "mine.json");
  CHECK(profile->links.gpus == 2);
  CHECK(profile->network.nics == 1);
  CHECK(profile->network.nic == 50);
  // As a plan with --topology has it: at the slot's rate, where that is below the port's.
  const MachineFit slow = fitted(
      {*read_measurements(replaced(kTopology, "class=\"0x020000\" link_speed=\"32.0 GT/s PCIe\" link_width=\"16\"",
                                   "class=\"0x020000\" link_speed=\"16.0 GT/s PCIe\" link_width=\"8\""),
                          "topo.xml")});
  CHECK(parse_profile(slow.json, "mine.json")->network.nic == Approx(15.754).epsilon(0.001));
  CHECK(profile->valid_range.bytes->most == builtin_profile("h200")->valid_range.bytes->most);
  CHECK(refused({*read_measurements(kTopology, "topo.xml")}, "a100").hint == "is --base the right machine?");
  CHECK(refused({*read_measurements(kTopology, "topo.xml"), *read_measurements(kAllGatherText, "all_gather.txt")})
            .what.find("4 ranks ran on one node") != std::string::npos);
}

TEST_CASE("contradictions are refused with the files") {
  Measurements first = *read_measurements(kAllGatherText, "all_gather.txt");
  first.path = "first.txt";
  Measurements second = first;
  second.path = "second.txt";
  for (CollectiveSample& sample : second.collectives) sample.us *= 2;
  const Error twice = refused({first, second});
  CHECK(twice.where == "second.txt");
  CHECK(twice.what.find("first.txt") != std::string::npos);
  second = first;
  second.gpu = "NVIDIA A100-SXM4-80GB";
  CHECK(refused({first, second}).what.find("A100") != std::string::npos);
  for (CollectiveSample& sample : first.collectives) sample.us /= 10;
  CHECK(refused({first}).what.find("GB/s over one GPU's links") != std::string::npos);
}

TEST_CASE("the order of the files changes nothing but the record of them") {
  MachineProfile other = base();
  const Measurements a = measured_on(other, Transport::nccl, CollectiveKind::all_gather);
  const Measurements b = measured_on(other, Transport::nccl, CollectiveKind::reduce_scatter);
  auto forwards = nlohmann::json::parse(fitted({a, b}).json), backwards = nlohmann::json::parse(fitted({b, a}).json);
  forwards.erase("calibration");
  backwards.erase("calibration");
  CHECK(forwards == backwards);
}

}  // namespace
}  // namespace foreshard::sim
