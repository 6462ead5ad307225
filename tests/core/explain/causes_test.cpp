// Each cause on a run that has it, and none on the same run below its threshold.
#include "core/explain/explanation.hpp"
#include "tests/catch.hpp"
#include "tests/core/explain/small_run.hpp"

namespace foreshard {
namespace {

using test::SmallRun;

using test::M;

std::vector<CauseKind> causes_of(const SmallRun& r, const ExplainRequest& request = {}) {
  const auto e = explain(r.run, request);
  REQUIRE(e);
  std::vector<CauseKind> out;
  for (const Cause& cause : e->causes) out.push_back(cause.kind);
  return out;
}

/// `count` gather buffers of `size`, each freed and waiting, while the next ones are made.
SmallRun pile(std::size_t count, Bytes size, MemoryCategory category = MemoryCategory::gather_buffers) {
  SmallRun r;
  for (std::size_t i = 0; i < count; ++i) {
    const Bytes at = 1024 * M * i;
    r.segment(at, size).alloc(at, size, size, category, static_cast<std::uint32_t>(1 + i % 2)).free(at, true);
  }
  r.segment(1024 * M * count, 2 * M).alloc(1024 * M * count, 512, 512);
  for (std::size_t i = 0; i < count; ++i) r.back(1024 * M * i);
  return r;
}

TEST_CASE("gather buffers that wait are record_stream's, with their evidence", "[explain][causes]") {
  SmallRun r = pile(3, 100 * M);
  DeviceOpRecord op;
  op.kind = DeviceOpRecord::Kind::collective;
  op.stream = StreamId{2};
  op.unit = UnitId{1};
  op.issue = {1500};
  op.start = {1500};
  op.end = Nanoseconds::from_us(50);
  r.run.device_ops.push_back(op);
  const auto e = explain(r.run, {});
  REQUIRE(e);
  REQUIRE(e->causes.size() == 1);
  const Cause& cause = e->causes.front();
  CHECK(cause.kind == CauseKind::record_stream);
  CHECK(cause.bytes == 300 * M);
  CHECK(cause.blocks == 3);
  CHECK(cause.category == MemoryCategory::gather_buffers);
  CHECK(cause.waits_for == StreamId{2});
  CHECK(cause.text ==
        "The all-gather output is held by record_stream on the all-gather stream: 3 blocks (300 MiB) of layers.0 to "
        "layers.1 were freed by the program, and the caching allocator waits for events of that stream before it uses "
        "them again");
  CHECK(cause.held_longest == Nanoseconds::from_us(9));
  REQUIRE(cause.example);
  CHECK(cause.example->behind == "all-gather of layers.0");
  CHECK(cause.example->op_end == Nanoseconds::from_us(50));
}

TEST_CASE("other tensors that wait are named without a guess at the stream", "[explain][causes]") {
  const auto e = explain(pile(1, 100 * M, MemoryCategory::other).run, {});
  REQUIRE(e->causes.size() == 1);
  CHECK(
      e->causes[0].text.starts_with("Tensors (other) are held by record_stream on another stream: 1 block (100 MiB)"));
  CHECK(e->causes[0].example->waits_for_name.empty());
}

TEST_CASE("less than a large segment's worth of waiting accuses nobody", "[explain][causes]") {
  CHECK(causes_of(pile(1, 19 * M)).empty());
  CHECK(causes_of(pile(1, 20 * M)) == std::vector<CauseKind>{CauseKind::record_stream});
}

TEST_CASE("idle segments of another stream are named from a third of reserved on", "[explain][causes]") {
  for (const bool enough : {true, false}) {
    SmallRun r;
    const Bytes idle = enough ? 60 * M : 40 * M;
    r.segment(0, idle, 1).alloc(0, idle, idle, MemoryCategory::gather_buffers, 1, 1).free(0);
    r.segment(1024 * M, 100 * M).alloc(1024 * M, 100 * M, 100 * M);
    CHECK(causes_of(r) == (enough ? std::vector<CauseKind>{CauseKind::stream_pools} : std::vector<CauseKind>{}));
  }
}

TEST_CASE("free space between blocks is hard fragmentation, whole segments are soft", "[explain][causes]") {
  SmallRun hard;
  hard.segment(0, 100 * M).alloc(0, 40 * M, 40 * M).alloc(40 * M, 20 * M, 20 * M).free(0);
  hard.segment(1024 * M, 50 * M).alloc(1024 * M, 50 * M, 50 * M);
  CHECK(causes_of(hard) == std::vector<CauseKind>{CauseKind::hard_fragmentation});
  SmallRun soft;
  soft.segment(0, 100 * M).alloc(0, 100 * M, 100 * M).free(0);
  soft.segment(1024 * M, 150 * M).alloc(1024 * M, 150 * M, 150 * M);
  CHECK(causes_of(soft) == std::vector<CauseKind>{CauseKind::soft_fragmentation});
}

TEST_CASE("memory that only the first step used is a spike", "[explain][causes]") {
  for (const bool again : {false, true}) {
    SmallRun r;
    r.segment(0, 200 * M).step().alloc(0, 200 * M, 200 * M).free(0);
    r.step().alloc(0, again ? 190 * M : 170 * M, again ? 190 * M : 170 * M);
    const auto causes = causes_of(r);
    const bool spike = std::find(causes.begin(), causes.end(), CauseKind::first_step_spike) != causes.end();
    CHECK(spike == !again);
  }
}

TEST_CASE("three units' reduce-scatter inputs at once are more than FSDP2 keeps", "[explain][causes]") {
  for (const std::uint32_t units : {2U, 3U}) {
    SmallRun r;
    for (std::uint32_t unit = 0; unit < units; ++unit)
      r.segment(1024 * M * unit, 100 * M)
          .alloc(1024 * M * unit, 100 * M, 100 * M, MemoryCategory::reduce_buffers, unit);
    CHECK(causes_of(r).size() == (units > 2 ? 1u : 0u));
  }
}

TEST_CASE("idle private pools are named", "[explain][causes]") {
  SmallRun r;
  r.segment(0, 100 * M).alloc(0, 100 * M, 100 * M, MemoryCategory::gather_buffers, 1);
  r.run.blocks.back().pool = PoolId{1};
  r.free(0).segment(1024 * M, 150 * M).alloc(1024 * M, 150 * M, 150 * M);
  const auto e = explain(r.run, {});
  REQUIRE(e->causes.size() == 1);
  CHECK(e->causes[0].kind == CauseKind::private_pool_idle);
  CHECK(e->reserved_peak.at.parts.private_pool == 100 * M);
}

}  // namespace
}  // namespace foreshard
