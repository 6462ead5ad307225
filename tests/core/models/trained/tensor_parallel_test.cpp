// A generated Llama under tensor parallelism: what a rank holds, and which collectives it issues.
#include <algorithm>
#include <set>

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "tests/catch.hpp"

namespace foreshard {
namespace {

constexpr int kBlocks = 3;

Settings parallel(std::uint32_t parts) {
  Settings s;
  s.gpus = 4;
  s.tensor_parallel = parts;
  s.batch = 2;
  s.seq = 16;
  s.param_dtype = DType::bfloat16;
  return s;
}

ModelConfig divided_llama() {
  return *preset("llama-tiny", {512, kBlocks});  // 8 heads, 2 key heads
}

std::string refused(const ModelConfig& model, const Settings& settings) {
  const auto w = generate(model, settings, {}, 132);
  REQUIRE_FALSE(w);
  CHECK(w.error().kind == ErrorKind::usage);
  return w.error().what;
}

TEST_CASE("local parts of the blocks' linear layers, everything else whole") {
  const auto w = generate(divided_llama(), parallel(2), {}, 132);
  REQUIRE(w);
  const std::vector<Parameter>& block = w->units[1].parameters;
  CHECK(block[1].shape == std::vector<std::int64_t>{256, 512});  // wq
  CHECK(block[4].shape == std::vector<std::int64_t>{512, 256});  // wo
  CHECK(block[0].shape == std::vector<std::int64_t>{512});       // attn_norm
  CHECK(w->units[0].parameters[2].shape == std::vector<std::int64_t>{32000, 512});
  CHECK(w->process_groups == std::vector<ProcessGroup>{{"mesh_tp", 2, 1}});
}

TEST_CASE("two all-reduces a block forward, five backward, each waited for, each of a copy that is freed") {
  const auto w = generate(divided_llama(), parallel(2), {}, 132);
  REQUIRE(w);
  int forward = 0;
  int backward = 0;
  bool back = false;
  bool waiting = false;
  std::set<std::uint32_t> live;
  for (const Op& op : w->steps[1].ops) {
    if (op.kind == OpKind::hook && op.hook == Hook::backward_begin) back = true;
    if (waiting) CHECK(op.kind == OpKind::wait_stream);
    waiting = op.kind == OpKind::collective;
    if (waiting) {
      (back ? backward : forward) += 1;
      CHECK(op.collective == UserCollective{0, CollectiveKind::all_reduce, Bytes{2} * 16 * 512 * 2});
      CHECK(op.user_stream == 1);
    }
    if (op.kind == OpKind::alloc && !op.gradient_of.valid()) live.insert(op.tensor.value);
    if (op.kind == OpKind::free) CHECK(live.erase(op.tensor.value) == 1);
  }
  CHECK(forward == 2 * kBlocks);
  CHECK(backward == 5 * kBlocks);
  CHECK(live.empty());
}

TEST_CASE("a checkpointed block sums its attention again, and stops before its feed-forward's sum") {
  Settings settings = parallel(2);
  settings.checkpoint = Checkpoint::blocks;
  const auto w = generate(divided_llama(), settings, {}, 132);
  REQUIRE(w);
  const auto sums = std::count_if(w->steps[1].ops.begin(), w->steps[1].ops.end(),
                                  [](const Op& op) { return op.kind == OpKind::collective; });
  CHECK(sums == (2 + 5 + 1) * kBlocks);
  CHECK(w->estimates.size() == 1);
}

TEST_CASE("what tensor parallelism is not supported for says so") {
  CHECK(refused(*preset("mlp"), parallel(2)).find("of this family is not supported; llama-* have it") !=
        std::string::npos);
  CHECK(refused(divided_llama(), parallel(4)).find("does not divide llama-tiny's 8 heads, 2 key heads") !=
        std::string::npos);
  ModelConfig compiled = divided_llama();
  compiled.compiled = true;
  CHECK(refused(compiled, parallel(2)).find("together with --compile") != std::string::npos);
  ModelConfig lora = divided_llama();
  lora.lora.rank = 4;
  CHECK(refused(lora, parallel(2)).find("together with") != std::string::npos);
}

}  // namespace
}  // namespace foreshard
