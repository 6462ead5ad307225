// Hook places from annotation ranges: the user's ranges, captures without them, accumulation, the final
// callback's second visits, recordings that begin or end inside a step.
#include "traces/capture/hooks.hpp"

#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "traces/capture/range_meaning.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

const std::vector<Unit> kUnits = {{"", {}}, {"layers.0", {}}, {"layers.1, layers.2", {}}};

Range range(std::string_view name, std::int64_t start_us, std::int64_t end_us) {
  return {name, Nanoseconds::from_us(start_us), Nanoseconds::from_us(end_us)};
}

// FSDP's ranges of one forward and one backward, from `t` on.
void append_fsdp(std::vector<Range>& ranges, std::int64_t t) {
  ranges.push_back(range("FSDP::root_pre_forward", t + 10, t + 12));
  ranges.push_back(range("FSDP::cast_forward_inputs", t + 11, t + 12));
  ranges.push_back(range("FSDP::pre_forward", t + 13, t + 15));
  ranges.push_back(range("FSDP::all_gather", t + 14, t + 15));
  ranges.push_back(range("FSDP::pre_forward (layers.0)", t + 16, t + 17));
  ranges.push_back(range("FSDP::post_forward (layers.0)", t + 18, t + 19));
  ranges.push_back(range("FSDP::pre_forward (layers.1, layers.2)", t + 20, t + 21));
  ranges.push_back(range("FSDP::post_forward (layers.1, layers.2)", t + 22, t + 23));
  ranges.push_back(range("FSDP::post_forward", t + 24, t + 25));
}

void append_backward(std::vector<Range>& ranges, std::int64_t t) {
  ranges.push_back(range("FSDP::pre_backward", t + 31, t + 32));
  ranges.push_back(range("FSDP::pre_backward (layers.1, layers.2)", t + 33, t + 34));
  ranges.push_back(range("FSDP::post_backward_accumulate (layers.1, layers.2)", t + 35, t + 36));
  ranges.push_back(range("FSDP::pre_backward (layers.0)", t + 37, t + 38));
  ranges.push_back(range("FSDP::post_backward_accumulate (layers.0)", t + 39, t + 40));
  ranges.push_back(range("FSDP::root_post_backward_callback", t + 41, t + 48));
  ranges.push_back(range("FSDP::post_backward_accumulate", t + 42, t + 43));
  ranges.push_back(range("FSDP::post_backward_accumulate (layers.1, layers.2)", t + 44, t + 45));
}

void append_step(std::vector<Range>& ranges, std::int64_t t, bool user) {
  if (user) ranges.push_back(range("## zero grad ##", t, t + 5));
  ranges.push_back(range("Optimizer.zero_grad#Adam.zero_grad", t + 1, t + 4));
  if (user) ranges.push_back(range("## forward ##", t + 9, t + 28));
  append_fsdp(ranges, t);
  if (user) ranges.push_back(range("## backward ##", t + 29, t + 50));
  append_backward(ranges, t);
  if (user) ranges.push_back(range("## optimizer ##", t + 52, t + 60));
  ranges.push_back(range("Optimizer.step#Adam.step", t + 53, t + 59));
}

std::string text(const Hooks& hooks, std::int32_t step) {
  static const char* const kNames[] = {"zero_grad",       "microbatch_begin", "forward_begin",  "pre_forward",
                                       "post_forward",    "forward_end",      "backward_begin", "pre_backward",
                                       "post_backward",   "backward_final",   "backward_end",   "microbatch_end",
                                       "optimizer_begin", "optimizer_step",   "optimizer_end",  "outputs_cast"};
  std::string out;
  for (const HookPlace& place : hooks.places) {
    if (place.step != step) continue;
    out += std::string(kNames[static_cast<int>(place.hook)]);
    if (place.unit.valid()) out += "(" + std::to_string(place.unit.value) + ")";
    out += "@" + std::to_string(place.time.count / 1000) + (place.at_end ? "e " : " ");
  }
  return out;
}

}  // namespace

TEST_CASE("a parameter group of several is no part of its unit's name") {
  CHECK(meaning_of("FSDP::pre_forward (layers.3) [pg=2]").unit == "layers.3");
  CHECK(meaning_of("FSDP::pre_forward (layers.3) [pg=2]").group == 2);
  CHECK(meaning_of("FSDP::pre_forward (layers.3 [pg=1])").unit == "layers.3");
  CHECK(meaning_of("FSDP::pre_forward (layers.3 [pg=1])").group == 1);
  CHECK(meaning_of("FSDP::pre_forward [pg=1]").kind == RangeKind::pre_forward);
  CHECK(meaning_of("FSDP::pre_forward (layers.3)").group == 0);
  CHECK(without_group("layers.3 [pg=x]").first == "layers.3 [pg=x]");
  CHECK(meaning_of("FSDP::post_backward_rs_wait (layers.3)").kind == RangeKind::known);
}

TEST_CASE("the ranges of a unit's parameter groups are one hook") {
  std::vector<Unit> units = {{"", {{"norm", {8, 4}}}}, {"layers.0", {{"a", {4}}, {"b", {4}}}, {1, 1}}};
  const std::vector<Range> ranges{
      range("Optimizer.zero_grad#Adam.zero_grad", 1, 2),
      range("FSDP::root_pre_forward", 3, 4),
      range("FSDP::pre_forward", 5, 6),
      range("FSDP::pre_forward (layers.0) [pg=2]", 7, 8),
      range("FSDP::pre_forward (layers.0) [pg=2]", 9, 10),
      range("FSDP::post_forward (layers.0) [pg=2]", 11, 12),
      range("FSDP::post_forward (layers.0) [pg=2]", 13, 14),
      range("FSDP::post_forward", 15, 16),
      range("FSDP::pre_backward", 20, 21),
      range("FSDP::pre_backward (layers.0) [pg=2]", 22, 23),
      range("FSDP::pre_backward (layers.0) [pg=2]", 24, 25),
      range("FSDP::post_backward_accumulate (layers.0) [pg=2]", 26, 27),
      range("FSDP::post_backward_accumulate (layers.0) [pg=2]", 28, 29),
      range("FSDP::root_post_backward_callback", 30, 31),
      range("Optimizer.step#Adam.step", 40, 41),
  };
  const auto hooks = find_hooks(ranges, units);
  REQUIRE(hooks);
  const std::string places = text(*hooks, 0);
  CHECK(places.find("pre_forward(1)@7 post_forward(1)@11 post_forward(0)@15") != std::string::npos);
  CHECK(places.find("pre_backward(1)@22 post_backward(1)@26 backward_final@30") != std::string::npos);
}

TEST_CASE("a recording cut between the ranges of a unit's parameter groups keeps whole hooks") {
  const std::vector<Unit> units = {{"", {{"norm", {8, 4}}}}, {"layers.0", {{"a", {4}}, {"b", {4}}}, {1, 1}}};
  const auto backward_of = [](std::int64_t t) {
    return std::vector<Range>{
        range("FSDP::pre_backward (layers.0) [pg=2]", t, t + 1),
        range("FSDP::pre_backward (layers.0) [pg=2]", t + 2, t + 3),
        range("FSDP::post_backward_accumulate (layers.0) [pg=2]", t + 4, t + 5),
        range("FSDP::post_backward_accumulate (layers.0) [pg=2]", t + 6, t + 7),
        range("FSDP::root_post_backward_callback", t + 8, t + 9),
        range("Optimizer.step#Adam.step", t + 10, t + 11),
    };
  };
  const std::vector<Range> first = backward_of(20);
  std::vector<Range> step{
      range("Optimizer.zero_grad#Adam.zero_grad", 41, 42),
      range("FSDP::root_pre_forward", 43, 44),
      range("FSDP::pre_forward", 45, 46),
      range("FSDP::pre_forward (layers.0) [pg=2]", 47, 48),
      range("FSDP::pre_forward (layers.0) [pg=2]", 49, 50),
      range("FSDP::post_forward (layers.0) [pg=2]", 51, 52),
      range("FSDP::post_forward (layers.0) [pg=2]", 53, 54),
      range("FSDP::post_forward", 55, 56),
      range("FSDP::pre_backward", 60, 61),
  };
  const std::vector<Range> second = backward_of(62);
  step.insert(step.end(), second.begin(), second.end());
  const auto whole = find_hooks(step, units);
  REQUIRE(whole);
  // Of the step before, its last ranges alone: from each of them on.
  for (std::size_t from = 0; from < first.size(); ++from) {
    INFO("from range " << from);
    std::vector<Range> ranges(first.begin() + static_cast<std::ptrdiff_t>(from), first.end());
    ranges.insert(ranges.end(), step.begin(), step.end());
    const auto hooks = find_hooks(ranges, units);
    REQUIRE(hooks);
    REQUIRE(hooks->steps.size() == 2);
    CHECK(hooks->steps[1].complete);
    CHECK(text(*hooks, 1) == text(*whole, 0));
  }
  // Cut at its end, between the two of post-backward: that hook is none.
  for (const std::size_t left : {2U, 3U, 4U, 5U}) {
    INFO("without the last " << left);
    std::vector<Range> ranges = step;
    ranges.resize(step.size() - left);
    const auto hooks = find_hooks(ranges, units);
    REQUIRE(hooks);
    CHECK(!hooks->steps[0].complete);
    CHECK((text(*hooks, 0).find("post_backward(1)@66") != std::string::npos) == (left < 3));
  }
}

TEST_CASE("an empty root's hooks are where FSDP2 acts without a range") {
  const std::vector<Unit> units = {{"", {}}, {"tok", {{"tok", {8, 4}}}}, {"norm, output", {{"norm", {4}}}}};
  std::vector<Range> ranges{
      range("Optimizer.zero_grad#Adam.zero_grad", 1, 4),  range("FSDP::root_pre_forward", 10, 12),
      range("FSDP::pre_forward (tok)", 13, 14),           range("FSDP::post_forward (tok)", 15, 16),
      range("FSDP::cast_forward_outputs", 17, 18),        range("FSDP::pre_forward (norm, output)", 19, 20),
      range("FSDP::post_forward (norm, output)", 21, 22), range("FSDP::cast_forward_outputs", 23, 24),  // the unit's
      range("FSDP::cast_forward_outputs", 25, 26),                                                      // the root's
      range("FSDP::pre_backward (norm, output)", 30, 31), range("FSDP::root_post_backward_callback", 41, 48),
      range("Optimizer.step#Adam.step", 53, 59)};
  const auto hooks = find_hooks(ranges, units);
  REQUIRE(hooks);
  CHECK(text(*hooks, 0) ==
        "zero_grad@1 microbatch_begin@4e forward_begin@10 pre_forward(0)@10 pre_forward(1)@13 post_forward(1)@15 "
        "pre_forward(2)@19 post_forward(2)@21 post_forward(0)@26e forward_end@26e backward_begin@30 "
        "pre_backward(2)@30 backward_final@41 backward_end@48e microbatch_end@48e optimizer_begin@53 "
        "optimizer_step@53 optimizer_end@59e ");
}

TEST_CASE("a cast of the root's outputs is a hook of its own") {
  const std::vector<Unit> units = {
      {"", {{"norm", {4}}}}, {"layers.0", {{"w", {4}}}}, {"layers.1, layers.2", {{"v", {4}}}}};
  std::vector<Range> ranges{range("Optimizer.zero_grad#Adam.zero_grad", 1, 4)};
  append_fsdp(ranges, 0);
  ranges.push_back(range("FSDP::cast_forward_outputs", 26, 27));
  append_backward(ranges, 0);
  const auto hooks = find_hooks(ranges, units);
  REQUIRE(hooks);
  CHECK(text(*hooks, 0).find("post_forward(0)@24 outputs_cast@27e forward_end@27e backward_begin@31") !=
        std::string::npos);
}

TEST_CASE("hook places follow the user's ranges") {
  std::vector<Range> ranges{range("nccl:broadcast", -20, -10)};
  append_step(ranges, 0, true);
  append_step(ranges, 100, true);
  const auto hooks = find_hooks(ranges, kUnits);
  REQUIRE(hooks);
  REQUIRE(hooks->steps.size() == 2);
  CHECK(text(*hooks, 0) ==
        "zero_grad@1 microbatch_begin@4e forward_begin@9 pre_forward(0)@13 pre_forward(1)@16 post_forward(1)@18 "
        "pre_forward(2)@20 post_forward(2)@22 post_forward(0)@24 forward_end@28e backward_begin@29 "
        "pre_backward(0)@31 pre_backward(2)@33 post_backward(2)@35 pre_backward(1)@37 post_backward(1)@39 "
        "backward_final@41 backward_end@50e microbatch_end@50e optimizer_begin@53 optimizer_step@53 "
        "optimizer_end@59e ");
  CHECK(hooks->steps[0].complete);
  CHECK(hooks->steps[0].begin == Nanoseconds::from_us(0));
  CHECK(hooks->steps[0].end == Nanoseconds::from_us(100));
  CHECK(hooks->steps[1].end == Nanoseconds::from_us(160));
  CHECK(hooks->steps[1].complete);
  CHECK(hooks->stats.empty());
}

TEST_CASE("hook places without the user's ranges") {
  std::vector<Range> ranges;
  append_step(ranges, 0, false);
  const auto hooks = find_hooks(ranges, kUnits);
  REQUIRE(hooks);
  REQUIRE(hooks->steps.size() == 1);
  CHECK(hooks->steps[0].complete);
  CHECK(hooks->steps[0].begin == Nanoseconds::from_us(1));
  CHECK(hooks->steps[0].end == Nanoseconds::from_us(59));
  CHECK(text(*hooks, 0) ==
        "zero_grad@1 microbatch_begin@4e forward_begin@10 pre_forward(0)@13 pre_forward(1)@16 post_forward(1)@18 "
        "pre_forward(2)@20 post_forward(2)@22 post_forward(0)@24 forward_end@25e backward_begin@31 "
        "pre_backward(0)@31 pre_backward(2)@33 post_backward(2)@35 pre_backward(1)@37 post_backward(1)@39 "
        "backward_final@41 backward_end@48e microbatch_end@48e optimizer_begin@53 optimizer_step@53 "
        "optimizer_end@59e ");
}

TEST_CASE("a profiler's step range around everything is not the user's forward") {
  std::vector<Range> ranges{range("ProfilerStep#3", -1, 70)};
  append_step(ranges, 0, false);
  const auto hooks = find_hooks(ranges, kUnits);
  REQUIRE(hooks);
  REQUIRE(hooks->steps.size() == 1);
  CHECK(text(*hooks, 0).find("forward_begin@10 ") != std::string::npos);
  CHECK(hooks->steps[0].begin == Nanoseconds::from_us(1));
}

TEST_CASE("accumulation opens the next microbatch where the last one ends") {
  std::vector<Range> ranges{range("Optimizer.zero_grad#SGD.zero_grad", 1, 4)};
  append_fsdp(ranges, 0);
  append_backward(ranges, 0);
  append_fsdp(ranges, 100);
  append_backward(ranges, 100);
  ranges.push_back(range("Optimizer.step#SGD.step", 160, 170));
  const auto hooks = find_hooks(ranges, kUnits);
  REQUIRE(hooks);
  REQUIRE(hooks->steps.size() == 1);
  CHECK(hooks->steps[0].complete);
  CHECK(text(*hooks, 0).find("backward_end@48e microbatch_end@48e microbatch_begin@48e forward_begin@110") !=
        std::string::npos);
  CHECK(hooks->places.back().microbatch == 1);
}

TEST_CASE("a step without zero_grad opens at its forward, one in mid-step stays there") {
  std::vector<Range> ranges;
  append_fsdp(ranges, 0);
  ranges.push_back(range("Optimizer.zero_grad#SGD.zero_grad", 26, 27));
  append_backward(ranges, 0);
  ranges.push_back(range("Optimizer.step#SGD.step", 50, 52));
  append_fsdp(ranges, 100);
  append_backward(ranges, 100);
  ranges.push_back(range("Optimizer.step#SGD.step", 150, 152));
  const auto hooks = find_hooks(ranges, kUnits);
  REQUIRE(hooks);
  REQUIRE(hooks->steps.size() == 2);
  CHECK(text(*hooks, 0).starts_with("microbatch_begin@10 forward_begin@10 "));
  CHECK(text(*hooks, 0).find("forward_end@25e zero_grad@26 backward_begin@31") != std::string::npos);
  CHECK(text(*hooks, 1).starts_with("zero_grad@110 microbatch_begin@110 forward_begin@110 "));
  CHECK(hooks->steps[0].complete);
  CHECK(hooks->steps[1].complete);
}

TEST_CASE("a recording that begins inside a step has an incomplete one first") {
  std::vector<Range> ranges;
  append_backward(ranges, 0);
  ranges.push_back(range("Optimizer.step#SGD.step", 50, 52));
  append_step(ranges, 100, true);
  ranges.push_back(range("Optimizer.zero_grad#SGD.zero_grad", 200, 204));
  const auto hooks = find_hooks(ranges, kUnits);
  REQUIRE(hooks);
  REQUIRE(hooks->steps.size() == 3);
  CHECK_FALSE(hooks->steps[0].complete);
  CHECK(hooks->steps[1].complete);
  CHECK_FALSE(hooks->steps[2].complete);
}

TEST_CASE("several optimizers count as one") {
  std::vector<Range> ranges{range("Optimizer.zero_grad#SGD.zero_grad", 1, 2),
                            range("Optimizer.zero_grad#Adam.zero_grad", 3, 4)};
  append_fsdp(ranges, 0);
  append_backward(ranges, 0);
  ranges.push_back(range("Optimizer.step#SGD.step", 50, 52));
  ranges.push_back(range("Optimizer.step#Adam.step", 54, 58));
  const auto hooks = find_hooks(ranges, kUnits);
  REQUIRE(hooks);
  CHECK(text(*hooks, 0).starts_with("zero_grad@1 microbatch_begin@4e "));
  CHECK(text(*hooks, 0).find("optimizer_begin@50 optimizer_step@50 optimizer_end@58e ") != std::string::npos);
}

TEST_CASE("unknown units are refused, unknown FSDP ranges counted") {
  std::vector<Range> ranges;
  append_step(ranges, 0, false);
  ranges.push_back(range("FSDP::some_new_thing (layers.0)", 62, 63));
  auto hooks = find_hooks(ranges, kUnits);
  REQUIRE(hooks);
  REQUIRE(hooks->stats.size() == 1);
  CHECK(hooks->stats[0].name == "unknown_fsdp_ranges");

  ranges.push_back(range("FSDP::pre_forward (layers.9)", 64, 65));
  hooks = find_hooks(ranges, kUnits);
  REQUIRE_FALSE(hooks);
  CHECK(hooks.error().kind == ErrorKind::mismatch);
  CHECK(hooks.error().what.find("layers.9") != std::string::npos);
}
