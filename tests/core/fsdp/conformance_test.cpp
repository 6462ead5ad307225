// FSDP2's own tests that state an order or a count, as vectors: for each the name of the test in PyTorch's
// test/distributed/_composable/fsdp/test_fully_shard_comm.py (September 2026), where no other file is named. They hold
// under every version from 2.11 on: of the rules of core/settings/version_rules.hpp partial-units-completed alone moves
// a collective of a unit of one group. What test_reduce_scatter_max_input_buffers_resolves_to_max states is of the
// settings, which have one number for all units: tests/recorder/about_test.py.
//
// Notation: U unshard, R reshard, PB post-backward, as fsdp2 semantics 4.7.
#include <algorithm>
#include <functional>
#include <string_view>

#include "core/settings/pytorch_version.hpp"
#include "core/settings/version_rules.hpp"
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

constexpr std::ptrdiff_t kBlocks = 5;

/// The all-gathers of a backward; checks those of the forward before it, and the reduce-scatters of both. `between` is
/// what the program does between the two passes.
std::ptrdiff_t backward_gathers(const Settings& settings, const std::function<void(Bench&)>& between = {}) {
  Bench bench(settings, kBlocks);
  bench.forward();
  const auto forward = bench.take_all();
  CHECK(collectives(forward, "AG") == kBlocks + 1);
  CHECK(collectives(forward, "RS") == 0);
  if (between) between(bench);
  bench.backward();
  const auto backward = bench.take_all();
  CHECK(collectives(backward, "RS") == kBlocks + 1);
  return collectives(backward, "AG");
}

// With group the all-gathers of backward are over the ranks of the small group.
TEST_CASE("TestFullyShardCommunication.test_fully_shard_communication_count") {
  for (const char* version : kVersions)
    for (const After after : {After::yes, After::no, After::group, After::none}) {
      CAPTURE(version, static_cast<int>(after));
      CHECK(backward_gathers(resharding(version, after)) == (after == After::no     ? 0
                                                             : after == After::none ? kBlocks
                                                                                    : kBlocks + 1));
    }
}

TEST_CASE("TestFullyShardCommunication.test_manual_reshard_with_reshard_after_forward_false") {
  const auto reshard_all = [](Bench& bench) {
    for (const UnitPlan& unit : bench.plans) bench.fsdp.reshard(unit.id);
  };
  for (const char* version : kVersions) {
    CAPTURE(version);
    CHECK(backward_gathers(resharding(version, After::no), reshard_all) == kBlocks + 1);
  }
}

// Of all units, and with recurse=False of the root alone: the others keep what fully_shard was given.
TEST_CASE("TestFullyShardCommunication.test_set_reshard_after_forward") {
  for (const char* version : kVersions)
    for (const bool set : {true, false}) {
      CAPTURE(version, set);
      CHECK(backward_gathers(resharding(version, set ? After::yes : After::no)) == (set ? kBlocks + 1 : 0));
      Settings of_root = resharding(version, set ? After::no : After::yes);
      of_root.reshard_of_unit[""] = {set ? Reshard::Kind::always : Reshard::Kind::never, 0};
      CHECK(backward_gathers(of_root) == (set ? 1 : kBlocks));
    }
  for (const char* version : kVersions) CHECK(backward_gathers(resharding(version, After::none)) == kBlocks);
}

/// A program of its own kind: units by name behind a root that has parameters or none, each of one parameter.
struct Named {
  Named(Settings settings, bool root, std::vector<std::string> wanted)
      : names(std::move(wanted)), bench(settings, units_of(root, names)) {}

  static std::vector<Unit> units_of(bool root, const std::vector<std::string>& names) {
    std::vector<Unit> units{{"", {}}};
    if (root) units.front().parameters = {{"weight", {16, 4}, DType::float32}};
    for (const std::string& name : names) units.push_back({name, {{name + ".weight", {16, 4}, DType::float32}}});
    return units;
  }
  [[nodiscard]] UnitId id(std::string_view name) const {
    const auto at = std::find(names.begin(), names.end(), name);
    return name.empty() ? kRootUnit : UnitId{static_cast<std::uint32_t>(at - names.begin()) + 1};
  }
  void pre_forward(std::string_view name) { bench.fsdp.pre_forward(id(name)); }
  void post_forward(std::string_view name) { bench.fsdp.post_forward(id(name)); }
  void forward(std::string_view name) {
    pre_forward(name);
    post_forward(name);
  }
  void pre_backward(std::string_view name) { bench.fsdp.pre_backward(id(name)); }
  void gradients(std::string_view name) { bench.backend.make_gradients(bench.plans[id(name).value]); }
  void post_backward(std::string_view name) {
    gradients(name);
    bench.fsdp.post_backward(id(name));
  }
  void backward(std::string_view name) {
    pre_backward(name);
    post_backward(name);
  }
  /// short_form() since the last call, with names for numbers: "U(head) R(head) PB(head)".
  std::string take() {
    std::string out;
    const std::string text = short_form(bench.take());
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = std::min(text.find(' ', at), text.size());
      const std::size_t number = text.find_first_of("0123456789(", at);
      const std::string kind = text.substr(at, number - at);
      const std::string unit = text[number] == '(' ? "root" : names[std::stoul(text.substr(number, end - number))];
      out += fmt::format("{}{}({})", out.empty() ? "" : " ", kind, unit);
      at = end + 1;
    }
    return out;
  }

  std::vector<std::string> names;
  Bench bench;
};

// Blocks are checkpointed around their forward and, in it, their MLP's, of which the weight w1 is a unit: it runs
// forward once more with each of the two as backward needs them. Of its pre-forward FSDP2 sees no recomputation.
void run_checkpointed_blocks(Named& model, const std::string& expected) {
  model.pre_forward("");
  model.forward("embeddings");
  for (const char* block : {"0", "1", "2"}) {
    model.pre_forward(block);
    model.forward(fmt::format("{}.w1", block));
    model.post_forward(block);
  }
  model.forward("head");
  model.post_forward("");
  model.take();
  model.backward("head");
  model.pre_backward("");
  for (const char* block : {"2", "1", "0"}) {
    const std::string inner = fmt::format("{}.w1", block);
    model.pre_backward(block);
    model.forward(inner);
    model.forward(inner);
    model.backward(inner);
    model.post_backward(block);
  }
  model.pre_backward("embeddings");
  model.gradients("embeddings");
  model.bench.fsdp.backward_final();
  CHECK(without(model.take(), "P") == expected);
}

TEST_CASE("TestFullyShardPrefetch.test_set_modules_to_backward_prefetch_inside_ac") {
  const std::vector<std::string> names{"embeddings", "0", "0.w1", "1", "1.w1", "2", "2.w1", "head"};
  for (const char* version : kVersions) {
    CAPTURE(version);
    Settings settings = resharding(version, After::yes);
    settings.reshard_of_unit["head"] = {Reshard::Kind::always, 0};
    Named by_default(settings, false, names);
    for (int step = 0; step < 2; ++step)
      run_checkpointed_blocks(by_default,
                              "U(head) U(2) R(head) U(2.w1) U(1) R(2.w1) R(2) U(1.w1) U(0) R(1.w1) R(1) U(0.w1) "
                              "U(embeddings) R(0.w1) R(0) R(embeddings)");
    settings.prefetch_lists.backward = {
        {"head", {"2"}}, {"2", {"1", "1.w1"}}, {"1", {"0", "0.w1"}}, {"0", {"embeddings"}}};
    Named by_list(settings, false, names);
    for (int step = 0; step < 2; ++step)
      run_checkpointed_blocks(by_list,
                              "U(head) U(2) R(head) U(1) U(1.w1) U(2.w1) R(2.w1) R(2) U(0) U(0.w1) R(1.w1) R(1) "
                              "U(embeddings) R(0.w1) R(0) R(embeddings)");
  }
}

TEST_CASE("TestFullyShardPrefetch.test_fully_shard_multi_module_backward_prefetch") {
  const std::vector<std::string> names{"embeddings", "0", "1+2", "3+4", "norm+output"};
  for (const char* version : kVersions) {
    CAPTURE(version);
    Settings settings = resharding(version, After::none);
    settings.reshard_of_unit["norm+output"] = {Reshard::Kind::never, 0};
    Named model(settings, false, names);
    for (int step = 0; step < 3; ++step) {
      model.pre_forward("");
      for (const std::string& name : names) model.forward(name);
      model.post_forward("");
      CHECK(without(model.take(), "R") == "U(embeddings) U(0) U(1+2) U(3+4) U(norm+output)");
      for (const char* name : {"norm+output", "3+4", "1+2", "0"}) model.backward(name);
      model.pre_backward("embeddings");
      model.gradients("embeddings");
      model.bench.fsdp.backward_final();
      CHECK(without(model.take(), "R") ==
            "U(3+4) PB(norm+output) U(1+2) PB(3+4) U(0) PB(1+2) U(embeddings) PB(0) PB(embeddings)");
      model.bench.zero_grad();
    }
  }
}

// Two list units of which one module runs, the first to run, so that neither comes to its post-forward.
TEST_CASE("TestFullyShardPrefetch.test_fully_shard_multi_module_unused_module") {
  for (const char* version : kVersions) {
    CAPTURE(version);
    const bool completes = holds(RuleId::partial_units_completed, version);
    Named model(resharding(version, After::none), true, {"0", "1"});
    for (int step = 0; step < 3; ++step) {
      for (const char* name : {"", "0", "1"}) model.pre_forward(name);
      model.post_forward("");
      CHECK(model.take() == (completes ? "U(root) U(0) U(1) R(1) R(0)" : "U(root) U(0) U(1)"));
      // Hooks on the root's output: its own, and from 2.13 those of the units, in the order of their completion.
      for (const char* name : {"", "1", "0"})
        if (completes || std::string_view(name).empty()) model.pre_backward(name);
      for (const char* name : {"", "0"}) model.gradients(name);
      model.post_backward("1");
      model.bench.fsdp.backward_final();
      CHECK(without(model.take(), "R") == std::string(completes ? "U(1) U(0) " : "") + "PB(1) PB(root) PB(0)");
      model.bench.zero_grad();
      CHECK(model.bench.backend.live() == 0);
    }
  }
}

// One layer, then two beside each other, of whose losses each has a backward of its own.
TEST_CASE("TestFullyShardPrefetch.test_fully_shard_backward_prefetch: unused in backward") {
  for (const char* version : kVersions) {
    CAPTURE(version);
    Named model(resharding(version, After::yes), false, {"0", "1.lin1", "1.lin2"});
    for (int step = 0; step < 2; ++step) {
      model.pre_forward("");
      for (const char* name : {"0", "1.lin1", "1.lin2"}) model.forward(name);
      model.post_forward("");
      CHECK(without(model.take(), "R") == "U(0) U(1.lin1) U(1.lin2)");
      model.bench.fsdp.set_is_last_backward(false);
      model.backward("1.lin2");
      model.backward("0");
      model.bench.fsdp.backward_final();
      // The all-gather of lin1 was prefetched for nothing here, and serves the second backward.
      CHECK(without(model.take(), "R") == "U(1.lin2) U(1.lin1) PB(1.lin2) U(0) PB(0)");
      model.bench.fsdp.set_is_last_backward(true);
      model.backward("1.lin1");
      model.backward("0");
      model.bench.fsdp.backward_final();
      CHECK(without(model.take(), "R") == "U(0) PB(1.lin1) PB(0)");
      model.bench.zero_grad();
      CHECK(model.bench.backend.live() == 0);
    }
  }
}

// Numbers alone are compared there: that the unused all-gather is waited for, freed, and made again.
TEST_CASE("TestFullyShardPrefetch.test_backward_misprefetch") {
  for (const char* version : kVersions) {
    CAPTURE(version);
    Settings settings = resharding(version, After::none);
    settings.prefetch_lists.backward["in_proj"] = {"out_proj"};
    Named model(settings, false, {"in_proj", "out_proj"});
    for (int step = 0; step < 3; ++step) {
      model.bench.zero_grad();
      model.pre_forward("");
      for (const char* name : {"in_proj", "out_proj"}) model.forward(name);
      model.post_forward("");
      for (const char* name : {"out_proj", "in_proj"}) model.backward(name);
      model.bench.fsdp.backward_final();
      CHECK(model.take() ==
            "U(in_proj) R(in_proj) U(out_proj) R(out_proj) U(out_proj) U(in_proj) R(out_proj) PB(out_proj) "
            "U(out_proj) R(in_proj) PB(in_proj)");
      CHECK(model.bench.backend.live() == 2);  // the sharded gradients
    }
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

// test_fully_shard_grad_acc.py, mode "all": microbatches without set_requires_gradient_sync but for the last one, each
// of which reshards behind its backward.
TEST_CASE("TestFullyShardGradientAccumulation.test_gradient_accumulation: how many collectives") {
  constexpr std::ptrdiff_t kMicrobatches = 3;
  for (const char* version : kVersions)
    for (const After after : {After::yes, After::no, After::group})
      for (const std::uint32_t replicate : {1U, 2U}) {
        if (replicate > 1 && after == After::group) continue;  // two shard ranks: 2 is True
        CAPTURE(version, static_cast<int>(after), replicate);
        Settings settings = resharding(version, after);
        settings.replicate = replicate;
        Bench bench(settings, 3);
        for (int step = 0; step < 2; ++step) {
          for (std::ptrdiff_t microbatch = 1; microbatch <= kMicrobatches; ++microbatch) {
            bench.fsdp.set_requires_gradient_sync(microbatch == kMicrobatches);
            bench.forward();
            bench.backward();
          }
          const auto lines = bench.take_all();
          CHECK(collectives(lines, "RS") == 4);
          CHECK(collectives(lines, "AR") == (replicate > 1 ? 4 : 0));
          CHECK(collectives(lines, "AG") == (after == After::no ? 4 : 8) * kMicrobatches);
          bench.zero_grad();
        }
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
