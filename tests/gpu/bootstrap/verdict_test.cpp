#include "gpu/bootstrap/verdict.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

RunFailure of(ErrorKind kind, std::uint32_t rank, std::string cause = "x") {
  return {kind, rank, "op", std::move(cause), {}, {}};
}

}  // namespace

TEST_CASE("a death explains the errors of the others, whichever comes first") {
  Verdict verdict;
  verdict.add(of(ErrorKind::input, 0, "failed: NCCL: remote process exited"));
  verdict.add(of(ErrorKind::rank_lost, 2));
  verdict.add(of(ErrorKind::input, 1));
  CHECK(verdict.best()->rank == 2U);
  CHECK_FALSE(verdict.certain());
}

TEST_CASE("of equally good explanations the first stays") {
  Verdict verdict;
  verdict.add(of(ErrorKind::out_of_memory, 1));
  verdict.add(of(ErrorKind::rank_lost, 2));
  verdict.add(of(ErrorKind::rank_hung, 0));
  CHECK(verdict.best()->rank == 1U);
}

TEST_CASE("the end of a process explains its own cut connection") {
  Verdict verdict;
  verdict.add(of(ErrorKind::rank_lost, 1, "died: its connection closed"));
  RunFailure end = of(ErrorKind::rank_lost, 1, "was killed by signal 9 (SIGKILL)");
  end.operation.clear();
  verdict.add_end_of_process(end);
  CHECK(verdict.best()->text() == "rank 1 was killed by signal 9 (SIGKILL); its last operation: op");
  verdict.add_end_of_process(of(ErrorKind::rank_lost, 2, "was killed by signal 6 (SIGABRT)"));
  CHECK(verdict.best()->rank == 1U);
}

TEST_CASE("an interrupt and other settings need no better explanation") {
  Verdict verdict;
  verdict.add(of(ErrorKind::mismatch, 1));
  CHECK(verdict.certain());
  verdict.add(of(ErrorKind::interrupted, 0));
  CHECK(verdict.best()->kind == ErrorKind::interrupted);
  CHECK(verdict.certain());
}
