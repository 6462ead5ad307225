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

TEST_CASE("rules by version: 2.11's are the defaults") {
  CHECK(fsdp_rules(kFsdpSchedule) == FsdpRules{});
  CHECK(fsdp_rules("2.11.0+cu130") == FsdpRules{});
  CHECK(fsdp_rules("2.10") == FsdpRules{});
  CHECK(fsdp_rules("2.7") == FsdpRules{.root_reshards = false});
  CHECK(fsdp_rules("2.12") == FsdpRules{.frees_input_before_idle_group = true});
  CHECK(fsdp_rules("2.13") == FsdpRules{.frees_input_before_idle_group = true,
                                        .keeps_inputs_in_flight = true,
                                        .waits_once_a_stream = true,
                                        .completes_partial_units = true});
  CHECK(fsdp_rules("2.14") == fsdp_rules("2.13"));
  const FsdpRules main = fsdp_rules("main");
  CHECK((main.frees_gather_first && main.frees_gradients_first && main.waits_once_a_stream));
  CHECK((main.completes_partial_units && main.frees_gather_after_backward));
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

/// How many lines begin so.
std::ptrdiff_t beginning(const std::vector<std::string>& lines, std::string_view begin) {
  return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(begin); });
}
/// The most reduce-scatter inputs, all-gather blocks, … at once.
int most_at_once(const std::vector<std::string>& lines, const std::string& kind) {
  int now = 0;
  int most = 0;
  for (const std::string& line : lines) {
    if (line.starts_with("a " + kind + " ")) most = std::max(most, ++now);
    if (line.starts_with("f " + kind + " ")) --now;
  }
  return most;
}

TEST_CASE("up to K reduce-scatter inputs are in flight, the oldest is freed first") {
  for (const std::uint32_t most : {1U, 2U, 3U, 9U}) {
    CAPTURE(most);
    Settings settings = at_version("2.13");
    settings.reduce_scatter_max_input_buffers = most;
    Bench bench(settings, 4);
    bench.forward();
    bench.take();
    bench.backward();
    const auto lines = bench.take_all();
    CHECK(most_at_once(lines, "RI") == std::min<int>(static_cast<int>(most), 5));
    std::string freed;  // backward reduces units 4, 3, 2, 1 and the root, 0
    for (const std::string& line : lines)
      if (line.starts_with("f RI ")) freed += line.back();
    // What the end of backward finds goes from the back, the root's last.
    CHECK(freed == (most < 3 ? "43210" : most == 3 ? "43120" : "12340"));
    CHECK(std::none_of(lines.begin(), lines.end(), [](const auto& l) { return l.find("FREED") != std::string::npos; }));
    // The fourth unit's input goes before the input that would be one too many, and no sooner.
    if (most < 5) CHECK(place(lines, "f RI 4") < place(lines, "a RI " + std::to_string(4 - most) + " 288 cur"));
    if (most > 1 && most < 5)
      CHECK(place(lines, "f RI 4") > place(lines, "a RI " + std::to_string(5 - most) + " 288 cur"));
  }
}

TEST_CASE("the end of backward waits for each group up to 2.12, for each stream from 2.13 on") {
  const auto waits = [](const char* version, std::uint32_t replicate) {
    Settings settings = at_version(version);
    settings.replicate = replicate;
    Bench bench(settings, 3);
    bench.forward();
    bench.fsdp.pre_backward(kRootUnit);
    for (std::uint32_t i = 3; i >= 1; --i) bench.backward_of(UnitId{i});
    bench.backend.make_gradients(bench.plans[0]);
    bench.take_all();
    bench.fsdp.backward_final();
    const auto lines = bench.take_all();
    const auto reduced = std::find_if(lines.begin(), lines.end(), [](const auto& l) { return l.starts_with("a RO"); });
    return beginning({reduced, lines.end()}, "wait cur ");
  };
  CHECK(waits("2.12", 1) == 4 + 1);  // each group, and the last reduce-scatter input
  CHECK(waits("2.13", 1) == 1 + 1);
  CHECK(waits("2.12", 2) == 2 * 4 + 1);  // each group's all-reduce as well
  CHECK(waits("2.13", 2) == 1 + 1);
}

TEST_CASE("on main the block of the gather before goes ahead of the copy-out") {
  const auto before = [](const char* version) {
    Bench bench(at_version(version), 3);
    bench.forward();
    const auto lines = bench.take();
    return place(lines, "f AG 1") < place(lines, "a U 2.0 256 cur");
  };
  CHECK_FALSE(before("2.14"));
  CHECK(before("main"));
}

TEST_CASE("on main every gradient goes ahead of the reduce-scatter's output") {
  const auto before = [](const char* version) {
    Bench bench(at_version(version), 2);
    bench.forward();
    bench.take();
    bench.backward();
    const auto lines = bench.take();
    CHECK(place(lines, "f grad 2.0") < place(lines, "a RO 2 72 RS"));
    return place(lines, "f grad 2.1") < place(lines, "f grad 2.0");  // in reverse: the last goes first
  };
  CHECK_FALSE(before("2.14"));
  CHECK(before("main"));
}

TEST_CASE("a list unit that did not run whole goes at the end of the root's forward from 2.13 on") {
  const auto resharded = [](const char* version) {
    Bench bench(at_version(version), 2);
    for (std::uint32_t unit = 0; unit <= 2; ++unit) bench.fsdp.pre_forward(UnitId{unit});
    bench.fsdp.post_forward(UnitId{2});  // all but the second unit
    CHECK(short_form(bench.take()) == "U(root) U0 U1 R1");
    bench.fsdp.post_forward(kRootUnit);
    const auto lines = bench.take();
    CHECK(lines.back() == "f AG 2");
    return short_form(lines);
  };
  CHECK(resharded("2.12") == "R(root)");
  CHECK(resharded("2.13") == "R(root) R0");
}

// The first unit's module lies in the second's, which is checkpointed around its forward.
TEST_CASE("on main backward frees the block of a forward that it runs again") {
  const auto freed = [](const char* version) {
    Bench bench(at_version(version), 2);
    bench.forward();
    bench.fsdp.pre_backward(kRootUnit);
    bench.fsdp.pre_backward(UnitId{2});  // prefetches the first
    bench.fsdp.pre_forward(UnitId{1});
    bench.fsdp.post_forward(UnitId{1});
    bench.backward_of(UnitId{1});
    bench.backend.make_gradients(bench.plans[2]);
    bench.fsdp.post_backward(UnitId{2});
    bench.backend.make_gradients(bench.plans[0]);
    bench.take_all();
    bench.fsdp.backward_final();
    const bool in_backward = beginning(bench.take(), "f AG 1") == 1;
    bench.zero_grad();
    CHECK(bench.backend.live() == (in_backward ? 0 : 1));
    bench.forward();
    CHECK(beginning(bench.take(), "f AG 1") == (in_backward ? 1 : 2));
    return in_backward;
  };
  CHECK_FALSE(freed("2.11"));
  CHECK_FALSE(freed("2.14"));
  CHECK(freed("main"));
}

TEST_CASE("whatever the version, a step frees what it made") {
  for (const std::string_view version : kKnownPyTorch) {
    CAPTURE(std::string(version));
    Bench bench(at_version(std::string(version).c_str()), 3);
    for (int step = 0; step < 2; ++step) {
      bench.forward();
      bench.backward();
      bench.zero_grad();
    }
    const auto lines = bench.take_all();
    for (const std::string_view wrong : {"DOUBLE", "OP ON", "WAIT FOR", "WORK OUTSIDE"})
      CHECK(beginning(lines, wrong) == 0);
    CHECK(bench.backend.live() == 0);
  }
}

}  // namespace
}  // namespace foreshard::test
