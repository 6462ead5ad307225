#include "accuracy/baseline.hpp"

#include <cmath>

#include "tests/baseline.hpp"

namespace foreshard::accuracy {
namespace {

using Kind = BaselineChange::Kind;

TEST_CASE("a baseline reads back as it was written, and says where it is wrong") {
  const Baseline baseline{{{"model", "a", "step"}, -0.125}, {{"model", "b; c", "refused"}, 1}};
  const std::string csv = baseline_csv(baseline);
  CHECK(csv == "table,row,metric,value\nmodel,a,step,-0.125000\nmodel,b; c,refused,1.000000\n");
  CHECK(read_baseline(csv, "x") == baseline);
  CHECK(read_baseline("table,row\n", "x").error().where == "x, line 1");
  CHECK(read_baseline("table,row,metric,value\nmodel,a,step\n", "x").error().where == "x, line 2");
  CHECK(read_baseline("table,row,metric,value\nmodel,a,step,1x\n", "x").error().where == "x, line 2");
  CHECK(read_baseline("table,row,metric,value\nm,a,s,1\nm,a,s,1\n", "x").error().what == "a row twice");
}

TEST_CASE("changes are told by kind: worse in size, better, new and gone") {
  const Baseline before{{{"model", "a", "step"}, -0.1},
                        {{"model", "b", "step"}, 0.1},
                        {{"model", "c", "step"}, 0.1},
                        {{"model", "d", "step"}, 0.1},
                        {{"other", "e", "step"}, 0.1}};
  const Baseline now{{{"model", "a", "step"}, 0.2},
                     {{"model", "b", "step"}, -0.05},
                     {{"model", "c", "step"}, 0.1 + kRounding / 2},
                     {{"model", "n", "step"}, 0.1}};
  const auto found = changes(before, now);
  REQUIRE(found.size() == 4);
  CHECK((found[0].kind == Kind::worse && found[0].row == "model, a, step"));
  CHECK(found[1].kind == Kind::better);
  CHECK((found[2].kind == Kind::gone && found[2].row == "model, d, step"));
  CHECK(found[3].kind == Kind::added);
}

TEST_CASE("slowdowns of kernels and collectives side by side are no worse than they were") {
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const auto checks = accuracy::check_contention(*machine);
  Baseline now;
  add_contention(checks, now);
  hold(now);
  double kernels = 0;
  int count = 0;
  for (const accuracy::ContentionCheck& check : checks) {
    if (check.kernel_measured <= 0) continue;
    kernels += std::abs(check.kernel_model - check.kernel_measured);
    ++count;
  }
  CHECK(count > 60);
  CHECK(kernels / count < 0.03);
}

TEST_CASE("published collectives are no worse than they were") {
  Baseline now;
  for (const std::string_view name : sim::builtin_profile_names()) {
    const auto profile = sim::builtin_profile(name);
    REQUIRE(profile);
    add_published_collectives(name, accuracy::check_published(*profile), now);
  }
  hold(now);
}

}  // namespace
}  // namespace foreshard::accuracy
