// The sections "compute" and "/host/calls" of a profile: complete in the built-in ones, and refused where wrong.
#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "sim/compute/price_kernel.hpp"
#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

/// Where and why h200 with `change` is refused; empty where it is not.
std::string refusal(const std::function<void(Json&)>& change) {
  Json root = Json::parse(builtin_profile_json("h200").value());
  change(root);
  const auto profile = parse_profile(root.dump(), "changed.json");
  return profile ? std::string() : profile.error().where + ": " + profile.error().what;
}

TEST_CASE("every built-in profile prices kernels and host calls") {
  for (const std::string_view name : builtin_profile_names()) {
    CAPTURE(name);
    const MachineProfile profile = builtin_profile(name).value();
    CHECK(profile.compute.known);
    CHECK(profile.host_calls_known);
    CHECK(profile.host_calls[HostCall::elementwise].count > 1000);
    KernelWork work;
    work.math = {KernelMath::Kind::gemm, DType::bfloat16, false, 1, 8192, 8192, 8192};
    const double rate = 2 * 8192.0 * 8192 * 8192 / price_kernel(profile, work).time.us() * 1e6;
    CHECK(rate > 0.5 * profile.peaks.matrix_bfloat16);
    CHECK(rate < 0.95 * profile.peaks.matrix_bfloat16);
  }
}

Json family() {
  return {{"label", "aten::mul"}, {"access", "row"},
          {"dtype", "bfloat16"},  {"points", {{1024, 2}, {4096, 3}}},
          {"source", "x"},        {"fitted_on", "none: a test"}};
}

Json factors() {
  return {{"kind", "gemm"},
          {"dtype", "float32"},
          {"points", {{64, 64, 64, 1, 1.5}}},
          {"source", "x"},
          {"fitted_on", "none: a test"}};
}

/// Where h200 with a list of measured kernels is refused; empty where it is not.
std::string measured_refusal(const char* key, const Json& first, const Json& second = {}) {
  return refusal([&](Json& root) {
    root["compute"][key] = Json::array({first});
    if (!second.is_null()) root["compute"][key].push_back(second);
  });
}

Json with(Json entry, const char* key, const Json& value) {
  if (value.is_null())
    entry.erase(key);
  else
    entry[key] = value;
  return entry;
}

TEST_CASE("measured kernels are read, and refused with their place where wrong") {
  CHECK(measured_refusal("kernels", family()).empty());
  CHECK(measured_refusal("shapes", factors()).empty());
  CHECK(measured_refusal("kernels", family(), with(family(), "dtype", "float32")).empty());
  const auto at = [](const std::string& text, std::string_view place) { return text.find(place) != std::string::npos; };
  CHECK(measured_refusal("kernels", with(family(), "points", {{1024, 2, 1.9}})).empty());
  CHECK(measured_refusal("shapes", with(factors(), "points", {{64, 64, 64, 1, 1, 1.9}})).empty());
  CHECK(measured_refusal("kernels", with(family(), "points", {{1024, 2, 1.9, 2.4}})).empty());
  CHECK(measured_refusal("shapes", with(factors(), "points", {{64, 64, 64, 1, 1, 1.9, 2.4}})).empty());
  CHECK(at(measured_refusal("kernels", family(), family()), "/compute/kernels/1"));
  CHECK(at(measured_refusal("shapes", factors(), factors()), "/compute/shapes/1"));
  for (const char* key : {"label", "access", "dtype", "points", "source", "fitted_on"}) {
    CAPTURE(key);
    CHECK(at(measured_refusal("kernels", with(family(), key, {})), "/compute/kernels/0"));
  }
  CHECK(at(measured_refusal("kernels", with(family(), "more", 1)), "/compute/kernels/0/more"));
  CHECK(at(measured_refusal("kernels", with(family(), "access", "sideways")), "/compute/kernels/0/access"));
  for (const Json& points :
       {Json::array(), Json{{1024, 2}, {1024, 3}}, Json{{1024, 0}}, Json{{1024}}, Json{{-1, 2}}, Json{{1024, "2"}},
        Json{{1024, 2, 0.5}}, Json{{1024, 2, 3, 0.5}}, Json{{1024, 2, 3, 4, 5}}, Json(1)}) {
    CAPTURE(points.dump());
    CHECK(at(measured_refusal("kernels", with(family(), "points", points)), "/compute/kernels/0/points"));
  }
  CHECK(at(measured_refusal("shapes", with(factors(), "kind", "bytes")), "/compute/shapes/0/kind"));
  CHECK(at(measured_refusal("shapes", with(factors(), "causal", 1)), "/compute/shapes/0/causal"));
  CHECK(
      at(measured_refusal("shapes", with(factors(), "points", {{64, 64, 64, 1, 1000}})), "/compute/shapes/0/points/0"));
  CHECK(at(refusal([](Json& root) { root["compute"]["kernels"] = 1; }), "/compute/kernels"));
  CHECK(at(refusal([](Json& root) {
             root["host"]["program"] = {{"value", "torch"}, {"source", "x"}};
           }),
           "/host/program"));
  CHECK(refusal([](Json& root) { root["host"]["program"] = {{"value", "foreshard"}, {"source", "x"}}; }).empty());
}

TEST_CASE("a profile without the sections is read, and says that it has none") {
  Json root = Json::parse(builtin_profile_json("h200").value());
  root.erase("compute");
  root["host"].erase("calls");
  const MachineProfile profile = parse_profile(root.dump(), "plain.json").value();
  CHECK_FALSE(profile.compute.known);
  CHECK_FALSE(profile.host_calls_known);
}

TEST_CASE("wrong constants of the section are refused with their place") {
  const auto at = [](const std::string& text, std::string_view place) { return text.find(place) != std::string::npos; };
  CHECK(refusal([](Json&) {}).empty());
  CHECK(at(refusal([](Json& r) { r["compute"].erase("vector"); }), "/compute"));
  CHECK(at(refusal([](Json& r) { r["compute"]["tensor"].erase("efficiency"); }), "/compute/tensor"));
  CHECK(at(refusal([](Json& r) { r["compute"]["tensor"]["efficiency"] = 1.5; }), "/compute/tensor/efficiency"));
  CHECK(at(refusal([](Json& r) { r["compute"]["tensor"]["efficiency"] = 0; }), "/compute/tensor/efficiency"));
  CHECK(at(refusal([](Json& r) { r["compute"]["tensor"]["step_clocks"] = -1; }), "/compute/tensor/step_clocks"));
  CHECK(at(refusal([](Json& r) { r["compute"]["tensor"]["speed"] = 1; }), "/compute/tensor"));
  CHECK(at(refusal([](Json& r) { r["compute"]["tensor"].erase("source"); }), "/compute/tensor"));
  CHECK(at(refusal([](Json& r) { r["compute"]["tiles"]["shapes"] = {{256}}; }), "/compute/tiles/shapes/0"));
  CHECK(at(refusal([](Json& r) { r["compute"]["tiles"]["splits"] = Json::array(); }), "/compute/tiles/splits"));
  CHECK(at(refusal([](Json& r) { r["compute"]["rules"].erase("far_octaves"); }), "/compute/rules"));
  CHECK(at(refusal([](Json& r) { r["compute"]["gemms"]["sustained"] = Json::array(); }), "/compute/gemms/sustained"));
  CHECK(at(refusal([](Json& r) {
             r["compute"]["gemms"]["sustained"] = {{4096, 1}, {2048, 1}};
           }),
           "/compute/gemms/sustained/1"));
  CHECK(at(refusal([](Json& r) {
             r["compute"]["attention_forward"]["efficiency"] = {{64, 2}};
           }),
           "/compute/attention_forward/efficiency/0"));
  CHECK(at(refusal([](Json& r) { r["compute"]["memory"].erase("row"); }), "/compute/memory"));
  CHECK(at(refusal([](Json& r) { r["compute"]["memory"]["row"]["memory_share"] = "fast"; }),
           "/compute/memory/row/memory_share"));
  CHECK(at(refusal([](Json& r) { r["compute"]["l2"]["share"] = 2; }), "/compute/l2/share"));
  CHECK(at(refusal([](Json& r) { r["host"]["calls"].erase("view"); }), "/host/calls"));
  CHECK(at(refusal([](Json& r) { r["host"]["calls"]["view"]["unit"] = "ms"; }), "/host/calls/view"));
  CHECK(at(refusal([](Json& r) { r["host"]["calls"]["views"] = r["host"]["calls"]["view"]; }), "/host/calls"));
  CHECK(at(refusal([](Json& r) { r["host"]["cpu_optimizer"].erase("sgd"); }), "/host/cpu_optimizer"));
  CHECK(at(refusal([](Json& r) { r["host"]["cpu_optimizer"]["threads"]["unit"] = "us"; }),
           "/host/cpu_optimizer/threads"));
}

}  // namespace
}  // namespace foreshard::sim
