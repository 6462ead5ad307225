// FSDP2's own tests that state an order or a count, as vectors: for each the name of the test in PyTorch's
// test/distributed/_composable/fsdp/test_fully_shard_comm.py (September 2026). They hold under every version from 2.11
// on, since no rule of core/settings/version_rules.hpp moves a collective of a unit of one group.
//
// Notation: U unshard, R reshard, PB post-backward, as fsdp2 semantics 4.7.
#include <algorithm>

#include "core/settings/pytorch_version.hpp"
#include "tests/core/fsdp/fsdp_fixture.hpp"

namespace foreshard::test {
namespace {

constexpr std::array kVersions{"2.11", "2.12", "2.13", "2.14", "main"};

/// fully_shard's reshard_after_forward; `none`: None, which leaves the root unsharded.
enum class After : std::uint8_t { yes, no, group, none };

Settings resharding(const char* version, After after) {
  Settings settings = four_gpus();
  settings.pytorch = version;
  settings.root_reshard_explicit = after != After::none;
  if (after == After::no) settings.reshard_after_forward = {Reshard::Kind::never, 0};
  if (after == After::group) settings.reshard_after_forward = {Reshard::Kind::group, 2};
  return settings;
}

/// Without the words that begin with one of `letters`.
std::string without(const std::string& text, std::string_view letters) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (letters.find(word[0]) == std::string_view::npos) out += (out.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out;
}

std::ptrdiff_t collectives(const std::vector<std::string>& lines, std::string_view kind) {
  const std::string begin = fmt::format("collective {} ", kind);
  return std::count_if(lines.begin(), lines.end(), [&](const std::string& line) { return line.starts_with(begin); });
}

TEST_CASE("TestFullyShardPrefetch.test_fully_shard_backward_prefetch: one forward, one backward") {
  for (const char* version : kVersions)
    for (const After after : {After::yes, After::no, After::group, After::none}) {
      CAPTURE(version, static_cast<int>(after));
      Bench bench(resharding(version, after), 3);
      for (int step = 0; step < 3; ++step) {
        bench.forward();
        CHECK(without(short_form(bench.take()), "R") == "U(root) U0 U1 U2");
        bench.backward();
        const std::string order = without(short_form(bench.take()), "R");
        const std::string root = after == After::none ? "" : "U(root) ";
        CHECK(order == (after == After::no ? "PB2 PB1 PB0 PB(root)" : root + "U2 U1 PB2 U0 PB1 PB0 PB(root)"));
        bench.zero_grad();
        if (after == After::none) break;  // the next forward finds the root sharded: its backward resharded it
      }
    }
}

TEST_CASE("TestFullyShardPrefetch.test_fully_shard_backward_prefetch: two forwards, one backward of the sum") {
  for (const char* version : kVersions)
    for (const After after : {After::yes, After::no, After::group, After::none}) {
      CAPTURE(version, static_cast<int>(after));
      Bench bench(resharding(version, after), 3);
      bench.forward();
      bench.forward();
      const std::string once = "U(root) U0 U1 U2";
      CHECK(without(short_form(bench.take()), "R") == (after == After::no     ? once
                                                       : after == After::none ? once + " U0 U1 U2"
                                                                              : once + " " + once));
      bench.fsdp.pre_backward(kRootUnit);
      for (int pass = 0; pass < 2; ++pass)
        for (std::uint32_t i = 3; i >= 1; --i) bench.backward_of(UnitId{i});
      bench.backend.make_gradients(bench.plans[0]);
      bench.fsdp.backward_final();
      const std::string pass = "U2 U1 PB2 U0 PB1 PB0";
      const std::string first = after == After::no ? without(pass, "U") : pass;
      const bool root = after == After::yes || after == After::group;
      CHECK(without(short_form(bench.take()), "R") == (root ? "U(root) " : "") + first + " " + pass + " PB(root)");
    }
}

TEST_CASE("TestFullyShardPrefetch.test_set_modules_to_forward_prefetch") {
  for (const char* version : kVersions)
    for (const std::uint32_t ahead : {1U, 2U}) {
      CAPTURE(version, ahead);
      Settings settings = resharding(version, After::yes);
      settings.forward_prefetch = ahead;
      Bench bench(settings, 4);
      bench.forward();
      CHECK(short_form(bench.take()) ==
            (ahead == 1 ? "U(root) U0 U1 R0 U2 R1 U3 R2 R3 R(root)" : "U(root) U0 U1 U2 R0 U3 R1 R2 R3 R(root)"));
      bench.backward();
      CHECK(short_form(bench.take()) == "U(root) U3 U2 R3 PB3 U1 R2 PB2 U0 R1 PB1 R0 PB0 R(root) PB(root)");
    }
}

TEST_CASE("TestFullyShardPrefetch.test_set_modules_to_backward_prefetch") {
  for (const char* version : kVersions)
    for (const std::uint32_t ahead : {1U, 2U}) {
      CAPTURE(version, ahead);
      Settings settings = resharding(version, After::yes);
      settings.backward_prefetch = ahead;
      Bench bench(settings, 4);
      bench.forward();
      CHECK(short_form(bench.take()) == "U(root) U0 R0 U1 R1 U2 R2 U3 R3 R(root)");
      bench.backward();
      CHECK(short_form(bench.take()) == (ahead == 1
                                             ? "U(root) U3 U2 R3 PB3 U1 R2 PB2 U0 R1 PB1 R0 PB0 R(root) PB(root)"
                                             : "U(root) U3 U2 U1 R3 PB3 U0 R2 PB2 R1 PB1 R0 PB0 R(root) PB(root)"));
    }
}

TEST_CASE("TestFullyShardCommunication.test_set_reshard_after_forward: how many collectives") {
  constexpr std::uint32_t kBlocks = 5;
  for (const char* version : kVersions)
    for (const After after : {After::yes, After::no, After::none}) {
      CAPTURE(version, static_cast<int>(after));
      Bench bench(resharding(version, after), kBlocks);
      bench.forward();
      const auto forward = bench.take_all();
      CHECK(collectives(forward, "AG") == kBlocks + 1);
      CHECK(collectives(forward, "RS") == 0);
      bench.backward();
      const auto backward = bench.take_all();
      CHECK(collectives(backward, "AG") == (after == After::no ? 0 : after == After::none ? kBlocks : kBlocks + 1));
      CHECK(collectives(backward, "RS") == kBlocks + 1);
    }
}

TEST_CASE("TestFullyShardCommunication.test_set_reduce_scatter_max_input_buffers: the collectives stay the same") {
  for (const After after : {After::yes, After::no})
    for (const std::uint32_t replicate : {1U, 2U}) {
      const auto order = [&](std::uint32_t most) {
        Settings settings = resharding("2.13", after);
        settings.replicate = replicate;
        settings.reduce_scatter_max_input_buffers = most;
        Bench bench(settings, 3);
        bench.forward();
        bench.backward();
        std::vector<std::string> lines = bench.take_all();
        std::erase_if(lines, [](const std::string& line) { return !line.starts_with("collective"); });
        return lines;
      };
      CHECK(order(1) == order(2));
    }
}

/// Each block's two parameters are groups of their own, as with a mesh each.
std::vector<Unit> in_two_groups(std::uint32_t blocks) {
  std::vector<Unit> units = small_units(blocks);
  for (Unit& unit : units)
    if (unit.parameters.size() == 2) unit.groups = {1, 1};
  return units;
}

/// "AG 1[pg=1]" of each all-gather's block and reduce-scatter's input, and "-RI 1" where an input is freed.
std::string groups_in_order(const std::vector<std::string>& lines) {
  std::string out;
  const auto add = [&](const std::string& word) { out += (out.empty() ? "" : " ") + word; };
  for (const std::string& line : lines) {
    const std::size_t end = line.find(' ', 5);
    if (line.starts_with("a AG ")) add("AG" + line.substr(5, end - 5));
    if (line.starts_with("a RI ")) add("RI" + line.substr(5, end - 5));
    if (line.starts_with("f RI ")) add("-" + line.substr(5));
  }
  return out;
}

// FSDPState._pre_forward, _pre_backward and _root_post_backward_final_callback, FSDPParamGroup._backward_prefetch.
TEST_CASE("several groups a unit: gathers in order, reduces in reverse, prefetch by the group of index 1") {
  for (const char* version : {"2.12", "2.13", "2.14", "main"}) {
    CAPTURE(version);
    Bench bench(resharding(version, After::yes), in_two_groups(2));
    for (int step = 0; step < 2; ++step) {
      bench.forward();
      CHECK(groups_in_order(bench.take()) == "AG0 AG1 AG1[pg=1] AG2 AG2[pg=1]");
      bench.backward();
      CHECK(groups_in_order(bench.take()) ==
            "AG0 AG2[pg=1] AG2 AG1[pg=1] AG1 RI2[pg=1] RI2 -2[pg=1] -2 RI1[pg=1] RI1 -1[pg=1] -1 RI0 -0");
      bench.zero_grad();
      CHECK(bench.backend.live() == 0);
    }
  }
}

TEST_CASE("several groups a unit: K inputs in flight, reclaimed by the group that backward reaches first") {
  Settings settings = resharding("2.13", After::yes);
  settings.reduce_scatter_max_input_buffers = 2;
  Bench bench(settings, in_two_groups(2));
  bench.forward();
  bench.take();
  bench.backward();
  CHECK(without(groups_in_order(bench.take()), "A") == "RI2[pg=1] RI2 -2[pg=1] RI1[pg=1] RI1 -2 -1[pg=1] RI0 -1 -0");
}

// FSDPState._root_post_backward_final_callback: reduce_scatter_states.clear() behind a loop over it. Recorded with the
// Python files of 2.13 (docs/versions.md): three inputs of llama-1b are freed as layers.0, layers.1, root.
TEST_CASE("K inputs in flight: the end of backward waits for all and frees from the back, the last one last") {
  Settings settings = resharding("2.13", After::yes);
  settings.reduce_scatter_max_input_buffers = 4;
  Bench bench(settings, 5);
  bench.forward();
  bench.take();
  bench.backward();
  const std::vector<std::string> lines = bench.take();
  CHECK(without(groups_in_order(lines), "A") == "RI5 RI4 RI3 RI2 -5 RI1 -4 RI0 -1 -2 -3 -0");
}

TEST_CASE("several groups a unit: explicit prefetch takes a unit's groups in order forward and in reverse backward") {
  Settings settings = resharding("2.13", After::yes);
  settings.forward_prefetch = 1;
  settings.backward_prefetch = 1;
  Bench bench(settings, in_two_groups(3));
  bench.forward();
  CHECK(groups_in_order(bench.take()) == "AG0 AG1 AG1[pg=1] AG2 AG2[pg=1] AG3 AG3[pg=1]");
  bench.backward();
  CHECK(without(groups_in_order(bench.take()), "R-") == "AG0 AG3[pg=1] AG3 AG2[pg=1] AG2 AG1[pg=1] AG1");
}

}  // namespace
}  // namespace foreshard::test
