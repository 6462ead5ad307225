// Recordings of other versions' FSDP2 rules, which are in the repository (versions/README.md): each is imported, which
// holds every request and free against its version's rules, and planned to the byte, from itself and from the
// recordings of the other versions.
#include <array>
#include <fstream>

#include "sim/predict/predict.hpp"
#include "tests/catch.hpp"
#include "traces/import/import.hpp"

namespace foreshard::reference {
namespace {

const std::string kFolder = "tests/reference/versions/";
constexpr std::array kRuns{"mlp_2.11", "mlp_2.13_inputs", "mlp_main"};

traces::Imported import_of(const std::string& name) {
  auto imported = traces::import_recording(
      {.snapshot = kFolder + name + ".pickle.xz", .trace = {}, .about = kFolder + name + ".about.json"});
  INFO((imported ? "" : imported.error().text()));
  REQUIRE(imported);
  REQUIRE(imported->workload);
  return std::move(*imported);
}

MemoryPeaks measured(const std::string& name) {
  std::ifstream file(kFolder + "measured.csv");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name + ",")) continue;
    std::array<Bytes, 4> bytes{};
    std::size_t at = line.find(',');
    for (Bytes& value : bytes) {
      value = std::stoull(line.substr(at + 1));
      at = line.find(',', at + 1);
    }
    return {.requested = bytes[0], .allocated = bytes[1], .active = bytes[2], .reserved = bytes[3]};
  }
  FAIL("no line of " << name);
  return {};
}

MemoryPeaks planned(const Workload& workload, const Settings& settings) {
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const auto p = sim::predict(workload, *machine, {settings, {}, 4});
  INFO((p ? "" : p.error().text()));
  REQUIRE(p);
  return p->peaks;
}

TEST_CASE("recordings of 2.13's and main's FSDP2 are planned to the byte, from one another too") {
  for (const std::string from : kRuns) {
    const traces::Imported source = import_of(from);
    for (const std::string to : kRuns) {
      CAPTURE(from, to);
      CHECK(planned(*source.workload, import_of(to).workload->settings) == measured(to));
    }
  }
}

/// What the program asks for and gives back in the last step, in order.
std::vector<std::pair<AllocatorAction, Bytes>> requests(const Workload& workload, const Settings& settings) {
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const auto p = sim::predict(workload, *machine, {settings, {}, 4});
  REQUIRE(p);
  std::vector<std::pair<AllocatorAction, Bytes>> out;
  for (const AllocatorRecord& event : p->run.allocator)
    if ((event.action == AllocatorAction::alloc || event.action == AllocatorAction::free_requested) &&
        event.time >= p->run.steps.back().start)
      out.emplace_back(event.action, event.size);
  return out;
}

TEST_CASE("a plan under main's rules asks and frees in main's order, which is not 2.11's") {
  const Workload older = *import_of("mlp_2.11").workload;
  const Workload main = *import_of("mlp_main").workload;
  CHECK(requests(older, main.settings) == requests(main, main.settings));
  CHECK(requests(main, older.settings) == requests(older, older.settings));
  CHECK(requests(older, older.settings) != requests(older, main.settings));
}

TEST_CASE("under another version's rules a recording is refused") {
  for (const std::string name : {"mlp_2.13_inputs", "mlp_main"}) {
    traces::ImportRequest request{
        .snapshot = kFolder + name + ".pickle.xz", .trace = {}, .about = kFolder + "mlp_2.11.about.json"};
    const auto imported = traces::import_recording(request);
    REQUIRE_FALSE(imported);
    CHECK(imported.error().kind == ErrorKind::mismatch);
  }
}

}  // namespace
}  // namespace foreshard::reference
