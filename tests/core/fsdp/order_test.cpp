// The order of unshards, reshards and reduces: the conformance vectors of fsdp2 semantics 4.7.
#include "tests/core/fsdp/fsdp_fixture.hpp"

namespace foreshard::test {
namespace {

std::string without_resharding(const std::string& text) {  // 4.7 leaves backward's reshards out where PB stands
  std::string out;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    const std::string word = text.substr(at, end - at);
    if (word[0] != 'R') out += (out.empty() ? "" : " ") + word;
    at = end + 1;
  }
  return out;
}

TEST_CASE("root keeps its parameters when reshard_after_forward was not passed for it") {
  Settings settings = four_gpus();
  settings.root_reshard_explicit = false;
  Bench bench(settings, 3);
  bench.forward();
  CHECK(short_form(bench.take()) == "U(root) U0 R0 U1 R1 U2 R2");
  bench.backward();
  CHECK(without_resharding(short_form(bench.take())) == "U2 U1 PB2 U0 PB1 PB0 PB(root)");
}

TEST_CASE("an explicit reshard of the root gathers it again in backward") {
  Bench bench(four_gpus(), 3);
  bench.forward();
  CHECK(short_form(bench.take()) == "U(root) U0 R0 U1 R1 U2 R2 R(root)");
  bench.backward();
  const std::string backward = short_form(bench.take());
  CHECK(without_resharding(backward) == "U(root) U2 U1 PB2 U0 PB1 PB0 PB(root)");
  CHECK(backward == "U(root) U2 U1 R2 PB2 U0 R1 PB1 R0 PB0 R(root) PB(root)");
}

TEST_CASE("frozen blocks at the front: backward ends before them, the final callback reshards them") {
  Bench bench(four_gpus(), 3);
  bench.forward();
  bench.take();
  bench.fsdp.pre_backward(kRootUnit);
  bench.backward_of(UnitId{3});
  bench.backward_of(UnitId{2});  // its pre-backward prefetches layers.0, which nobody uses
  bench.backend.make_gradients(bench.plans[0]);
  bench.fsdp.backward_final();
  CHECK(bench.backend.live() == 3);  // the sharded gradients of the root and of two blocks
}

TEST_CASE("two forwards, then one backward of the sum") {
  Settings settings = four_gpus();
  settings.root_reshard_explicit = false;
  Bench bench(settings, 3);
  bench.forward();
  bench.take();
  bench.forward();
  CHECK(short_form(bench.take()) == "U0 R0 U1 R1 U2 R2");
  bench.fsdp.pre_backward(kRootUnit);
  for (int pass = 0; pass < 2; ++pass)
    for (std::uint32_t i = 3; i >= 1; --i) bench.backward_of(UnitId{i});
  bench.backend.make_gradients(bench.plans[0]);
  bench.fsdp.backward_final();
  CHECK(without_resharding(short_form(bench.take())) == "U2 U1 PB2 U0 PB1 PB0 U2 U1 PB2 U0 PB1 PB0 PB(root)");
  bench.zero_grad();
  CHECK(bench.backend.live() == 0);
}

TEST_CASE("gradients of a second backward are added before the event that the optimizer waits for") {
  Settings settings = four_gpus();
  settings.accumulate_with_sync = true;
  Bench bench(settings, 1);
  bench.forward();
  bench.backward();
  bench.take_all();
  bench.forward();
  bench.fsdp.pre_backward(kRootUnit);
  bench.take_all();
  bench.backward_of(UnitId{1});
  const std::vector<std::string> lines = bench.take_all();
  std::size_t added = lines.size();
  std::size_t last_record = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].starts_with("f RO")) added = i;  // added to .grad, then dropped
    if (lines[i].starts_with("record RS")) last_record = i;
  }
  REQUIRE(added < lines.size());
  CHECK(added < last_record);
}

TEST_CASE("forward prefetch of one and of two") {
  Settings settings = four_gpus();
  settings.root_reshard_explicit = false;
  settings.forward_prefetch = 1;
  Bench one(settings, 4);
  one.forward();
  CHECK(short_form(one.take()) == "U(root) U0 U1 R0 U2 R1 U3 R2 R3");
  settings.forward_prefetch = 2;
  Bench two(settings, 4);
  two.forward();
  CHECK(short_form(two.take()) == "U(root) U0 U1 U2 R0 U3 R1 R2 R3");
}

TEST_CASE("backward prefetch of two: units without a list, and the root, keep the default rule") {
  Settings settings = four_gpus();
  settings.root_reshard_explicit = false;
  settings.backward_prefetch = 2;
  Bench bench(settings, 4);
  bench.forward();
  bench.take();
  bench.backward();
  // Units 3 and 2 prefetch two; 1 has the list [0]; 0 has none.
  CHECK(short_form(bench.take()) == "U3 U2 U1 R3 PB3 U0 R2 PB2 R1 PB1 R0 PB0 R(root) PB(root)");
}

TEST_CASE("recomputation inside the unit changes nothing") {
  Bench plain(four_gpus(), 3);
  plain.forward();
  plain.backward();
  Bench again(four_gpus(), 3);
  again.forward();
  again.fsdp.pre_backward(kRootUnit);
  for (std::uint32_t i = 3; i >= 1; --i) {
    again.fsdp.pre_backward(UnitId{i});
    again.fsdp.pre_forward(UnitId{i});  // a checkpointed module whose FSDP hooks run again
    again.fsdp.post_forward(UnitId{i});
    again.backend.make_gradients(again.plans[i]);
    again.fsdp.post_backward(UnitId{i});
  }
  again.backend.make_gradients(again.plans[0]);
  again.fsdp.backward_final();
  CHECK(again.take_all() == plain.take_all());
}

TEST_CASE("lists by module replace the counted rule, and reshard can be set by unit") {
  Settings settings = four_gpus();
  settings.root_reshard_explicit = false;
  settings.prefetch_lists.forward["layers.0"] = {"layers.2", "layers.1"};
  settings.prefetch_lists.backward["layers.2"] = {"layers.0"};
  settings.reshard_of_unit["layers.1"] = {Reshard::Kind::never, 0};
  Bench bench(settings, 3);
  bench.forward();
  CHECK(short_form(bench.take()) == "U(root) U0 U2 U1 R0 R2");
  bench.backward();  // 1 is still there; 2 prefetches 0, and 1's default target 0 is already pending
  CHECK(short_form(bench.take()) == "U2 U0 R2 PB2 R1 PB1 R0 PB0 R(root) PB(root)");
}

TEST_CASE("a prefetch that nobody uses is cleaned up by the final callback") {
  Settings settings = four_gpus();
  for (const bool async : {false, true}) {
    settings.unshard_async = async;
    settings.prefetch_lists.backward["layers.0"] = {"layers.1"};  // already done by then
    Bench bench(settings, 2);
    bench.forward();
    bench.take();
    bench.backward();
    const std::vector<std::string> lines = bench.take();
    CHECK(short_form(lines) == "U(root) U1 U0 R1 PB1 U1 R0 PB0 R(root) PB(root)");
    // Finalize walks the root first; the pending block goes in its unit's turn, then the last RS input.
    CHECK(lines[lines.size() - 2] == "f AG 2");
    CHECK(lines.back() == "f RI 0");
    bench.zero_grad();
    CHECK(bench.backend.live() == 0);
  }
}

TEST_CASE("on one rank an unused prefetch leaves nothing to wait for") {
  Settings settings;  // one GPU
  settings.prefetch_lists.backward["layers.0"] = {"layers.1"};
  Bench bench(settings, 2);
  bench.forward();
  bench.backward();
  const std::vector<std::string> lines = bench.take_all();
  CHECK(std::find(lines.begin(), lines.end(), "WAIT FOR NO EVENT") == lines.end());
  bench.zero_grad();
  CHECK(bench.backend.live() == 0);
}

TEST_CASE("a second backward accumulates into the sharded gradients of the first") {
  Settings settings = four_gpus();
  settings.accumulate_with_sync = true;
  Bench bench(settings, 1);
  bench.forward();
  bench.backward();
  bench.take();
  bench.forward();
  bench.take();
  bench.backward();
  const std::vector<std::string> lines = bench.take();
  // The fresh block is added in place to the .grad that is there and freed, before the last gradient goes.
  const auto output = std::find(lines.begin(), lines.end(), "a RO 1 72 RS");
  REQUIRE(output != lines.end());
  CHECK(*(output + 1) == "f RO 1");
  CHECK(*(output + 2) == "f grad 1.1");
}

}  // namespace
}  // namespace foreshard::test
