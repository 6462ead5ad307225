// What foreshard's own program leaves out of FSDP2's schedule, and where it puts the optimizer: line by line.
#include <algorithm>
#include <map>
#include <set>

#include "tests/core/fsdp/fsdp_fixture.hpp"

namespace foreshard::test {
namespace {

using Lines = std::vector<std::string>;

Settings without_copies() {
  Settings s = four_gpus();
  s.all_gather = Transport::low_contention;
  s.reduce_scatter = Transport::pull_reduce;
  s.all_gather_layout = AllGatherLayout::parameter_contiguous;
  s.reduce_scatter_input = ReduceScatterInput::gradients;
  return s;
}

// Blocks are of the copy-in stream: one that was resharded comes back before the next but one is made, when the compute
// stream has passed it. No copy-out, no unsharded parameters of their own.
TEST_CASE("parameter-contiguous: forward") {
  Bench bench(without_copies(), 2);
  bench.forward();
  CHECK(bench.take_all() == Lines{"record cur -> 0",
                                  "wait CI 0",
                                  "record cur -> 1",
                                  "wait AG 1",
                                  "a PC 0 128 CI symmetric",
                                  "record CI -> 2",
                                  "wait AG 2",
                                  "collective AG 0 shard AG 128",
                                  "record AG -> 3",
                                  "wait cur 3",
                                  "a PC 1 288 CI symmetric",
                                  "record CI -> 4",
                                  "wait AG 4",
                                  "collective AG 1 shard AG 288",
                                  "record AG -> 5",
                                  "wait cur 5",
                                  "record cur -> 6",
                                  "a PC 2 288 CI symmetric",
                                  "record CI -> 7",
                                  "wait AG 7",
                                  "collective AG 2 shard AG 288",
                                  "record AG -> 8",
                                  "wait cur 8",
                                  "record cur -> 9",
                                  "record cur -> 10"});
}

// No reduce-scatter input, no chunk_cat: gradients are freed where the input would be.
TEST_CASE("gradients as they are: backward") {
  Bench bench(without_copies(), 2);
  bench.forward();
  bench.take();
  bench.backward();
  CHECK(bench.take_all() == Lines{"wait CI 6",
                                  "f PC 1",
                                  "wait CI 9",
                                  "f PC 2",
                                  "a PC 0 128 CI symmetric",
                                  "record CI -> 11",
                                  "wait AG 11",
                                  "collective AG 0 shard AG 128",
                                  "record AG -> 12",
                                  "wait cur 12",
                                  "a PC 2 288 CI symmetric",
                                  "record CI -> 13",
                                  "wait AG 13",
                                  "collective AG 2 shard AG 288",
                                  "record AG -> 14",
                                  "wait cur 14",
                                  "a PC 1 288 CI symmetric",
                                  "record CI -> 15",
                                  "wait AG 15",
                                  "collective AG 1 shard AG 288",
                                  "record AG -> 16",
                                  "record cur -> 17",
                                  "record cur -> 18",
                                  "wait RS 18",
                                  "a RO 2 72 RS symmetric",
                                  "collective RS 2 shard RS 288",
                                  "record RS -> 19",
                                  "record RS -> 20",
                                  "wait cur 16",
                                  "record cur -> 21",
                                  "wait cur 19",
                                  "f grad 2.1",
                                  "f grad 2.0",
                                  "record cur -> 22",
                                  "wait RS 22",
                                  "a RO 1 72 RS symmetric",
                                  "collective RS 1 shard RS 288",
                                  "record RS -> 23",
                                  "record RS -> 24",
                                  "record cur -> 25",
                                  "wait cur 23",
                                  "f grad 1.1",
                                  "f grad 1.0",
                                  "record cur -> 26",
                                  "wait RS 26",
                                  "a RO 0 32 RS symmetric",
                                  "collective RS 0 shard RS 128",
                                  "record RS -> 27",
                                  "record RS -> 28",
                                  "wait cur 28",
                                  "wait cur 24",
                                  "wait cur 20",
                                  "wait cur 27",
                                  "f grad 0.0",
                                  "wait CI 10",
                                  "f PC 0",
                                  "wait CI 17",
                                  "f PC 2",
                                  "wait CI 21",
                                  "f PC 1",
                                  "wait CI 25",
                                  "f PC 0"});
}

// The optimizer waits for its own group's reduce-scatter, the next all-gather of the group for it; the compute stream
// waits for neither. Gradients are freed two groups later.
TEST_CASE("optimizer beside backward") {
  Settings s = without_copies();
  s.optimizer_overlap = OptimizerOverlap::backward;
  Bench bench(s, 2);
  bench.forward();
  bench.take();
  bench.backward();
  CHECK(bench.take_all() == Lines{"wait CI 4",
                                  "f PC 1",
                                  "wait CI 7",
                                  "f PC 2",
                                  "a PC 0 128 CI symmetric",
                                  "record CI -> 9",
                                  "wait AG 9",
                                  "collective AG 0 shard AG 128",
                                  "record AG -> 10",
                                  "wait cur 10",
                                  "a PC 2 288 CI symmetric",
                                  "record CI -> 11",
                                  "wait AG 11",
                                  "collective AG 2 shard AG 288",
                                  "record AG -> 12",
                                  "wait cur 12",
                                  "a PC 1 288 CI symmetric",
                                  "record CI -> 13",
                                  "wait AG 13",
                                  "collective AG 1 shard AG 288",
                                  "record AG -> 14",
                                  "record cur -> 15",
                                  "record cur -> 16",
                                  "wait RS 16",
                                  "a RO 2 72 RS symmetric",
                                  "collective RS 2 shard RS 288",
                                  "record RS -> 17",
                                  "record RS -> 18",
                                  "wait OP 18",
                                  "kernel optimizer 2 OP",
                                  "record OP -> 19",
                                  "wait cur 14",
                                  "record cur -> 20",
                                  "wait cur 17",
                                  "f grad 2.1",
                                  "f grad 2.0",
                                  "record cur -> 21",
                                  "wait RS 21",
                                  "a RO 1 72 RS symmetric",
                                  "collective RS 1 shard RS 288",
                                  "record RS -> 22",
                                  "record RS -> 23",
                                  "wait OP 23",
                                  "kernel optimizer 1 OP",
                                  "record OP -> 24",
                                  "record cur -> 25",
                                  "wait cur 22",
                                  "f grad 1.1",
                                  "f grad 1.0",
                                  "record cur -> 26",
                                  "wait RS 26",
                                  "a RO 0 32 RS symmetric",
                                  "collective RS 0 shard RS 128",
                                  "record RS -> 27",
                                  "record RS -> 28",
                                  "wait RS 19",
                                  "f RO 2",
                                  "wait OP 28",
                                  "kernel optimizer 0 OP",
                                  "record OP -> 29",
                                  "wait cur 27",
                                  "f grad 0.0",
                                  "wait CI 8",
                                  "f PC 0",
                                  "wait CI 15",
                                  "f PC 2",
                                  "wait CI 20",
                                  "f PC 1",
                                  "wait CI 25",
                                  "f PC 0"});
  bench.fsdp.optimizer_stepped();
  bench.zero_grad();
  bench.forward();
  CHECK(bench.take_all() == Lines{"wait RS 24",
                                  "f RO 1",
                                  "wait RS 29",
                                  "f RO 0",
                                  "wait CI 29",
                                  "a PC 0 128 CI symmetric",
                                  "record CI -> 30",
                                  "wait AG 30",
                                  "collective AG 0 shard AG 128",
                                  "record AG -> 31",
                                  "wait cur 31",
                                  "wait CI 24",
                                  "a PC 1 288 CI symmetric",
                                  "record CI -> 32",
                                  "wait AG 32",
                                  "collective AG 1 shard AG 288",
                                  "record AG -> 33",
                                  "wait cur 33",
                                  "record cur -> 34",
                                  "wait CI 19",
                                  "a PC 2 288 CI symmetric",
                                  "record CI -> 35",
                                  "wait AG 35",
                                  "collective AG 2 shard AG 288",
                                  "record AG -> 36",
                                  "wait cur 36",
                                  "record cur -> 37",
                                  "record cur -> 38"});
}

// Unit by unit in forward's order. zero_grad waits for the optimizer's reading, on the gradients' own stream.
TEST_CASE("optimizer beside forward") {
  Settings s = without_copies();
  s.optimizer_overlap = OptimizerOverlap::forward;
  Bench bench(s, 2);
  bench.forward();
  bench.backward();
  bench.take();
  bench.fsdp.step_optimizers();
  CHECK(bench.take_all() == Lines{"wait OP 26", "kernel optimizer 0 OP", "record OP -> 27", "wait OP 22",
                                  "kernel optimizer 1 OP", "record OP -> 28", "wait OP 18", "kernel optimizer 2 OP",
                                  "record OP -> 29"});
  bench.zero_grad();
  bench.forward();
  CHECK(bench.take_all() == Lines{"wait RS 28",
                                  "f RO 1",
                                  "wait RS 29",
                                  "f RO 2",
                                  "wait RS 27",
                                  "f RO 0",
                                  "wait CI 27",
                                  "a PC 0 128 CI symmetric",
                                  "record CI -> 30",
                                  "wait AG 30",
                                  "collective AG 0 shard AG 128",
                                  "record AG -> 31",
                                  "wait cur 31",
                                  "wait CI 28",
                                  "a PC 1 288 CI symmetric",
                                  "record CI -> 32",
                                  "wait AG 32",
                                  "collective AG 1 shard AG 288",
                                  "record AG -> 33",
                                  "wait cur 33",
                                  "record cur -> 34",
                                  "wait CI 29",
                                  "a PC 2 288 CI symmetric",
                                  "record CI -> 35",
                                  "wait AG 35",
                                  "collective AG 2 shard AG 288",
                                  "record AG -> 36",
                                  "wait cur 36",
                                  "record cur -> 37",
                                  "record cur -> 38"});
}

/// The stream that the line right before the first free of a unit's sharded gradients waits on.
std::string waits_before_free(const Lines& lines, const std::string& free) {
  for (std::size_t i = 1; i < lines.size(); ++i)
    if (lines[i].rfind(free, 0) == 0) return lines[i - 1].substr(0, lines[i - 1].rfind(' '));
  return "nothing is freed";
}

// What reuses a block is its own stream: with HSDP the reduce-scatter's where nothing is cast back, else the
// all-reduce's, on which the cast ran.
TEST_CASE("gradients that the optimizer has read come back on the stream that they are of") {
  for (const OptimizerOverlap overlap : {OptimizerOverlap::backward, OptimizerOverlap::forward})
    for (const bool casts : {false, true}) {
      Settings s = four_gpus();
      s.replicate = 2;
      s.optimizer_overlap = overlap;
      if (casts) s.reduce_dtype = DType::bfloat16;
      Bench bench(s, 4);
      bench.forward();
      bench.backward();
      bench.fsdp.step_optimizers();
      bench.zero_grad();
      CHECK(waits_before_free(bench.take_all(), casts ? "f out" : "f RO") == (casts ? "wait AR" : "wait RS"));
    }
}

// Its block goes back to the copy-in stream, which no longer waits for the compute stream as the next forward begins.
TEST_CASE("an all-gather that nobody used is over before its block comes back") {
  for (const bool contiguous : {false, true}) {
    Settings s = contiguous ? without_copies() : four_gpus();
    s.optimizer_overlap = OptimizerOverlap::forward;
    s.prefetch_lists.backward["layers.0"] = {"layers.1"};  // which is through by then
    Bench bench(s, 2);
    bench.forward();
    bench.backward();
    const Lines lines = bench.take_all();
    const std::string block = contiguous ? "f PC 2" : "f AG 2";
    const auto last = std::find(lines.rbegin(), lines.rend(), block);
    REQUIRE(last != lines.rend());
    CHECK((last + 1)->rfind("wait CI", 0) == 0);
  }
}

std::vector<Unit> with_float8_weights(std::uint32_t blocks) {
  std::vector<Unit> units = small_units(blocks);
  for (std::size_t i = 1; i < units.size(); ++i) units[i].parameters[0].gathered_in_float8 = true;
  return units;
}

Settings float8_on_four_gpus() {
  Settings s = four_gpus();
  s.param_dtype = DType::bfloat16;
  s.float8_all_gather = true;
  return s;
}

// Largest elements of all shards, once: all-gathers cast by them. Then again behind the optimizer.
TEST_CASE("float8 weights: largest elements before the first forward, and behind the optimizer") {
  Bench bench(float8_on_four_gpus(), with_float8_weights(2));
  bench.forward();
  Lines lines = bench.take_all();
  const Lines found{"kernel amaxes 1 cur", "kernel amaxes 2 cur", "collective MAX 2 shard cur 8 max"};
  REQUIRE(lines.size() > 7);
  CHECK(Lines(lines.begin(), lines.begin() + 2) == Lines{"a FA 1 8 cur", "a FS 1 32 cur"});
  CHECK(Lines(lines.begin() + 2, lines.begin() + 5) == found);
  CHECK(Lines(lines.begin() + 5, lines.begin() + 8) == Lines{"record cur -> 0", "wait CI 0", "wait AG 0"});
  CHECK(std::count(lines.begin(), lines.end(), "collective AG 1 shard AG 80") == 1);
  bench.backward();
  (void)bench.take_all();
  bench.fsdp.optimizer_stepped();
  CHECK(bench.take_all() == found);
  bench.zero_grad();
  bench.forward();
  lines = bench.take_all();
  CHECK(std::none_of(lines.begin(), lines.end(), [](const std::string& l) { return l.starts_with("kernel amaxes"); }));
}

TEST_CASE("float8 weights: an optimizer on a stream of its own has each unit's found behind the unit's step") {
  for (const OptimizerOverlap overlap : {OptimizerOverlap::forward, OptimizerOverlap::backward}) {
    Settings s = float8_on_four_gpus();
    s.optimizer_overlap = overlap;
    Bench bench(s, with_float8_weights(2));
    bench.forward();
    bench.backward();
    if (overlap == OptimizerOverlap::forward) {
      (void)bench.take_all();
      bench.fsdp.step_optimizers();
    }
    const Lines lines = bench.take_all();
    const auto step = std::find(lines.begin(), lines.end(), "kernel optimizer 2 OP");
    REQUIRE(lines.end() - step > 3);
    CHECK(Lines(step + 1, step + 3) == Lines{"kernel amaxes 2 OP", "collective MAX 2 scales OP 4 max"});
    CHECK(step[3].starts_with("record OP"));
    bench.fsdp.optimizer_stepped();
    CHECK(bench.take_all().empty());
  }
}

Settings written_by_optimizer() {
  Settings s = four_gpus();
  s.all_gather = Transport::low_contention;
  s.all_gather_input = AllGatherInput::optimizer;
  s.optimizer = Optimizer::adam_fused;
  return s;
}

/// A line of a collective or kernel in words; the others are no concern of the order below.
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words(1);
  for (const char c : line)
    if (c == ' ')
      words.emplace_back();
    else
      words.back() += c;
  return words;
}

/// Which lines each stream, and each event, has behind it: by their place.
class Order {
 public:
  explicit Order(const Lines& lines) {
    for (std::size_t i = 0; i < lines.size(); ++i) {
      const std::vector<std::string> words = words_of(lines[i]);
      if (words[0] == "record") events_[words[3]] = streams_[words[1]];
      if (words[0] == "wait") streams_[words[1]].merge(std::set<std::size_t>(events_[words[2]]));
      if (words[0] == "kernel" && words[1] == "optimizer") add("step", words[2], words[3], i);
      if (words[0] == "collective" && words[1] == "AG" && words[3] == "shard") add("gather", words[2], words[4], i);
    }
  }
  /// The steps and shard all-gathers of one unit, in host order, of which one is not behind the other on the GPU.
  [[nodiscard]] const Lines& unordered() const { return unordered_; }
  [[nodiscard]] std::size_t steps() const { return steps_; }

 private:
  void add(const std::string& what, const std::string& unit, const std::string& stream, std::size_t line) {
    auto& before = of_unit_[unit][what == "step" ? "gather" : "step"];
    for (const std::size_t other : before)
      if (!streams_[stream].contains(other)) unordered_.push_back(fmt::format("{} {} at {}", what, unit, line));
    of_unit_[unit][what].push_back(line);
    streams_[stream].insert(line);
    steps_ += what == "step" ? 1U : 0U;
  }
  std::map<std::string, std::set<std::size_t>> streams_;
  std::map<std::string, std::set<std::size_t>> events_;
  std::map<std::string, std::map<std::string, std::vector<std::size_t>>> of_unit_;
  Lines unordered_;
  std::size_t steps_ = 0;
};

// The shards are cast once, when they are gathered first. From then on no kernel runs, and nothing but the output is
// allocated, for an all-gather.
TEST_CASE("the optimizer writes the all-gather's input: copied in once") {
  for (const bool contiguous : {false, true}) {
    Settings s = written_by_optimizer();
    s.param_dtype = DType::bfloat16;
    if (contiguous) s.all_gather_layout = AllGatherLayout::parameter_contiguous;
    Bench bench(s, 2);
    bench.forward();
    Lines lines = bench.take_all();
    const std::string output = contiguous ? "a PC 1 272 CI symmetric" : "a AG 1 144 CI symmetric";
    const auto made = std::find(lines.begin(), lines.end(), output);
    REQUIRE(made != lines.end());
    CHECK(Lines(made + 1, made + 4) == Lines{"a KI 1 36 CI", "kernel copy_in 1 CI", made[3]});
    CHECK(std::none_of(lines.begin(), lines.end(), [](const std::string& l) { return l.starts_with("a flat"); }));
    CHECK(std::count(lines.begin(), lines.end(), "kernel copy_in 1 CI") == 1);
    for (int step = 0; step < 2; ++step) {
      bench.backward();
      bench.fsdp.optimizer_stepped();
      bench.zero_grad();
      bench.forward();
    }
    lines = bench.take_all();
    CHECK(std::none_of(lines.begin(), lines.end(), [](const std::string& l) {
      return l.starts_with("kernel copy_in") || l.starts_with("a KI") || l.starts_with("f KI");
    }));
  }
}

// A rank's own copy engines alone read what its optimizer writes: its streams order one behind the other.
TEST_CASE("the optimizer and the all-gathers that read what it writes are ordered on the GPU") {
  std::vector<Settings> all(6, written_by_optimizer());
  all[1].reshard_after_forward = {Reshard::Kind::never, 0};
  all[2].unshard_async = true;
  all[2].forward_prefetch = all[2].backward_prefetch = 1;
  all[3].prefetch_lists.backward["layers.0"] = {"layers.1"};  // which is through by then: gathered for nobody
  all[4].all_gather_layout = AllGatherLayout::parameter_contiguous;
  all[4].prefetch_lists.backward["layers.0"] = {"layers.1"};
  all[5].gather_alloc = GatherAlloc::compute;
  for (const OptimizerOverlap overlap : {OptimizerOverlap::backward, OptimizerOverlap::forward})
    for (std::size_t i = 0; i < all.size(); ++i) {
      CAPTURE(i, static_cast<int>(overlap));
      Settings s = all[i];
      s.optimizer_overlap = overlap;
      Bench bench(s, 2);
      for (int step = 0; step < 3; ++step) {
        bench.zero_grad();
        bench.forward();
        bench.backward();
        if (overlap == OptimizerOverlap::forward) bench.fsdp.step_optimizers();
      }
      const Order order(bench.take_all());
      CHECK(order.steps() == 9);
      CHECK(order.unordered() == Lines{});
    }
}

TEST_CASE("units of two groups: the blocks of the unit that was resharded last stay") {
  Settings s = without_copies();
  s.pytorch = "2.12";
  std::vector<Unit> units = small_units(3);
  for (std::size_t i = 1; i < units.size(); ++i) units[i].groups = {1, 1};
  Bench bench(s, units);
  bench.forward();
  const Lines lines = bench.take();
  const auto freed = std::find_if(lines.begin(), lines.end(), [](const std::string& l) { return l[0] == 'f'; });
  REQUIRE(freed != lines.end());
  CHECK(*freed == "f PC 1");
  CHECK(freed[-1] == "a PC 2[pg=1] 32 CI symmetric");
}

}  // namespace
}  // namespace foreshard::test
