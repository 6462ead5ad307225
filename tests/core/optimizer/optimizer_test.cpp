// What each optimizer allocates and frees (fsdp2 semantics 6.4).
#include <fmt/format.h>

#include <string>

#include "core/optimizer/optimizer_state.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

/// "m0 v0 …": + allocates, − frees; m exp_avg, v exp_avg_sq, s step, q sqrt, d denominator; the parameter's number.
std::string text(Optimizer optimizer, bool first, std::vector<Bytes> bytes = {100, 200, 300},
                 std::vector<std::uint32_t> param_groups = {0, 0, 0}, std::vector<DType> dtypes = {}) {
  std::vector<OptimizerParameter> parameters;
  dtypes.resize(bytes.size(), DType::float32);
  for (std::uint32_t i = 0; i < bytes.size(); ++i)
    parameters.push_back({ParameterId{i}, bytes[i], param_groups[i], dtypes[i]});
  std::string out;
  for (const OptimizerEvent& e : optimizer_events(optimizer, parameters, first)) {
    CHECK(e.bytes == (e.slot == OptimizerSlot::step ? 4 : bytes[e.parameter.value]));
    out += fmt::format("{}{}{}{}", out.empty() ? "" : " ", e.allocates ? '+' : '-', "mvsqd"[static_cast<int>(e.slot)],
                       e.parameter.value);
  }
  return out;
}

TEST_CASE("foreach Adam: states at the first step, one list of roots at each, dropped in reverse") {
  CHECK(text(Optimizer::adam, true) == "+m0 +v0 +m1 +v1 +m2 +v2 +q0 +q1 +q2 -q2 -q1 -q0");
  CHECK(text(Optimizer::adam, false) == "+q0 +q1 +q2 -q2 -q1 -q0");
}

TEST_CASE("fused Adam: a step scalar before each state, no temporaries") {
  CHECK(text(Optimizer::adam_fused, true) == "+s0 +m0 +v0 +s1 +m1 +v1 +s2 +m2 +v2");
  CHECK(text(Optimizer::adam_fused, false).empty());
}

TEST_CASE("single-tensor Adam: temporaries one parameter at a time") {
  CHECK(text(Optimizer::adam_single, false) == "+q0 +d0 -q0 +q1 +d1 -q1 -d0 +q2 +d2 -q2 -d1 -d2");
}

TEST_CASE("a param_group is done before the next begins") {
  const auto grouped = [](Optimizer optimizer, bool first) {
    return text(optimizer, first, {100, 200, 300}, {0, 0, 1});
  };
  CHECK(grouped(Optimizer::adam, true) == "+m0 +v0 +m1 +v1 +q0 +q1 -q1 -q0 +m2 +v2 +q2 -q2");
  CHECK(grouped(Optimizer::adam, false) == "+q0 +q1 -q1 -q0 +q2 -q2");
  CHECK(grouped(Optimizer::adam_single, false) == "+q0 +d0 -q0 +q1 +d1 -q1 -d0 -d1 +q2 +d2 -q2 -d2");
  CHECK(grouped(Optimizer::adam_fused, true) == text(Optimizer::adam_fused, true));
  CHECK(grouped(Optimizer::sgd, true).empty());
}

TEST_CASE("foreach Adam goes dtype by dtype, the one seen last first, and keeps a list until the next is there") {
  constexpr DType kFloat = DType::float32, kHalf = DType::bfloat16;
  const auto mixed = [](Optimizer optimizer, std::vector<Bytes> bytes = {100, 50, 300, 80}) {
    return text(optimizer, false, std::move(bytes), {0, 0, 0, 0}, {kFloat, kHalf, kFloat, kHalf});
  };
  CHECK(mixed(Optimizer::adam) == "+q1 +q3 +q0 +q2 -q3 -q1 -q2 -q0");
  CHECK(mixed(Optimizer::adam, {100, 0, 300, 0}) == "+q0 +q2 -q2 -q0");
  CHECK(mixed(Optimizer::adam_single) == text(Optimizer::adam_single, false, {100, 50, 300, 80}, {0, 0, 0, 0}));
  CHECK(text(Optimizer::adam, true, {100, 50, 300}, {0, 0, 1}, {kFloat, kHalf, kFloat}) ==
        "+m0 +v0 +m1 +v1 +q1 +q0 -q1 -q0 +m2 +v2 +q2 -q2");
}

TEST_CASE("SGD without momentum allocates nothing") {
  CHECK(text(Optimizer::sgd, true).empty());
  CHECK(text(Optimizer::sgd, false).empty());
}

TEST_CASE("empty shards make no states and no temporaries") {
  CHECK(text(Optimizer::adam, true, {100, 0, 300}) == "+m0 +v0 +m2 +v2 +q0 +q2 -q2 -q0");
  CHECK(text(Optimizer::adam_single, false, {0, 100}) == "+q1 +d1 -q1 -d1");
  CHECK(text(Optimizer::adam, true, {}).empty());
}

}  // namespace
}  // namespace foreshard
