// What makes ranks differ, on ranks made by hand: times in microseconds.
#include "core/straggler/rank_fit.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

class FitRanks {
 public:
  explicit FitRanks(std::uint32_t world) { run_.settings.gpus = world; }

  void rank(std::uint32_t rank) {
    run_.ranks.push_back({rank, {}, {}});
    issue_ = at_ = 0;
  }
  void kernel(const char* name, std::int64_t length, std::int64_t host = 5) {
    DeviceOpRecord op;
    op.stream = kComputeStream;
    op.label = run_.labels.intern(name);
    add(op, length, host, -1);
  }
  void gather(std::uint32_t communicator, std::int32_t sequence, std::int64_t length) {
    DeviceOpRecord op;
    op.kind = DeviceOpRecord::Kind::collective;
    op.bytes = 1024;
    op.communicator = CommunicatorId{communicator};
    add(op, length, 5, sequence);
  }
  [[nodiscard]] RanksFit fit() const {
    auto found = fit_ranks(run_);
    REQUIRE(found);
    return std::move(*found);
  }
  [[nodiscard]] const Run& run() const { return run_; }

 private:
  void add(DeviceOpRecord op, std::int64_t length, std::int64_t host, std::int32_t sequence) {
    issue_ += host;
    at_ = std::max(at_, issue_);
    op.issue = Nanoseconds::from_us(issue_);
    op.start = Nanoseconds::from_us(at_);
    at_ += length;
    op.end = Nanoseconds::from_us(at_);
    run_.rank_ops.push_back({run_.ranks.back().rank, 0, {}, sequence, op});
  }

  Run run_;
  std::int64_t issue_ = 0, at_ = 0;
};

/// Four ranks, the kernels of rank 2 `kernels` times as long, the launches of rank 1 `host` times.
FitRanks four(double kernels, double host) {
  FitRanks ranks(4);
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    ranks.rank(rank);
    const double gpu = rank == 2 ? kernels : 1;
    const auto launch = static_cast<std::int64_t>(rank == 1 ? 10 * host : 10);
    for (int i = 0; i < 8; ++i) {
      ranks.kernel("gemm", static_cast<std::int64_t>(200 * gpu), launch);
      ranks.kernel("add", static_cast<std::int64_t>(40 * gpu), launch);
    }
  }
  return ranks;
}

}  // namespace

TEST_CASE("a slow GPU and a slow host are found with their factors") {
  const RanksFit fit = four(1.25, 2).fit();
  REQUIRE(fit.ranks.size() == 4);
  CHECK(fit.ranks[2].kernels.value == Approx(1.25));
  CHECK(fit.ranks[2].kernels.differs(kAlikeKernels));
  CHECK(fit.ranks[1].host.value == Approx(2));
  CHECK(fit.ranks[1].host.differs(kAlikeHosts));
  for (const std::uint32_t rank : {0U, 1U, 3U}) CHECK_FALSE(fit.ranks[rank].kernels.differs(kAlikeKernels));
  for (const std::uint32_t rank : {0U, 2U, 3U}) CHECK_FALSE(fit.ranks[rank].host.differs(kAlikeHosts));
  for (const RankFit& rank : fit.ranks) CHECK_FALSE(rank.own);
}

TEST_CASE("ranks that are alike do not differ") {
  for (const RankFit& rank : four(1.01, 1.2).fit().ranks) {
    CHECK_FALSE(rank.kernels.differs(kAlikeKernels));
    CHECK_FALSE(rank.host.differs(kAlikeHosts));
  }
}

TEST_CASE("kernels of one rank alone are its own, and no factor") {
  FitRanks ranks(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    ranks.rank(rank);
    for (int i = 0; i < 4; ++i) {
      ranks.kernel("gemm", 100);
      if (rank == 1) ranks.kernel("debug gemm", 300);
    }
  }
  const RanksFit fit = ranks.fit();
  REQUIRE(fit.ranks[1].own);
  CHECK(fit.ranks[1].own->name == "debug gemm");
  CHECK(fit.ranks[1].own->time == Nanoseconds::from_us(1200));
  CHECK(fit.ranks[1].own->launches == 4);
  CHECK_FALSE(fit.ranks[1].kernels.differs(kAlikeKernels));
  CHECK_FALSE(fit.ranks[0].own);
}

TEST_CASE("a group whose collectives move more slowly than those of its shape") {
  FitRanks ranks(8);
  for (std::uint32_t rank = 0; rank < 8; ++rank) {
    ranks.rank(rank);
    for (std::int32_t i = 0; i < 4; ++i) ranks.gather(rank / 2, i, rank / 2 == 3 ? 300 : 100);
  }
  const RanksFit fit = ranks.fit();
  REQUIRE(fit.groups.size() == 1);
  CHECK(fit.groups[0].ranks == std::vector<std::uint32_t>{6, 7});
  CHECK(fit.groups[0].time.value == Approx(3));
}

TEST_CASE("one rank has nobody to be held against") {
  FitRanks ranks(8);
  ranks.rank(0);
  ranks.kernel("gemm", 100);
  CHECK_FALSE(fit_ranks(ranks.run()));
}

}  // namespace foreshard
