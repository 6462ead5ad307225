#include <nlohmann/json.hpp>

#include "sim/machine/merge_profile.hpp"
#include "tests/catch.hpp"
#include "tests/sim/machine/profile_text.hpp"

namespace foreshard::sim {
namespace {

std::string extending(const std::string& more) {
  return R"({"schema": 2, "name": "mine", "extends": "h200")" + more + "}";
}

TEST_CASE("a profile that extends another changes single numbers and keeps the rest") {
  const auto mine = parse_profile(
      extending(R"(, "network": {"nic": {"value": 25, "unit": "GB/s", "source": "our HDR adapters"}})"), "mine.json");
  if (!mine) FAIL(mine.error().text());
  const MachineProfile base = *builtin_profile("h200");
  CHECK(mine->name == "mine");
  CHECK(mine->network.nic == 25);
  CHECK(mine->network.nics == base.network.nics);
  CHECK(mine->collectives.size() == base.collectives.size());
  bool told = false;
  for (const auto& [place, source] : mine->sources) told |= place == "/network/nic" && source == "our HDR adapters";
  CHECK(told);
}

TEST_CASE("a changed constant brings its own unit and source") {
  CHECK(error_of(extending(R"(, "network": {"nic": {"value": 25}})")).what == "'unit' is missing");
  CHECK(error_of(extending(R"(, "network": {"nic": {"value": 25, "unit": "GB/s"}})")).what ==
        "a constant needs a source");
  CHECK(error_of(extending(R"(, "network": {"nik": {"value": 25, "unit": "GB/s", "source": "x"}})")).where ==
        "machine.json /network/nik");
  CHECK(error_of(extending(R"(, "netwerk": {})")).hint == "did you mean 'network'?");
}

TEST_CASE("tables of collectives replace those of the same kind, transport and ranks") {
  const auto table = [](const char* ranks) {
    return std::string(R"({"kind": "all-gather", "transport": "nccl", "source": "test", "ranks": )") + ranks +
           R"(, "bytes_us": [[1, 2.5]]})";
  };
  const auto mine = parse_profile(extending(", \"collectives\": [" + table("4") + "," + table("5") + "]"), "mine.json");
  if (!mine) FAIL(mine.error().text());
  CHECK(mine->collectives.size() == builtin_profile("h200")->collectives.size() + 1);
  CHECK(mine->collectives.front().points.size() == 1);
  CHECK(mine->collectives.back().ranks == 5);
  CHECK(error_of(extending(", \"collectives\": [" + table("4") + "," + table("4") + "]")).what.find("a second table") !=
        std::string::npos);
  CHECK(parse_profile(extending(", \"collectives\": null"), "mine.json")->collectives.empty());
}

TEST_CASE("extending what is not there is refused with the known names") {
  const Error unknown = error_of(R"({"schema": 2, "name": "mine", "extends": "h20"})");
  CHECK(unknown.where == "machine.json /extends");
  CHECK(unknown.hint.find("h200") != std::string::npos);
  CHECK(error_of(R"({"schema": 2, "name": "mine", "extends": 3})").where == "machine.json /extends");
  CHECK(error_of(R"({"schema": 2, "extends": "h200", "name": null})").what == "'name' is missing");
}

}  // namespace
}  // namespace foreshard::sim
