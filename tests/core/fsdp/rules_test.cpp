// Rules of FSDP2 that differ between PyTorch versions (fsdp2 semantics 10).
#include <algorithm>

#include "core/fsdp/fsdp_rules.hpp"
#include "tests/core/fsdp/fsdp_fixture.hpp"

namespace foreshard::test {
namespace {

Settings at_version(const char* version) {
  Settings settings = four_gpus();
  settings.pytorch = version;
  return settings;
}

TEST_CASE("rules by version: 2.11's are the defaults, and what differs has words") {
  CHECK(fsdp_rules(kFsdpSchedule) == FsdpRules{});
  CHECK(fsdp_rules("2.11.0+cu130") == FsdpRules{});
  CHECK(differences(fsdp_rules("2.10")).empty());
  CHECK(differences(fsdp_rules("2.7")).size() == 1);
  CHECK(differences(fsdp_rules("2.12")).size() == 1);
}

TEST_CASE("before 2.8 the root keeps its parameters, whatever was asked") {
  Bench old(at_version("2.7"), 3);
  REQUIRE(old.settings.root_reshard_explicit);
  old.forward();
  CHECK(short_form(old.take()) == "U(root) U0 R0 U1 R1 U2 R2");
  Bench since(at_version("2.8"), 3);
  since.forward();
  CHECK(short_form(since.take()) == "U(root) U0 R0 U1 R1 U2 R2 R(root)");
}

TEST_CASE("from 2.12 a group without gradients frees the reduce-scatter input before it") {
  const auto frees = [](const char* version) {
    Bench bench(at_version(version), 2);
    bench.forward();
    bench.fsdp.pre_backward(kRootUnit);
    bench.backward_of(UnitId{2});
    bench.take();
    bench.fsdp.pre_backward(UnitId{1});
    bench.fsdp.post_backward(UnitId{1});  // its parameters are frozen: nothing to reduce
    const auto lines = bench.take();
    CHECK(std::none_of(lines.begin(), lines.end(), [](const std::string& l) { return l.starts_with("a RI"); }));
    const auto freed = std::count(lines.begin(), lines.end(), "f RI 2");
    bench.backend.make_gradients(bench.plans[0]);
    bench.fsdp.backward_final();
    const auto rest = bench.take();
    CHECK(freed + std::count(rest.begin(), rest.end(), "f RI 2") == 1);  // once, now or with the root's reduce
    return freed == 1;
  };
  CHECK_FALSE(frees("2.11"));
  CHECK(frees("2.12"));
}

}  // namespace
}  // namespace foreshard::test
