// Single rules of memory and of order on the GPU (fsdp2 semantics 2, 3, 11), each with its lines written out.
#include <algorithm>

#include "tests/core/fsdp/fsdp_fixture.hpp"

namespace foreshard::test {
namespace {

using Lines = std::vector<std::string>;

std::size_t place(const Lines& lines, const std::string& line) {
  const auto it = std::find(lines.begin(), lines.end(), line);
  INFO("no line " << line);
  REQUIRE(it != lines.end());
  return static_cast<std::size_t>(it - lines.begin());
}

bool has(const Lines& lines, const std::string& line) {
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

TEST_CASE("experts that no other rank shards: the copy in place of a reduction divides first") {
  std::vector<Unit> units = small_units(1);
  Parameter experts{"layers.0.experts.w", {4, 8}, DType::float32};
  experts.expert_parallel = true;
  units.push_back({"layers.0.experts", {experts}});
  Settings settings = four_gpus();
  settings.expert_parallel = 4;
  Bench alone(settings, units);
  alone.forward();
  alone.backward();
  const Lines lines = alone.take_all();
  CHECK(place(lines, "a RO 2 128 RS") < place(lines, "a div 2 128 RS"));
  CHECK(place(lines, "a div 2 128 RS") < place(lines, "f div 2"));
  settings.expert_parallel = 2;
  Bench shared(settings, units);
  shared.forward();
  shared.backward();
  CHECK_FALSE(has(shared.take_all(), "a div 2 128 RS"));
}

TEST_CASE("default mode, two units: forward line by line") {
  Bench bench(four_gpus(), 2);
  bench.forward();
  // Shards: root 8 × 4 over 4 → 2 × 4 = 32 B; a block 4 × 4 and 2 → 64 + 8 B. Metadata: 8 (4 S + blocks + 1).
  CHECK(bench.take() == Lines{"a AG 0 128 CI", "a U 0.0 128 cur", "a ms 0 48 cur",  "f ms 0",  //
                              "a AG 1 288 CI", "a U 1.0 256 cur", "a U 1.1 32 cur", "a ms 1 88 cur",
                              "f ms 1",        "f AG 0",          "f U 1.0",        "f U 1.1",  //
                              "a AG 2 288 CI", "a U 2.0 256 cur", "a U 2.1 32 cur", "a ms 2 88 cur",
                              "f ms 2",        "f AG 1",          "f U 2.0",        "f U 2.1",  //
                              "f U 0.0",       "f AG 2"});
}

TEST_CASE("default mode, two units: backward line by line") {
  Bench bench(four_gpus(), 2);
  bench.forward();
  bench.take();
  bench.backward();
  CHECK(bench.take() == Lines{"a AG 0 128 CI",   "a U 0.0 128 cur", "a ms 0 48 cur",  "f ms 0",
                              "f AG 0",          "a AG 2 288 CI",  // root
                              "a U 2.0 256 cur", "a U 2.1 32 cur",  "a ms 2 88 cur",  "f ms 2",
                              "f AG 2",          "a AG 1 288 CI",  // pre 2
                              "f U 2.0",         "f U 2.1",         "a RI 2 288 cur", "a mc 2 128 cur",
                              "f mc 2",          "f grad 2.0",      "a RO 2 72 RS",
                              "f grad 2.1",  // the last gradient outlives the RS output
                              "a U 1.0 256 cur", "a U 1.1 32 cur",  "a ms 1 88 cur",  "f ms 1",
                              "f AG 1",  // pre 1; nothing before it
                              "f U 1.0",         "f U 1.1",         "f RI 2",         "a RI 1 288 cur",
                              "a mc 1 128 cur",  "f mc 1",          "f grad 1.0",     "a RO 1 72 RS",
                              "f grad 1.1",  //
                              "f U 0.0",         "f RI 1",          "a RI 0 128 cur", "a mc 0 72 cur",
                              "f mc 0",          "a RO 0 32 RS",    "f grad 0.0",     "f RI 0"});
  bench.zero_grad();
  CHECK(bench.take() == Lines{"f RO 1", "f RO 2", "f RO 0"});
}

TEST_CASE("parameters that are cut along another dimension have their chunks beside them, in both directions") {
  std::vector<Unit> units = small_units(1);
  for (const char* name : {"layers.0.v", "layers.0.u", "layers.0.t"})
    units[1].parameters.push_back({name, {4, 4}, DType::float32});
  for (const std::size_t cut : {0U, 2U, 3U}) units[1].parameters[cut].shard_dim = 1;  // of a, b, v, u and t
  Bench bench(four_gpus(), units);
  bench.fsdp.pre_forward(kRootUnit);
  bench.take();
  bench.fsdp.pre_forward(UnitId{1});
  // foreach_all_gather_copy_out: an output, then its temporary. Those go with the function, the last one's views last.
  CHECK(bench.take() == Lines{"a AG 1 480 CI", "a U 1.0 256 cur", "a GC 1.0 256 cur", "a U 1.1 32 cur",
                              "a U 1.2 64 cur", "a GC 1.2 64 cur", "a U 1.3 64 cur", "a GC 1.3 64 cur",
                              "a U 1.4 64 cur", "a ms 1 208 cur", "f ms 1", "f GC 1.2", "f GC 1.0", "f GC 1.3",
                              "f AG 0"});
  bench.forward();
  bench.take();
  bench.backward();
  const Lines lines = bench.take();
  // foreach_reduce: a goes when v is cut; v, whose place is even and whose next one is cut, a turn later than that; u
  // and the last one with the function.
  const auto first = lines.begin() + static_cast<std::ptrdiff_t>(place(lines, "a DC 1.0 256 cur"));
  const auto last = lines.begin() + static_cast<std::ptrdiff_t>(place(lines, "f grad 1.3"));
  CHECK(Lines(first, last + 1) == Lines{"a DC 1.0 256 cur", "f grad 1.0", "a DC 1.2 64 cur", "a DC 1.3 64 cur",
                                        "f grad 1.2", "a RI 1 480 cur", "a mc 1 296 cur", "f mc 1", "f DC 1.3",
                                        "f DC 1.2", "f grad 1.1", "f DC 1.0", "a RO 1 120 RS", "f grad 1.4",
                                        "f grad 1.3"});
}

TEST_CASE("order on the GPU of one all-gather and one reduce") {
  Bench bench(four_gpus(), 1);
  bench.fsdp.pre_forward(kRootUnit);
  CHECK(bench.take_all() == Lines{"record cur -> 0", "wait CI 0", "record cur -> 1", "wait AG 1", "a AG 0 128 CI",
                                  "record CI -> 2", "wait AG 2", "collective AG 0 shard AG 128", "record AG -> 3",
                                  "wait cur 3", "a U 0.0 128 cur", "a ms 0 48 cur", "kernel split cur", "f ms 0",
                                  "record cur -> 4"});
  bench.fsdp.pre_forward(UnitId{1});
  const Lines second = bench.take_all();
  // The previous copy-out's event is waited for at the next one's start, but the block is freed at its end.
  CHECK(place(second, "wait CI 4") < place(second, "a U 1.0 256 cur"));
  CHECK(place(second, "wait AG 4") < place(second, "a U 1.0 256 cur"));
  CHECK(second.back() == "f AG 0");
  bench.fsdp.post_forward(UnitId{1});
  bench.fsdp.post_forward(kRootUnit);
  bench.fsdp.pre_backward(kRootUnit);
  bench.take_all();
  bench.backward_of(UnitId{1});
  const Lines reduce = bench.take_all();
  const std::size_t cat = place(reduce, "kernel copy cur");
  CHECK(place(reduce, "f grad 1.0") > cat);
  CHECK(place(reduce, "collective RS 1 shard RS 288") > place(reduce, "a RO 1 72 RS"));
}

TEST_CASE("async unshard: blocks on the compute stream, freed after their own copy-out in forward too") {
  Settings s = four_gpus();
  s.unshard_async = true;
  Bench bench(s, 1);
  bench.forward();
  const Lines all = bench.take_all();
  CHECK(has(all, "a AG 1 288 cur"));
  CHECK(has(all, "collective AG 1 shard PG 288"));
  CHECK(place(all, "f AG 0") < place(all, "a AG 1 288 cur"));
  CHECK(place(all, "f AG 1") == place(all, "f ms 1") + 4);  // record, two waits, free
}

TEST_CASE("record_stream marks the block for the stream of the collective, once an all-gather") {
  Settings s = four_gpus();
  s.release = Release::record_stream;
  for (const bool async : {false, true}) {
    s.unshard_async = async;
    Bench bench(s, 1);
    bench.forward();
    const Lines lines = bench.take();
    CHECK(std::count(lines.begin(), lines.end(), "record_stream AG 1 PG") == 1);
    CHECK(place(lines, "record_stream AG 1 PG") < place(lines, "f AG 1"));
  }
  Settings reduce = four_gpus();
  reduce.reduce_scatter_release = Release::record_stream;
  Bench bench(reduce, 1);
  bench.forward();
  bench.take();
  bench.backward();
  CHECK(has(bench.take(), "record_stream RI 1 RS"));
}

TEST_CASE("gather buffers owned by the compute stream: the collective keeps its own") {
  Settings s = four_gpus();
  s.gather_alloc = GatherAlloc::compute;
  s.param_dtype = DType::bfloat16;
  Bench bench(s, 1);
  bench.fsdp.pre_forward(kRootUnit);
  const Lines all = bench.take_all();
  CHECK(has(all, "a flat 0 16 cur"));
  CHECK(has(all, "a AG 0 64 cur"));
  CHECK(has(all, "collective AG 0 shard AG 64"));
}

TEST_CASE("int reshard: clones in the compute dtype, gathered over the small group in backward, root too") {
  Settings s = four_gpus();
  s.reshard_after_forward = {Reshard::Kind::group, 2};
  s.param_dtype = DType::bfloat16;
  Bench bench(s, 1);
  bench.forward();
  const Lines forward = bench.take();
  const std::size_t first = place(forward, "a clone 1.0 64 cur");
  CHECK(Lines(forward.begin() + static_cast<std::ptrdiff_t>(first),
              forward.begin() + static_cast<std::ptrdiff_t>(first) + 4) ==
        Lines{"a clone 1.0 64 cur", "f U 1.0", "a clone 1.1 8 cur", "f U 1.1"});
  bench.backward();
  const Lines all = bench.take_all();
  CHECK(has(all, "collective AG 0 small AG 64"));
  CHECK(has(all, "collective AG 1 small AG 144"));
  CHECK(has(all, "a flat 1 72 CI"));
  CHECK(place(all, "f clone 1.0") > place(all, "f ms 1"));
  CHECK(place(all, "f AG 1") > place(all, "f clone 1.1"));
}

TEST_CASE("HSDP: all-reduce in place, and with a cast back its input stays to the end of backward") {
  Settings s = four_gpus();
  s.replicate = 2;
  Bench plain(s, 1);
  plain.forward();
  plain.take_all();
  plain.backward();
  const Lines all = plain.take_all();
  CHECK(has(all, "collective AR 1 replicate AR 144"));
  CHECK(has(all, "a RO 1 144 RS"));
  CHECK_FALSE(has(all, "f RO 1"));

  s.param_dtype = DType::bfloat16;  // reduced in bf16, cast back to float32
  Bench cast(s, 1);
  cast.forward();
  cast.take();
  cast.backward();
  const Lines lines = cast.take();
  CHECK(has(lines, "a out 1 144 AR"));
  CHECK(place(lines, "f RO 1") > place(lines, "f grad 0.0"));  // in finalize, after the root's reduce
  cast.zero_grad();
  CHECK(cast.backend.live() == 0);
}

TEST_CASE("cast back: the uncast output goes at once, then the last gradient") {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  Bench bench(s, 1);
  bench.forward();
  bench.take();
  bench.backward();
  const Lines lines = bench.take();
  const std::size_t at = place(lines, "a out 1 72 RS");
  CHECK(lines[at + 1] == "f RO 1");
  CHECK(lines[at + 2] == "f grad 1.1");
}

TEST_CASE("no-sync microbatches keep gradients in the reduce dtype, and add to them") {
  Settings s = four_gpus();
  s.accumulate = 3;
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  Bench bench(s, 1);
  bench.fsdp.set_requires_gradient_sync(false);
  bench.forward();
  bench.fsdp.pre_backward(kRootUnit);
  bench.take();
  bench.backward_of(UnitId{1});
  const Lines first = bench.take();
  const std::size_t cast = place(first, "a acc 1.0 256 cur");
  CHECK(place(first, "f U 1.1") < cast);  // after the unsharded parameters are gone, one by one (11.17)
  CHECK(Lines(first.begin() + static_cast<std::ptrdiff_t>(cast), first.end()) ==
        Lines{"a acc 1.0 256 cur", "f grad 1.0", "a acc 1.1 32 cur", "f grad 1.1"});
  bench.backend.make_gradients(bench.plans[0]);
  bench.fsdp.backward_final();
  bench.forward();
  bench.fsdp.pre_backward(kRootUnit);
  bench.take();
  bench.backward_of(UnitId{1});
  const Lines second = bench.take();
  CHECK(place(second, "f grad 1.0") < place(second, "f U 1.0"));  // added before the reshard (3.1 step 1)
  CHECK_FALSE(has(second, "a acc 1.0 256 cur"));
  bench.backend.make_gradients(bench.plans[0]);
  bench.fsdp.backward_final();
  bench.fsdp.set_requires_gradient_sync(true);
  bench.forward();
  bench.take();
  bench.backward();
  const Lines last = bench.take();
  CHECK(place(last, "f acc 1.0") < place(last, "a RO 1 72 RS"));
  CHECK(place(last, "f acc 1.1") > place(last, "a RO 1 72 RS"));
  bench.zero_grad();
  CHECK(bench.backend.live() == 0);
}

TEST_CASE("without a reduce dtype of its own a no-sync gradient stays where autograd left it") {
  Settings s = four_gpus();
  s.accumulate = 2;
  Bench bench(s, 1);
  bench.fsdp.set_requires_gradient_sync(false);
  bench.forward();
  bench.backward();
  const Lines lines = bench.take();
  CHECK_FALSE(has(lines, "f grad 1.0"));
  CHECK(short_form(lines).find("PB") == std::string::npos);
}

TEST_CASE("a parameter without a gradient takes no part in the reduce") {
  Bench bench(four_gpus(), 1);
  bench.forward();
  bench.fsdp.pre_backward(kRootUnit);
  bench.fsdp.pre_backward(UnitId{1});
  bench.take();
  bench.backend.make_gradient(bench.plans[1].groups[0].parameters[0].id);
  bench.fsdp.post_backward(UnitId{1});
  const Lines lines = bench.take();
  CHECK(has(lines, "a RI 1 256 cur"));
  CHECK(has(lines, "a RO 1 64 RS"));
  CHECK(has(lines, "a mc 1 72 cur"));
  bench.fsdp.backward_final();  // the root has no gradient at all: it is resharded and reduces nothing
  const Lines final_lines = bench.take();
  CHECK(has(final_lines, "f U 0.0"));
  CHECK_FALSE(has(final_lines, "a RI 0 128 cur"));
}

TEST_CASE("offload: shards come one by one, gradients leave the device") {
  Settings s = four_gpus();
  s.offload = true;
  Bench plain(s, 1);
  plain.fsdp.pre_forward(kRootUnit);
  plain.take();
  plain.fsdp.pre_forward(UnitId{1});
  const Lines gather = plain.take();
  CHECK(Lines(gather.begin(), gather.begin() + 5) ==
        Lines{"a h2d 1.0 64 CI", "a h2d 1.1 8 CI", "a AG 1 288 CI", "f h2d 1.1", "f h2d 1.0"});
  plain.fsdp.post_forward(UnitId{1});
  plain.fsdp.post_forward(kRootUnit);
  plain.take();
  plain.backward();
  const Lines backward = plain.take();
  CHECK(place(backward, "f RO 1") == place(backward, "f grad 1.1") + 1);
  plain.zero_grad();
  CHECK(plain.take().empty());

  s.param_dtype = DType::bfloat16;
  Bench cast(s, 1);
  cast.fsdp.pre_forward(kRootUnit);
  CHECK(Lines(cast.backend.memory().begin(), cast.backend.memory().begin() + 5) ==
        Lines{"a h2d 0.0 32 CI", "a cast 0.0 16 CI", "f h2d 0.0", "a AG 0 64 CI", "f cast 0.0"});
}

TEST_CASE("a shard group of one rank gathers nothing") {
  Settings s;
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  Bench bench(s, 1);
  bench.forward();
  CHECK(bench.take() == Lines{"a cast 0.0 64 cur", "a U 0.0 64 cur", "f cast 0.0",  //
                              "a cast 1.0 128 cur", "a U 1.0 128 cur", "a cast 1.1 16 cur", "f cast 1.0",
                              "a U 1.1 16 cur", "f cast 1.1", "f U 1.0", "f U 1.1", "f U 0.0"});
  bench.backward();
  const Lines all = bench.take_all();
  CHECK(has(all, "a RI 1 288 cur"));
  CHECK(has(all, "a RO 1 288 RS"));
  // No loop over several ranks' chunks keeps a gradient past the copy-in.
  const auto place = [&](std::string_view line) { return std::find(all.begin(), all.end(), line) - all.begin(); };
  CHECK(place("f grad 1.1") < place("f grad 1.0"));
  CHECK(place("f grad 1.0") < place("a RO 1 288 RS"));
  CHECK(std::none_of(all.begin(), all.end(), [](const std::string& l) { return l.starts_with("collective"); }));
}

TEST_CASE("rendezvous arrays only where a block took a new segment") {
  Settings s = four_gpus();
  s.all_gather = Transport::copy_engine;
  s.param_dtype = DType::bfloat16;
  Bench bench(s, 1);
  bench.backend.every_block_takes_a_segment(true);
  bench.fsdp.pre_forward(kRootUnit);
  CHECK(Lines(bench.backend.memory().begin(), bench.backend.memory().begin() + 5) ==
        Lines{"a flat 0 16 CI", "a AG 0 64 CI symmetric", "a array 0 32 AG", "a array 0 32 AG", "f flat 0"});
  bench.backend.every_block_takes_a_segment(false);
  bench.take();
  bench.fsdp.pre_forward(UnitId{1});
  CHECK_FALSE(has(bench.take(), "a array 1 32 AG"));
}

TEST_CASE("a post-optimizer event stands for the compute stream once") {
  Settings s = four_gpus();
  s.post_optimizer_event = true;
  Bench bench(s, 1);
  bench.forward();
  bench.backward();
  bench.take_all();
  bench.fsdp.optimizer_stepped();
  const Lines recorded = bench.take_all();
  REQUIRE(recorded.size() == 1);
  const std::string event = recorded[0].substr(recorded[0].rfind(' ') + 1);
  bench.fsdp.pre_forward(kRootUnit);
  const Lines all = bench.take_all();
  CHECK(all[0] == "wait CI " + event);
  CHECK(all[1] == "wait AG " + event);
  CHECK(all[2] == "a AG 0 128 CI");
}

TEST_CASE("the end of a backward waits for every unit's reduce, then for the last reduce-scatter") {
  Bench bench(four_gpus(), 2);
  bench.forward();
  bench.take_all();
  bench.backward();
  Lines all = bench.take_all();
  const std::size_t root = place(all, "f grad 0.0");
  const Lines end(all.begin() + static_cast<std::ptrdiff_t>(root) + 1, all.end());
  REQUIRE(end.size() == 5);  // three post-reduce waits, one RS wait, one free (4.3)
  for (std::size_t i = 0; i < 4; ++i) CHECK(end[i].starts_with("wait cur "));
  CHECK(end[4] == "f RI 0");
}

}  // namespace
}  // namespace foreshard::test
