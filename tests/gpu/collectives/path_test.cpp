#include "gpu/collectives/path.hpp"

#include "tests/catch.hpp"

namespace foreshard::gpu {

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
