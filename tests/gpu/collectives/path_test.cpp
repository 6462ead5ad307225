#include "gpu/collectives/path.hpp"

#include "tests/catch.hpp"

namespace foreshard::gpu {

TEST_CASE("a transport that cannot serve a call is replaced, with the reason") {
  constexpr auto kGather = CollectiveKind::all_gather;
  constexpr auto kScatter = CollectiveKind::reduce_scatter;
  PathFacts facts;
  facts.ranks = 4;
  for (const Transport t : {Transport::nccl, Transport::nccl_registered, Transport::symmetric, Transport::copy_engine,
                            Transport::low_contention}) {
    CHECK(choose_path(kGather, t, facts).transport == t);
    CHECK(choose_path(kGather, t, facts).reason.empty());
  }
  CHECK(choose_path(kScatter, Transport::copy_engine, facts).transport == Transport::symmetric);
  CHECK(choose_path(kScatter, Transport::low_contention, facts).transport == Transport::pull_reduce);
  CHECK(choose_path(kScatter, Transport::pull_reduce, facts).transport == Transport::pull_reduce);
  CHECK(choose_path(kScatter, Transport::pull_reduce, facts).reason.empty());
  CHECK(choose_path(kGather, Transport::pull_reduce, facts).transport == Transport::nccl);
  CHECK(choose_path(CollectiveKind::all_reduce, Transport::low_contention, facts).transport == Transport::nccl);

  PathFacts apart = facts;
  apart.one_host = false;
  for (const Transport t : {Transport::symmetric, Transport::copy_engine, Transport::low_contention}) {
    CHECK(choose_path(kGather, t, apart).transport == Transport::nccl);
    CHECK(choose_path(kGather, t, apart).reason == "the group's ranks are on several hosts");
  }
  CHECK(choose_path(kGather, Transport::nccl_registered, apart).transport == Transport::nccl_registered);

  PathFacts loose = facts;
  loose.registered = false;
  CHECK(choose_path(kGather, Transport::symmetric, loose).reason ==
        "a buffer is not in memory of the transport symmetric");
  CHECK(choose_path(kGather, Transport::low_contention, loose).transport == Transport::nccl);
  // Its input is staged, wherever it lies.
  CHECK(choose_path(kScatter, Transport::pull_reduce, loose).transport == Transport::pull_reduce);

  PathFacts many = facts;
  many.ranks = 9;
  CHECK(choose_path(kGather, Transport::low_contention, many).reason == "more than 8 ranks");

  PathFacts odd = facts;
  odd.whole_words = false;
  CHECK(choose_path(kGather, Transport::symmetric, odd).transport == Transport::nccl);
  CHECK(choose_path(kGather, Transport::copy_engine, odd).transport == Transport::copy_engine);
  CHECK(choose_path(kScatter, Transport::copy_engine, odd).transport == Transport::nccl);

  PathFacts whole = facts;
  whole.summable = false;
  CHECK(choose_path(kScatter, Transport::low_contention, whole).transport == Transport::nccl);
}

TEST_CASE("what ran is told from the kernels and copies of a call") {
  CallTrace ring{{"_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE"}, 0, 0, {}};
  CHECK(transport_of(ring, Transport::symmetric) == Transport::nccl);
  CHECK(transport_of(ring, Transport::nccl_registered) == Transport::nccl_registered);
  CallTrace symmetric{{"_Z30ncclSymkDevKernel_AllGather_ST21ncclSymkDevWorkArgs4K"}, 0, 0, {}};
  CHECK(transport_of(symmetric, Transport::copy_engine) == Transport::symmetric);
  CallTrace engines{{}, 3, 2, {}};
  CHECK(transport_of(engines, Transport::copy_engine) == Transport::copy_engine);
  CHECK(text(engines) == "no kernel, 3 copies, 2 flag batches");
  CallTrace none;
  none.failed = "cudaStreamEndCapture: no";
  CHECK(transport_of(none, Transport::copy_engine) == Transport::copy_engine);
  CHECK(text(none) == "not read back: cudaStreamEndCapture: no");

  PathReport report;
  report.kind = CollectiveKind::reduce_scatter;
  report.asked = Transport::copy_engine;
  report.ran = Transport::symmetric;
  report.reason = "NCCL's copy engines gather only";
  report.seen = "kernel k";
  report.calls = 7;
  CHECK(text(report) ==
        "reduce_scatter: symmetric instead of copy-engine because NCCL's copy engines gather only (kernel k), 7 calls");
}

}  // namespace foreshard::gpu
