// Who waits for whom, on ranks made by hand: times in microseconds.
#include "core/straggler/straggler.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/run/rank_shapes.hpp"
#include "core/straggler/held_up.hpp"
#include "core/straggler/rank_fit.hpp"
#include "core/straggler/straggler_text.hpp"
#include "tests/catch.hpp"

using namespace foreshard;

namespace {

constexpr StreamId kGatherStream{1};

class Ranks {
 public:
  explicit Ranks(std::uint32_t world) {
    run_.info.kind = RunKind::imported;
    run_.settings.gpus = world;
    run_.steps.push_back(
        {.recording = Recording::trace, .index = 0, .start = {}, .end = {}, .device_end = {}, .peaks = {}});
  }
  void rank(std::uint32_t rank) { run_.ranks.push_back({rank, {}, {}}); }
  void kernel(const char* name, const char* phase, std::int64_t start, std::int64_t end) {
    DeviceOpRecord op;
    op.stream = kComputeStream;
    op.label = run_.labels.intern(name);
    add(op, phase, start, end, -1);
  }
  void memset(const char* phase, std::int64_t start, std::int64_t end) {
    DeviceOpRecord op;
    op.kind = DeviceOpRecord::Kind::memset;
    op.stream = kComputeStream;
    op.label = run_.labels.intern("Memset (Device)");
    add(op, phase, start, end, -1);
  }
  void gather(const char* phase, std::int64_t start, std::int64_t end, std::int32_t sequence,
              std::uint32_t communicator = 0) {
    DeviceOpRecord op;
    op.kind = DeviceOpRecord::Kind::collective;
    op.stream = kGatherStream;
    op.communicator = CommunicatorId{communicator};
    add(op, phase, start, end, sequence);
  }
  [[nodiscard]] const Run& run() const { return run_; }

 private:
  void add(DeviceOpRecord op, const char* phase, std::int64_t start, std::int64_t end, std::int32_t sequence) {
    op.start = op.issue = Nanoseconds::from_us(start);
    op.end = Nanoseconds::from_us(end);
    run_.rank_ops.push_back({run_.ranks.back().rank, 0, run_.labels.intern(phase), sequence, op});
  }
  Run run_;
};

/// One gather behind a kernel of the forward; rank 1's takes three times as long there.
Ranks one_late() {
  Ranks ranks(3);
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const std::int64_t forward = rank == 1 ? 300 : 100;
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, forward);
    ranks.gather("forward", forward, 350, 0);
    ranks.kernel("gemm", "forward", 360, 460);
    ranks.kernel("gemm", "backward", 460, 660);
  }
  return ranks;
}

}  // namespace

TEST_CASE("the others wait for the rank whose forward takes longer") {
  const Ranks ranks = one_late();
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  REQUIRE(found->late);
  CHECK(found->late->rank == 1);
  CHECK(found->late->phase == "forward");
  REQUIRE(found->ranks.size() == 3);
  for (const RankTime& rank : found->ranks) {
    CHECK(rank.compute + rank.waiting + rank.communication + rank.idle == rank.step);
    CHECK(rank.step == Nanoseconds::from_us(660));
    CHECK(rank.waiting == Nanoseconds::from_us(rank.rank == 1 ? 0 : 200));
    CHECK(rank.communication == Nanoseconds::from_us(50));
    CHECK(rank.idle == Nanoseconds::from_us(10));
    CHECK(rank.delay == Nanoseconds::from_us(rank.rank == 1 ? 200 : 0));
  }
  REQUIRE(found->late->kernels.size() == 1);
  CHECK(found->late->kernels[0].time - found->late->kernels[0].time_of_others == Nanoseconds::from_us(200));
  const auto sentences = straggler_sentences(*found);
  CHECK(sentences.at(0) ==
        "rank 1 is late, mostly in forward: the other ranks' GPUs wait for it for 200 us a step on average, 30.3 % of "
        "rank 1's 660 us");
  CHECK(sentences.at(1) == "in forward its GPU computes for 400 us a step, the others' for 200 us");
}

namespace {

std::vector<std::string> sentences_of(const Ranks& ranks, const std::vector<RankShape>& shapes) {
  Run run = ranks.run();
  run.results[kRankShapes] = rank_shapes_text(shapes);
  return straggler_sentences(*find_stragglers(run));
}

}  // namespace

TEST_CASE("a rank with other work than all others is called so, not slow") {
  const std::string waits =
      ", mostly in forward: the other ranks' GPUs wait for it for 200 us a step on average, 30.3 % of rank 1's 660 us";
  const auto more = sentences_of(one_late(), {{0, 4, 1024}, {1, 4, 2048}, {2, 4, 1024}});
  REQUIRE(more.size() == 2);  // and not which kernels take longer
  CHECK(more[0] == "rank 1 has more work (ranks 0, 2 have 4 × 1024 tokens where rank 1 has 4 × 2048)" + waits);
  const auto less = sentences_of(one_late(), {{0, 4, 2048}, {1, 4, 1024}, {2, 4, 2048}});
  CHECK(less.at(0) ==
        "rank 1 is late though it has less work (rank 1 has 4 × 1024 tokens where ranks 0, 2 have 4 × 2048)" + waits);
  const auto another = sentences_of(one_late(), {{0, 4, 2048}, {1, 4, 2048}, {2, 4, 512}});
  CHECK(another.at(0) == "rank 1 is late" + waits);
  CHECK(rank_shapes_words({{0, 8, 1}, {1, 6, 1}, {2, 2, 1}}) ==
        "rank 1 has 6 samples, rank 2 has 2 where rank 0 has 8");
  CHECK(rank_shapes_words({}).empty());
}

namespace {

/// Two of four ranks have twice the tokens; rank 2's forward takes so long, rank 1's 300.
Ranks two_with_more(std::int64_t second) {
  Ranks ranks(4);
  for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) {
    const std::int64_t forward = rank == 1 ? 300 : rank == 2 ? second : 100;
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, forward);
    ranks.gather("forward", forward, 350, 0);
    ranks.kernel("gemm", "forward", 360, 660);
  }
  return ranks;
}

const std::vector<RankShape> kTwoWithMore{{0, 4, 1024}, {1, 4, 2048}, {2, 4, 2048}, {3, 4, 1024}};

/// As import leaves it, of the rank that comes first.
Run measured_run(const Ranks& ranks, const std::vector<RankShape>& shapes, std::uint32_t seq) {
  Run run = ranks.run();
  run.settings.batch = 4;
  run.settings.seq = seq;
  run.results[kRankShapes] = rank_shapes_text(shapes);
  run.measured = Measured{{1, 1, 0.66}, {}};
  if (const auto by = held_up_by(run)) {
    run.measured->late_rank = static_cast<std::int32_t>(by->rank);
    run.measured->late_itself = by->itself;
  }
  return run;
}

/// What plans and remedies say of it.
std::string without_it(const Run& run) {
  if (run.measured->late_rank < 0) return {};
  return keeps_up_words(static_cast<std::uint32_t>(run.measured->late_rank),
                        late_with_more(run.measured, rank_shapes(run), run.settings));
}

}  // namespace

TEST_CASE("ranks that have more work together are called so where they keep up with one another") {
  CHECK(sentences_of(two_with_more(298), kTwoWithMore)
            .at(0)
            .starts_with("rank 1 has more work (ranks 0, 3 have 4 × 1024 tokens where ranks 1–2 have 4 × 2048), mostly "
                         "in forward: "));
  CHECK(sentences_of(two_with_more(200), kTwoWithMore).at(0).starts_with("rank 1 is late, mostly in forward: "));
}

TEST_CASE("whom a recording's plans leave out is who its ranks are said to wait for, and why") {
  const Run more = measured_run(two_with_more(298), kTwoWithMore, 1024);
  CHECK(straggler_title(*find_stragglers(more)) == "Rank 1 has more work");
  CHECK(without_it(more) == "if ranks 1–2 had no more work");
  const Run late = measured_run(two_with_more(200), kTwoWithMore, 1024);
  CHECK(straggler_title(*find_stragglers(late)) == "Rank 1 is late");
  CHECK(late.measured->late_rank == 1);
  CHECK(without_it(late) == "if rank 1 keeps up");
  // Of one rank's trace it is what each was given.
  Run one = measured_run(Ranks(4), kTwoWithMore, 1024);
  CHECK_FALSE(find_stragglers(one));
  CHECK(without_it(one) == "if ranks 1–2 had no more work");
  CHECK(without_it(measured_run(Ranks(4), kTwoWithMore, 2048)).empty());
}

TEST_CASE("ranks with more work that no trace shows anybody wait for hold nobody up") {
  Ranks even(4), apart(4);
  for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) {
    even.rank(rank);
    even.kernel("gemm", "forward", 0, 300);
    even.gather("forward", 300, 350, 0);
    even.kernel("gemm", "forward", 360, 660);
    // Ranks 1 and 2 are each the last once: no rank alone is late.
    const auto part = [&](std::uint32_t last) { return rank == last ? 300 : rank == 0 || rank == 3 ? 100 : 295; };
    apart.rank(rank);
    apart.kernel("gemm", "forward", 0, part(1));
    apart.gather("forward", part(1), 350, 0);
    apart.kernel("gemm", "forward", 360, 360 + part(2));
    apart.gather("forward", 360 + part(2), 700, 1);
    apart.kernel("gemm", "forward", 710, 720);
  }
  const Run nobody = measured_run(even, kTwoWithMore, 1024);
  CHECK_FALSE(find_stragglers(nobody)->late);
  CHECK(nobody.measured->late_rank == -1);
  const Run several = measured_run(apart, kTwoWithMore, 1024);
  REQUIRE_FALSE(find_stragglers(several)->late);
  CHECK(without_it(several) == "if ranks 1–2 had no more work");
}

TEST_CASE("no rank is blamed for a profiler's time on its host, which its work does not hide") {
  Ranks ranks(2);
  for (const std::uint32_t rank : {0U, 1U}) {
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, rank == 0 ? 300 : 10);
    if (rank == 1) ranks.kernel("gemm", "forward", 490, 500);
    ranks.gather("forward", rank == 0 ? 300 : 500, 550, 0);
    ranks.kernel("gemm", "forward", 550, 700);
  }
  Run run = ranks.run();
  REQUIRE(find_stragglers(run)->late);
  CHECK(straggler_title(*find_stragglers(run)) == "Rank 1 is late");
  run.results[kRankShapes] = rank_shapes_text({{0, 4, 2048}, {1, 4, 1024}});
  auto found = find_stragglers(run);
  CHECK_FALSE(found->late);
  CHECK(found->under_profiler == 1U);
  CHECK(straggler_title(*found) == "Ranks");
  CHECK(straggler_sentences(*found) ==
        std::vector<std::string>{
            "no rank is called late: in the profiled steps the other ranks' GPUs wait for rank 1 for 200 us a step on "
            "average, 28.6 % of 700 us, though it has less work (rank 1 has 4 × 1024 tokens where rank 0 has 4 × 2048)",
            "steps without the profiler were not measured: the profiler's time on its host may be all that makes it "
            "late, since its GPU's work hides least of that"});
  run.measured = Measured{{9, 9, 0.5, 0.5}, {}};
  CHECK(straggler_sentences(*find_stragglers(run))
            .at(1)
            .starts_with("without the profiler a step took 0.50 ms, not 0.70 ms: "));
  run.info.kind = RunKind::executed;
  CHECK(find_stragglers(run)->late);
}

TEST_CASE("which ranks have more work, and less") {
  const std::vector<RankShape> shapes{{0, 4, 1024}, {1, 4, 2048}, {2, 8, 1024}, {3, 4, 1536}};
  CHECK(work_apart(shapes, 0) == WorkApart::less);
  CHECK(work_apart(shapes, 1) == WorkApart::more);
  CHECK(work_apart(shapes, 2) == WorkApart::more);
  CHECK(work_apart(shapes, 3) == WorkApart::less);
  CHECK(work_apart(shapes, 4) == WorkApart::no);
  CHECK(work_apart({{0, 4, 1024}, {1, 2, 2048}}, 1) == WorkApart::no);
  Settings own;
  CHECK(ranks_with_more(shapes, own).empty());
  own.batch = 4;
  own.seq = 1024;
  CHECK(ranks_with_more(shapes, own) == std::vector<std::uint32_t>{1, 2});
  CHECK(keeps_up_words(1, ranks_with_more(shapes, own)) == "if ranks 1–2 had no more work");
  own.seq = 2048;
  CHECK(ranks_with_more(shapes, own).empty());
  CHECK(keeps_up_words(1, {}) == "if rank 1 keeps up");
  Run run;
  run.info.kind = RunKind::imported;
  run.results[kRankShapes] = rank_shapes_text(shapes);
  CHECK(rank_shapes(run) == shapes);
  std::string listed = "[";  // as older stores have them
  for (const RankShape& one : shapes)
    listed += fmt::format("{}[{}, {}, {}]", listed.size() > 1 ? ", " : "", one.rank, one.batch, one.seq);
  run.results[kRankShapes] = listed + "]";
  CHECK(rank_shapes(run) == shapes);
  for (const char* broken : {"[[0, 4, 1024], [1, 4]]", "[[0, 4, 1024], [1, 4, 2048, 1]]", "[[0, 4, -1]]",
                             "[[1, 4, 1], [0, 4, 1]]", R"([{"rank": 0, "batch": 4}])", "[4, 1024]", "{}"}) {
    CAPTURE(broken);
    run.results[kRankShapes] = broken;
    CHECK(rank_shapes(run).empty());
  }
}

TEST_CASE("kernels of ranks with other work are not held against one another") {
  Run run = one_late().run();
  REQUIRE(fit_ranks(run)->ranks[1].kernels.samples > 0);
  run.results[kRankShapes] = rank_shapes_text({{0, 4, 1024}, {1, 4, 2048}, {2, 4, 1024}});
  const auto fit = fit_ranks(run);
  REQUIRE(fit);
  for (const RankFit& rank : fit->ranks) CHECK(rank.kernels.samples == 0);
}

TEST_CASE("a rank is late mostly where it is waited for, not where it is slow") {
  Ranks ranks(3);
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const std::int64_t forward = rank == 1 ? 300 : 100;
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, forward);
    ranks.kernel("gemm", "backward", forward, forward + 50);
    ranks.gather("backward", forward + 50, 400, 0);
    ranks.kernel("gemm", "backward", 410, 660);
  }
  auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  REQUIRE(found->late);
  CHECK(straggler_sentences(*found).at(0).starts_with("rank 1 is late, mostly in backward: "));
  CHECK(straggler_sentences(*found).at(1).starts_with("in forward its GPU computes for "));
  for (PhaseDelay& phase : found->late->phases) phase.delay = Nanoseconds::from_us(100);  // of 200
  CHECK(straggler_sentences(*found).at(0).starts_with("rank 1 is late: "));
}

TEST_CASE("a rank that others wait for behind its own collectives is not blamed for its kernels") {
  Ranks ranks(3);
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const std::int64_t forward = rank == 1 ? 110 : 100;
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, forward);
    ranks.gather("forward", forward, rank == 1 ? 300 : 150, 0, rank == 1 ? 1 : 2);  // of groups of their own
    ranks.kernel("gemm", "forward", rank == 1 ? 310 : 160, rank == 1 ? 320 : 170);
    ranks.gather("forward", rank == 1 ? 320 : 170, 350, 0);
    ranks.kernel("gemm", "forward", 360, 460);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  REQUIRE(found->late);
  CHECK(found->late->rank == 1);
  CHECK(found->late->collectives);
  CHECK_FALSE(found->late->host);
  CHECK(found->late->kernels.empty());
  CHECK(straggler_sentences(*found).at(1).find("a link of its groups is slow or shared") != std::string::npos);
}

TEST_CASE("what a gap ended with held it up: a collective beside that ended before moves in none of the waiting") {
  // On rank 0 a reduction of a pair, begun at 50, ends at 150; the gather, begun at 100, waits for rank 1 until 300.
  Ranks ranks(2);
  for (const std::uint32_t rank : {0U, 1U}) {
    const std::int64_t forward = rank == 1 ? 300 : 100;
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, forward);
    if (rank == 0) ranks.gather("forward", 50, 150, 0, 1);
    ranks.gather("forward", forward, 350, 0);
    ranks.kernel("gemm", "forward", 360, 460);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  CHECK(found->ranks[0].waiting == Nanoseconds::from_us(200));
  CHECK(found->ranks[0].communication == Nanoseconds::from_us(50));
  CHECK(found->ranks[0].idle == Nanoseconds::from_us(10));
}

TEST_CASE("of two others the faster one is their median") {
  Ranks ranks(3);
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const std::int64_t forward = rank == 1 ? 300 : 100 + 40 * rank;
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, forward);
    ranks.gather("forward", forward, 350, 0);
    ranks.kernel("gemm", "forward", 360, 460);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  REQUIRE(found->late);
  REQUIRE(found->late->phases.size() == 1);
  CHECK(found->late->phases[0].compute_of_others == Nanoseconds::from_us(200));
}

TEST_CASE("two ranks that are equally slow are not one late rank") {
  Ranks ranks(4);
  for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) {
    const std::int64_t forward = rank >= 2 ? 300 : 100;
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, forward);
    ranks.gather("forward", forward, 350, 0);
    ranks.kernel("gemm", "forward", 360, 460);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  CHECK_FALSE(found->late);
  CHECK(
      straggler_sentences(*found).front() ==
      "no rank alone is late: the 4 ranks' GPUs wait for one another for 100 us a step on average, 21.7 % of the step, "
      "longest for ranks 2–3 (133.333 us)");
}

TEST_CASE("kernels of a late rank are called by their titles") {
  Ranks ranks(2);
  for (const std::uint32_t rank : {0U, 1U}) {
    const std::int64_t end = rank == 1 ? 400 : 200;
    ranks.rank(rank);
    ranks.kernel("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN", "forward", 0, end);
    ranks.gather("forward", end, 450, 0);
    ranks.kernel("gemm", "forward", 460, 560);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  REQUIRE(found->late);
  CHECK(straggler_sentences(*found).at(2).starts_with("there 1 calls of nvjet_sm90 GEMM take 400 us"));
}

/// Rank 1 multiplies once more in front of the gather, and sets its workspace to 0.
Ranks one_multiplies_more() {
  Ranks ranks(3);
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const std::int64_t end = rank == 1 ? 410 : 100;
    ranks.rank(rank);
    ranks.kernel("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN", "forward", 0, 100);
    if (rank == 1) ranks.memset("forward", 100, 110);
    if (rank == 1) ranks.kernel("nvjet_sm90_tss_128x256_64x4_2x1_v_bz_coopA_NTT", "forward", 110, end);
    ranks.gather("forward", end, 900, 0);
    ranks.kernel("gemm", "backward", 910, 1010);
  }
  return ranks;
}

TEST_CASE("kernels that the late rank alone runs are told as fit tells them") {
  const Ranks ranks = one_multiplies_more();
  const auto found = find_stragglers(ranks.run());
  const auto fit = fit_ranks(ranks.run());
  REQUIRE((found && found->late && found->late->own));
  REQUIRE((fit && fit->ranks[1].own));
  CHECK(found->late->own->extra == 1);
  CHECK(found->late->own->extra_time == Nanoseconds::from_us(300));
  CHECK(found->late->own->extra_copies == 1);
  CHECK(found->late->kernels.empty());
  const std::string words = own_kernels_words(*fit->ranks[1].own);
  CHECK(words ==
        "1 more (0.30 ms) and 1 more memset or copy (0.01 ms) a step than the middle rank; most of that "
        "time: nvjet_sm90 GEMM");
  CHECK(straggler_sentences(*found).at(2) == "it runs other kernels: " + words);
}

TEST_CASE("kernels of which the late rank runs more are not said to be missing on the others") {
  Ranks ranks(2);
  for (const std::uint32_t rank : {0U, 1U}) {
    ranks.rank(rank);
    ranks.kernel("nvjet_sm90_tst_192x192_64x4_2x1_v_bz_coopB_TNN", "forward", 0, 100);
    if (rank == 1) ranks.kernel("nvjet_sm90_tss_128x256_64x4_2x1_v_bz_coopA_NTT", "forward", 100, 130);
    ranks.gather("forward", rank == 1 ? 130 : 100, 150, 0);
    ranks.kernel("gemm", "backward", 150, 1200);
    if (rank == 1) ranks.kernel("gemm", "backward", 1200, 1201);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE((found && found->late));
  for (const std::string& sentence : straggler_sentences(*found)) CHECK(sentence.find("none") == std::string::npos);
}

TEST_CASE("a collective that compute does not wait for costs nobody") {
  Ranks ranks(2);
  for (const std::uint32_t rank : {0U, 1U}) {
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, 1000);
    ranks.gather("forward", rank == 1 ? 500 : 10, 600, 0);
    ranks.kernel("gemm", "forward", 1010, 2000);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  CHECK_FALSE(found->late);
  CHECK(found->waiting == Nanoseconds{});
  CHECK(straggler_sentences(*found).front().starts_with("no rank is late"));
}

TEST_CASE("a rank that was held up by another is not the one that is waited for") {
  // Shard groups 0, 1 and 2, 3; replicate groups 0, 2 and 1, 3. Rank 3 computes for 100 us longer.
  Ranks ranks(4);
  for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) {
    ranks.rank(rank);
    const std::int64_t mine = rank == 3 ? 300 : 200;
    const std::int64_t shard = rank >= 2 ? 300 : 200;  // when the shard group is there
    ranks.kernel("gemm", "forward", 0, mine);
    ranks.gather("forward", mine, shard + 10, 0, rank / 2);
    ranks.kernel("gemm", "forward", shard + 10, shard + 110);
    ranks.gather("forward", shard + 110, 420, 0, 2 + rank % 2);
    ranks.kernel("gemm", "forward", 420, 520);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  REQUIRE(found->late);
  CHECK(found->late->rank == 3);
  for (const RankTime& rank : found->ranks) {
    CHECK(rank.waiting == Nanoseconds::from_us(rank.rank == 3 ? 0 : 100));
    CHECK(rank.delay == Nanoseconds::from_us(rank.rank == 3 ? 100 : 0));
    CHECK(rank.compute + rank.waiting + rank.communication + rank.idle == rank.step);
  }
}

TEST_CASE("a rank waits only for ranks of the collective's communicator") {
  Ranks ranks(4);
  for (const std::uint32_t rank : {0U, 1U, 2U, 3U}) {
    ranks.rank(rank);
    const std::int64_t start = rank == 3 ? 400 : 100;
    ranks.kernel("gemm", "forward", 0, start);
    ranks.gather("forward", start, rank < 2 ? 150 : 450, 0, rank / 2);
    ranks.kernel("gemm", "forward", rank < 2 ? 150 : 450, 1000);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  CHECK(found->ranks[0].waiting == Nanoseconds{});
  CHECK(found->ranks[2].waiting == Nanoseconds::from_us(300));
  CHECK(found->ranks[3].delay == Nanoseconds::from_us(100));  // of three others, one waits 300 us
}

TEST_CASE("a host that issues late is said to be the reason") {
  Ranks ranks(2);
  for (const std::uint32_t rank : {0U, 1U}) {
    ranks.rank(rank);
    ranks.kernel("gemm", "backward", 0, 100);
    const std::int64_t late = rank == 1 ? 300 : 0;
    ranks.kernel("small", "backward", 100 + late, 110 + late);
    ranks.gather("backward", 110 + late, 450, 0);
    ranks.kernel("gemm", "backward", 450, 900);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  REQUIRE(found->late);
  CHECK(found->late->rank == 1);
  CHECK(found->late->kernels.empty());
  CHECK(straggler_sentences(*found).at(1) ==
        "in backward its GPU is idle for 300 us a step, the others' for 0 ns: likely behind its host");
}

TEST_CASE("late in one phase, waited for in another") {
  Ranks ranks(2);
  for (const std::uint32_t rank : {0U, 1U}) {
    const std::int64_t end = rank == 1 ? 300 : 100;
    ranks.rank(rank);
    ranks.kernel("adam", "optimizer", 0, end);
    ranks.gather("forward", end, 350, 0);
    ranks.kernel("gemm", "forward", 350, 900);
  }
  const auto found = find_stragglers(ranks.run());
  REQUIRE(found);
  REQUIRE(found->late);
  CHECK(found->late->phase == "optimizer");
  REQUIRE(found->late->phases.size() == 2);
  CHECK(found->late->phases[0].delay == Nanoseconds{});
  CHECK(found->late->phases[1].delay == Nanoseconds::from_us(200));
  CHECK(straggler_sentences(*found).at(1) == "in optimizer its GPU computes for 300 us a step, the others' for 100 us");
}

namespace {

/// The same step twice, 1 ms apart.
Run twice(const Ranks& ranks) {
  Run run = ranks.run();
  const std::size_t each = run.rank_ops.size() / run.ranks.size();
  run.steps.push_back(run.steps.front());
  run.steps.back().index = 1;
  std::vector<RankOpRecord> all;
  for (std::size_t first = 0; first < run.rank_ops.size(); first += each)
    for (const std::int32_t step : {0, 1})
      for (std::size_t i = first; i < first + each; ++i) {
        all.push_back(run.rank_ops[i]);
        all.back().step = step;
        if (step == 1)
          for (Nanoseconds* time : {&all.back().op.issue, &all.back().op.start, &all.back().op.end})
            *time += Nanoseconds::from_us(1000);
      }
  run.rank_ops = all;
  return run;
}

}  // namespace

TEST_CASE("the first of several steps is left out, and ranks that are not recorded are said") {
  Run run = twice(one_late());
  run.settings.gpus = 8;
  const auto found = find_stragglers(run);
  REQUIRE(found);
  CHECK(found->steps == 1);
  CHECK(found->ranks[0].step == Nanoseconds::from_us(1000));  // from the end of the first step
  CHECK(straggler_sentences(*found).back() == "3 of 8 ranks are recorded: what is waited for may be one that is not");
}

TEST_CASE("one rank, or no step, says nothing of ranks") {
  CHECK_FALSE(find_stragglers(Run{}));
  Ranks ranks(2);
  ranks.rank(0);
  ranks.kernel("gemm", "forward", 0, 10);
  CHECK_FALSE(find_stragglers(ranks.run()));
}

namespace {

/// Groups of equal ranks as a plan's answer has them; only their first rank has ops.
Run folded(const Ranks& ranks, std::uint32_t world, const char* groups) {
  Run run = ranks.run();
  run.info.kind = RunKind::planned;
  run.settings.gpus = world;
  run.results["ranks"] = groups;
  return run;
}

}  // namespace

namespace {

/// Steps of 1 ms; in step 3 rank 0's forward takes `longer` us more, of the 200 us that it waits for rank 1.
Run planned_steps(std::int32_t count, std::int64_t longer) {
  Ranks ranks(2);
  for (const std::uint32_t rank : {0U, 1U}) {
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, rank == 1 ? 300 : 100);
    ranks.gather("forward", rank == 1 ? 300 : 100, 350, 0);
    ranks.kernel("gemm", "backward", 350, 1000);
  }
  Run run = ranks.run();
  run.info.kind = RunKind::planned;
  run.steps.clear();
  const std::vector<RankOpRecord> one = std::move(run.rank_ops);
  run.rank_ops.clear();
  for (std::int32_t step = 0; step < count; ++step) {
    const Nanoseconds later = Nanoseconds::from_us(1000 * step);
    run.steps.push_back({.recording = Recording::run,
                         .index = step,
                         .start = later,
                         .end = later,
                         .device_end = later + Nanoseconds::from_us(1000),
                         .peaks = {}});
    for (RankOpRecord row : one) {
      for (Nanoseconds* time : {&row.op.issue, &row.op.start, &row.op.end}) *time += later;
      if (step == 3 && row.op.start == later && row.rank == 0) row.op.end += Nanoseconds::from_us(longer);
      row.step = step;
      run.rank_ops.push_back(row);
    }
  }
  std::stable_sort(run.rank_ops.begin(), run.rank_ops.end(),
                   [](const RankOpRecord& a, const RankOpRecord& b) { return a.rank < b.rank; });
  return run;
}

}  // namespace

TEST_CASE("a plan's ranks are of the steps whose mean its time is, or of the one that is asked for") {
  Run run = planned_steps(6, 100);  // in step 3 rank 0 is ready later, and waits for half as long
  const auto waits = [](const std::optional<Stragglers>& found) {
    REQUIRE(found);
    return found->ranks.at(0).waiting;
  };
  CHECK(find_stragglers(run)->steps == 1);
  CHECK(waits(find_stragglers(run)) == Nanoseconds::from_us(200));
  run.results["cycle"] = "2";
  CHECK(find_stragglers(run)->steps == 2);
  CHECK(waits(find_stragglers(run)) == Nanoseconds::from_us(150));
  CHECK(waits(find_stragglers(run, 3)) == Nanoseconds::from_us(100));
  CHECK(waits(find_stragglers(run, 4)) == Nanoseconds::from_us(200));
  CHECK_FALSE(find_stragglers(run, 6));
  // Of a store of the steps from 3 on that one's begin is not known.
  std::erase_if(run.rank_ops, [](const RankOpRecord& row) { return row.step < 3; });
  CHECK(waits(find_stragglers(run)) == Nanoseconds::from_us(200));
  CHECK_FALSE(find_stragglers(run, 3));
  run.results["cycle"] = "1e300";
  CHECK(find_stragglers(run)->steps == 2);  // of all behind the first, those kept
}

TEST_CASE("a recording's ranks are held against one another in the step that is asked for, but for the first") {
  const Run run = twice(one_late());
  CHECK(find_stragglers(run, 1)->ranks[0].step == find_stragglers(run)->ranks[0].step);
  CHECK_FALSE(find_stragglers(run, 0));
}

TEST_CASE("groups of more ranks than the job has are passed over") {
  const char* damaged = R"({"groups":[{"first_rank":0,"members":[[0,4294967295,1]],"kept":true},
                                      {"first_rank":1,"members":[[1,2,1]],"kept":true}]})";
  const auto found = find_stragglers(folded(one_late(), 8, damaged));
  REQUIRE(found);
  CHECK(found->counted == 3);
  CHECK(found->ranks[0].stands_for == 1);
}

TEST_CASE("a rank that stands for others counts as many times in means") {
  Ranks ranks(2);
  for (const std::uint32_t rank : {0U, 5U}) {
    const std::int64_t forward = rank == 5 ? 300 : 100;
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, forward);
    ranks.gather("forward", forward, 350, 0);
    ranks.kernel("gemm", "forward", 360, 660);
  }
  const auto found =
      find_stragglers(folded(ranks, 8, R"({"groups":[{"first_rank":0,"members":[[0,5,1],[6,2,1]],"kept":true},
                           {"first_rank":5,"members":[[5,1,1]],"kept":true}]})"));
  REQUIRE(found);
  CHECK(found->counted == 8);
  REQUIRE(found->ranks.size() == 2);
  CHECK(found->ranks[0].stands_for == 7);
  CHECK(found->ranks[1].stands_for == 1);
  CHECK(found->waiting.count == Nanoseconds::from_us(200).count * 7 / 8);
  CHECK(found->ranks[1].delay == Nanoseconds::from_us(200));
  REQUIRE(found->late);
  CHECK(found->late->rank == 5);
  CHECK_FALSE(found->late->by_path);
  CHECK(straggler_sentences(*found).back() ==
        "of 8 ranks 2 are shown, one of each group that nothing tells apart; means are over all");
}

namespace {

/// The kernels of three ranks run beside a gather that they have begun and the ranks of `late` have not, whose own take
/// `longer` us more; they end just before it moves.
Run beside_a_gather(const std::vector<std::uint32_t>& late, std::int64_t longer) {
  Ranks ranks(3);
  for (const std::uint32_t rank : {0U, 1U, 2U}) {
    const bool is_late = std::find(late.begin(), late.end(), rank) != late.end();
    ranks.rank(rank);
    ranks.kernel("gemm", "forward", 0, 50);
    ranks.kernel("gemm", "forward", 50, is_late ? 900 + longer : 900);
    ranks.gather("forward", is_late ? 905 : 60, 930, 0);
    ranks.kernel("gemm", "backward", 950, 1000);
  }
  return twice(ranks);
}

}  // namespace

TEST_CASE("a rank that the critical path goes through is late though the others hardly wait for it") {
  const auto found = find_stragglers(beside_a_gather({1}, 40));
  REQUIRE(found);
  CHECK(found->ranks[1].delay < found->ranks[1].step.scaled(kLateShareOfStep));
  REQUIRE(found->late);
  CHECK(found->late->rank == 1);
  CHECK(found->late->by_path);
  CHECK(found->late->path >= found->ranks[1].step.scaled(kLateShareOfWaiting));
  CHECK(straggler_sentences(*found).front().find("the critical path over the ranks goes through it") !=
        std::string::npos);
}

TEST_CASE("of a plan the rank that makes its step longer is late, however little its own time is above the others'") {
  Run run = beside_a_gather({1}, 12);
  REQUIRE_FALSE(find_stragglers(run)->late);
  run.info.kind = RunKind::planned;
  const auto with = [&](const char* ranks) {
    run.results["ranks"] = fmt::format(R"({{"slower":{{"ranks":{}}}}})", ranks);
    return *find_stragglers(run);
  };
  const Stragglers found = with("[[1,1,1]]");
  REQUIRE(found.late);
  CHECK(found.late->rank == 1);
  CHECK(found.late->by_path);
  CHECK_FALSE(with("[]").late);
  CHECK_FALSE(with("[[1,1]]").late);  // a damaged store
  CHECK_FALSE(with("3").late);
}

TEST_CASE("a slower rank is not late where collectives set the pace") {
  // As above, but the gather moves for 100 us more, which all of them wait for.
  Run run = beside_a_gather({1}, 40);
  for (RankOpRecord& row : run.rank_ops) {
    const Nanoseconds moved = Nanoseconds::from_us(row.step * 1000 + 925);
    if (row.op.start > moved) row.op.start += Nanoseconds::from_us(100);
    if (row.op.end > moved && (row.sequence >= 0 || row.op.start > moved)) row.op.end += Nanoseconds::from_us(100);
    for (Nanoseconds* time : {&row.op.start, &row.op.end}) *time += Nanoseconds::from_us(row.step * 100);
  }
  const auto found = find_stragglers(run);
  REQUIRE(found);
  CHECK(found->ranks[1].compute > found->ranks[0].compute);
  CHECK(found->ranks[1].communication > Nanoseconds::from_us(40));
  CHECK_FALSE(found->late);
}

TEST_CASE("ranks within two hundredths of a step are none late whichever the path goes through") {
  const auto found = find_stragglers(beside_a_gather({1}, 12));
  REQUIRE(found);
  CHECK_FALSE(found->late);
  CHECK(found->equally_late.empty());
}
