// Several ranks' traces in one run: clocks, left-out ranks, and what is refused.
#include "traces/import/rank_traces.hpp"

#include "tests/catch.hpp"
#include "traces/import/clock_alignment.hpp"
#include "traces/import/recorded_steps.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

constexpr std::int64_t kUs = 1000;

CollectiveKey key(std::int32_t sequence, std::uint32_t communicator = 0) {
  return {CommunicatorId{communicator}, 0, sequence};
}
CollectiveSpan span(std::int64_t start, std::int64_t end) {
  return {{start}, {end}};
}

/// A step of one gather and its kernels, all times shifted.
ProfilerTrace trace_of(std::uint32_t rank, Nanoseconds shift, Bytes bytes = 64) {
  ProfilerTrace trace;
  trace.rank = rank;
  trace.world_size = 4;
  trace.origin_ns = 5'000'000;
  trace.communicators.push_back({"0", "default_pg", "[0, 1, 2, 3]", 4});
  Run& run = trace.run;
  const auto annotation = [&](const char* name, std::int64_t start, std::int64_t end) {
    run.host_ops.push_back({HostOpRecord::Kind::annotation, 0, run.labels.intern(name),
                            Nanoseconds{start * kUs} + shift, Nanoseconds{end * kUs} + shift, 0});
  };
  annotation("Optimizer.zero_grad#Adam.zero_grad", 0, 10);
  annotation("FSDP::root_pre_forward", 20, 30);
  annotation("FSDP::pre_forward", 31, 40);
  annotation("FSDP::post_forward", 50, 51);
  annotation("FSDP::pre_backward", 60, 61);
  annotation("FSDP::post_backward_accumulate", 70, 71);
  annotation("FSDP::root_post_backward_callback", 80, 81);
  annotation("Optimizer.step#Adam.step", 90, 95);
  DeviceOpRecord op;
  op.kind = DeviceOpRecord::Kind::collective;
  op.stream = StreamId{1};
  op.label = run.labels.intern("ncclDevKernel_AllGather_RING_LL");
  op.communicator = CommunicatorId{0};
  op.bytes = bytes;
  op.issue = Nanoseconds{35 * kUs} + shift;
  op.start = Nanoseconds{40 * kUs} + shift;
  op.end = Nanoseconds{48 * kUs} + shift;
  run.device_ops.push_back(op);
  return trace;
}

struct First {
  Run run;
  FirstRank rank;
};

First first_of(ProfilerTrace trace) {
  First first{std::move(trace.run), {0, trace.world_size, trace.origin_ns, trace.communicators}};
  first.run.units = {{"", {Parameter{"weight", {2, 2}, DType::float32}}}};
  const auto hooks = find_hooks(trace_ranges(first.run), first.run.units);
  REQUIRE(hooks);
  first.run.steps = step_records(*hooks, Recording::trace);
  first.run.phases = phase_records(*hooks, Recording::trace);
  return first;
}

Result<void> add_ranks(First& first, std::vector<RankTrace> others) {
  RankTraces ranks(first.rank, first.run);
  for (RankTrace& other : others) FORESHARD_TRY(ranks.add(std::move(other)));
  ranks.finish();
  return {};
}

}  // namespace

TEST_CASE("clocks: ends agree, within what begins allow") {
  const RankCollectives first{{key(0), span(0, 100)}, {key(1), span(200, 300)}, {key(2), span(400, 500)}};
  const RankCollectives second{{key(0), span(1030, 1101)}, {key(1), span(1230, 1300)}, {key(2), span(1430, 1502)}};
  const auto clocks = align_clocks({first, second, {}, {{key(0), span(0, 1)}, {key(1), span(900, 901)}}});
  REQUIRE(clocks[0]);
  CHECK(clocks[0]->error == Nanoseconds{});
  REQUIRE(clocks[1]);
  CHECK(clocks[1]->offset == Nanoseconds{-1001});
  CHECK(clocks[1]->error == Nanoseconds{99});  // at -1100 the second would end where the first begins
  CHECK_FALSE(clocks[2]);                      // shares nothing
  CHECK_FALSE(clocks[3]);                      // no offset lets both collectives overlap on both ranks
}

TEST_CASE("clocks reach ranks that share no collective with the first, by another's") {
  const RankCollectives first{{key(0), span(0, 100)}};
  const RankCollectives between{{key(0), span(50, 150)}, {key(0, 1), span(200, 300)}};
  const RankCollectives far{{key(0, 1), span(1200, 1300)}};
  const auto clocks = align_clocks({first, far, between});
  REQUIRE(clocks[1]);
  CHECK(clocks[1]->offset == Nanoseconds{-1050});
  REQUIRE(clocks[2]);
  CHECK(clocks[1]->error > clocks[2]->error);
}

TEST_CASE("a rank's ops come with step, phase and place among its collectives, on the first one's clock") {
  First first = first_of(trace_of(0, {}));
  std::vector<RankTrace> others;
  others.push_back({"rank3.json", trace_of(3, {700 * kUs})});
  others.push_back({"rank1.json", trace_of(1, {0})});
  REQUIRE(add_ranks(first, std::move(others)));
  REQUIRE(first.run.ranks.size() == 3);
  CHECK(first.run.ranks[1].rank == 1);
  CHECK(first.run.ranks[2].rank == 3);
  CHECK(first.run.ranks[2].clock_offset == Nanoseconds{-700 * kUs});
  CHECK(first.run.ranks[2].clock_error == Nanoseconds{8 * kUs});
  REQUIRE(first.run.rank_ops.size() == 3);
  for (const RankOpRecord& row : first.run.rank_ops) {
    CHECK(row.step == 0);
    CHECK(row.sequence == 0);
    CHECK(first.run.labels.text(row.phase) == "forward");
    CHECK(row.op.start == Nanoseconds{40 * kUs});
  }
  REQUIRE(first.run.import_stats.size() == 2);
  CHECK(first.run.import_stats[0].name == "clock_far_off");  // 700 us, of a step of 95
  CHECK(first.run.import_stats[1].name == "ranks_missing");
  CHECK(first.run.import_stats[1].text ==
        "only ranks 0, 1, 3 of 4 are recorded: a collective may wait for one that is not");
}

TEST_CASE("a trace of other steps or of another program is left out, and counted") {
  First first = first_of(trace_of(0, {}));
  std::vector<RankTrace> others;
  others.push_back({"rank1.json", trace_of(1, {}, 128)});
  ProfilerTrace cut = trace_of(2, {});
  cut.run.host_ops.pop_back();  // no optimizer: no complete step
  others.push_back({"rank2.json", std::move(cut)});
  REQUIRE(add_ranks(first, std::move(others)));
  CHECK(first.run.ranks.size() == 1);
  std::erase_if(first.run.import_stats, [](const ImportStat& stat) { return stat.name != "rank_left_out"; });
  REQUIRE(first.run.import_stats.size() == 2);
  CHECK(first.run.import_stats[0].severity == ImportStat::Severity::data_loss);
  CHECK(first.run.import_stats[0].text == "rank1.json is left out: its collectives are not those of rank 0");
  CHECK(first.run.import_stats[1].text == "rank2.json is left out: it has 0 complete steps, rank 0's 1");
}

TEST_CASE("traces without a rank, of one rank twice, or of another world are refused") {
  const auto refusal = [](ProfilerTrace trace) {
    First first = first_of(trace_of(0, {}));
    std::vector<RankTrace> others;
    others.push_back({"other.json", std::move(trace)});
    const auto added = add_ranks(first, std::move(others));
    return added ? std::string("accepted") : added.error().where + ": " + added.error().what;
  };
  ProfilerTrace unsaid = trace_of(1, {});
  unsaid.rank.reset();
  CHECK(refusal(std::move(unsaid)) == "other.json: does not say which rank it is of");
  CHECK(refusal(trace_of(0, {})) == "other.json: is of rank 0, as another trace is");
  ProfilerTrace eight = trace_of(1, {});
  eight.world_size = 8;
  CHECK(refusal(trace_of(4, {})) == "other.json: is of rank 4, and the world has 4 ranks, from 0");
  CHECK(refusal(std::move(eight)) == "other.json: is of a world of 8 ranks, the first trace of 4");
}
