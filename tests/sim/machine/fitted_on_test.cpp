#include "sim/machine/fitted_on.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/workload/pytorch_costs.hpp"
#include "tests/catch.hpp"
#include "tests/sim/machine/profile_text.hpp"

namespace foreshard::sim {
namespace {

/// A profile that changes one constant, with `more` in it.
std::string changed(const std::string& schema, const std::string& more, const std::string& rest = "") {
  return R"({"schema": )" + schema + R"(, "name": "mine", "extends": "h200", "network": {"nic": {"value": 25,
    "unit": "GB/s", "source": "ours")" +
         more + "}}" + rest + "}";
}

const FittedOn& constant(const MachineProfile& profile, std::string_view place) {
  const auto& all = profile.provenance.constants;
  const auto it = std::find_if(all.begin(), all.end(), [&](const FittedOn& one) { return one.place == place; });
  REQUIRE(it != all.end());
  return *it;
}

TEST_CASE("every constant of every built-in profile says what it was fitted on, or that it was not") {
  for (const std::string_view name : builtin_profile_names()) {
    INFO(name);
    const MachineProfile profile = *builtin_profile(name);
    CHECK(stated(profile.provenance, ConstantUse::model));
    for (const FittedOn& one : profile.provenance.constants) {
      INFO(one.place);
      const bool none = one.kind == FittedOn::Kind::nothing;
      CHECK((none ? one.names.empty() && !one.why.empty() : !one.names.empty()));
    }
  }
}

TEST_CASE("host calls of the h200 profile saw the reference runs of 2026-11-21, and no run of later") {
  const MachineProfile profile = *builtin_profile("h200");
  CHECK(constant(profile, "/host/calls/gemm").names == std::vector<std::string>{"reference-runs"});
  const auto seen = seen_by(profile.provenance, ConstantUse::model);
  for (const char* run : {"hf_gpt2", "l1b_implicit", "mlp8_stacks", "seed_transformer"}) CHECK(seen.contains(run));
  for (const char* run : {"every_l1b", "compile_l1b", "w8_l8b_implicit", "comm_nccl_8.json"})
    CHECK_FALSE(seen.contains(run));
  const auto of_collectives = seen_by(profile.provenance, ConstantUse::collective);
  CHECK(of_collectives.contains("comm_nccl_4.json"));
}

TEST_CASE("what PyTorch's own work costs was fitted on measurements that the h200 profile names") {
  const MachineProfile profile = *builtin_profile("h200");
  for (const PyTorchCost& cost : pytorch_costs::kAll) {
    INFO(cost.name);
    CHECK(cost.value > 0);
    CHECK_FALSE(cost.source.empty());
    const auto& all = profile.provenance.measurements;
    CHECK((cost.fitted_on.empty() || std::any_of(all.begin(), all.end(), [&](const Measurement& measurement) {
             return measurement.name == cost.fitted_on;
           })));
  }
}

TEST_CASE("a complete profile of schema 2 takes what it lacks from h200") {
  auto old = nlohmann::json::parse(h200());
  old["schema"] = 2;
  for (const char* key : {"prediction", "table_correction"}) old.erase(key);
  for (const char* key : {"tiles", "rules"}) old["compute"].erase(key);
  for (const char* key : {"busy_link", "cluster", "one_wave"}) old["contention"].erase(key);
  old["links"].erase("ring_sharpness");
  const auto read = parse_profile(old.dump(), "old.json");
  if (!read) FAIL(read.error().text());
  const MachineProfile profile = *builtin_profile("h200");
  CHECK(read->prediction.typical_host_scale == profile.prediction.typical_host_scale);
  CHECK(read->contention.one_wave == profile.contention.one_wave);
  CHECK(read->compute.tiles.shapes.size() == 14);
  old["schema"] = 3;
  CHECK(error_of(old.dump()).what == "'busy_link' is missing");
}

TEST_CASE("what was taken from h200 keeps what h200 fitted it on") {
  const MachineProfile h100 = *builtin_profile("h100");
  CHECK(constant(h100, "/host/calls/gemm").names == std::vector<std::string>{"reference-runs"});
  CHECK(seen_by(h100.provenance, ConstantUse::collective).contains("simai"));
  CHECK_FALSE(seen_by(h100.provenance, ConstantUse::collective).contains("megatron"));
  CHECK_FALSE(seen_by(h100.provenance, ConstantUse::collective).contains("low-contention"));
}

TEST_CASE("a constant of schema 3 says what it was fitted on; one of schema 2 may leave it open") {
  CHECK(error_of(changed("3", "")).what == "a constant says what it was fitted on");
  CHECK(error_of(changed("3", "")).where == "machine.json /network/nic");
  const auto documented = parse_profile(changed("3", R"(, "fitted_on": "none: documented")"), "mine.json");
  REQUIRE(documented);
  CHECK(constant(*documented, "/network/nic").why == "documented");
  const auto old = parse_profile(changed("2", ""), "mine.json");
  REQUIRE(old);
  CHECK(constant(*old, "/network/nic").kind == FittedOn::Kind::not_stated);
  CHECK_FALSE(stated(old->provenance, ConstantUse::model));
}

TEST_CASE("fitted_on names measurements of the profile") {
  const Error unknown = error_of(changed("3", R"(, "fitted_on": ["reference-run"])"));
  CHECK(unknown.where == "machine.json /network/nic/fitted_on/0");
  CHECK(unknown.hint == "did you mean 'reference-runs'?");
  CHECK(error_of(changed("3", R"(, "fitted_on": "documented")")).where == "machine.json /network/nic/fitted_on");
  CHECK(error_of(changed("3", R"(, "fitted_on": [])")).where == "machine.json /network/nic/fitted_on");
  const auto mine = parse_profile(changed("3", R"(, "fitted_on": ["our-bench"])",
                                          R"(, "measurements": {"our-bench": {"of": ["ours.json"], "source": "we"}})"),
                                  "mine.json");
  if (!mine) FAIL(mine.error().text());
  CHECK(seen_by(mine->provenance, ConstantUse::collective).contains("ours.json"));
  CHECK(error_of(changed("3", "", R"(, "measurements": {"calibration": {"of": [], "source": "x"}})")).where ==
        "machine.json /measurements/calibration");
  CHECK(error_of(changed("3", "", R"(, "measurements": {"a": {"of": [1], "source": "x"}})")).where ==
        "machine.json /measurements/a/of");
}

TEST_CASE("'calibration' stands for the inputs of the profile's own record") {
  const auto mine = parse_profile(
      changed("3", R"(, "fitted_on": ["calibration"])",
              R"(, "calibration": {"inputs": [{"path": "runs/l1b_new.trace.json.xz"}, {"path": 3}, "x"]})"),
      "mine.json");
  if (!mine) FAIL(mine.error().text());
  CHECK(seen_by(mine->provenance, ConstantUse::recording).contains("l1b_new"));
}

}  // namespace
}  // namespace foreshard::sim
