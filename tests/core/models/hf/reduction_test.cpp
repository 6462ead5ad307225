// Workspaces of reductions against what the reference runs' snapshots and kernel launches show (H200, 132 SMs).
#include "core/models/reduction.hpp"

#include "tests/catch.hpp"

namespace foreshard::model {
namespace {

constexpr std::uint32_t kH200 = 132;

TEST_CASE("a norm's weight from 2048 rows of 2048") {
  const ReductionWorkspace w = reduction_workspace({2048, 2048}, kH200);
  CHECK(w.staging == 33'554'432);
  CHECK(w.semaphores == 64);
}

TEST_CASE("a head's norm from many short rows") {
  CHECK(reduction_workspace({128, 16384}, kH200).staging == 16'777'216);
  CHECK(reduction_workspace({128, 32768}, kH200).staging == 33'554'432);
  CHECK(reduction_workspace({128, 32768}, kH200).semaphores == 4);
}

TEST_CASE("biases whose width is no power of two") {
  CHECK(reduction_workspace({1600, 2048}, kH200).staging == 26'214'400);
  CHECK(reduction_workspace({1600, 2048}, kH200).semaphores == 52);
  CHECK(reduction_workspace({4800, 2048}, kH200).staging == 78'643'200);
  CHECK(reduction_workspace({6400, 2048}, kH200).staging == 104'857'600);
  CHECK(reduction_workspace({6400, 2048}, kH200).semaphores == 200);
}

TEST_CASE("reductions that fit a block need none") {
  CHECK(reduction_workspace({2048, 2048, true}, kH200).staging == 0);  // mean over the last dimension
  CHECK(reduction_workspace({1024 * 1600, 2}, kH200).staging == 0);    // positions over the batch
  CHECK(reduction_workspace({16, 1}, kH200).staging == 0);
  CHECK(reduction_workspace({1, 1, true}, kH200).semaphores == 0);
}

}  // namespace
}  // namespace foreshard::model
