#include "gpu/bootstrap/failure_report.hpp"

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

RunFailure of(ErrorKind kind, std::uint32_t rank, std::string cause = "x") {
  return {kind, rank, "op", std::move(cause), {}, {}};
}

}  // namespace

TEST_CASE("a death explains the errors of the others, whichever comes first") {
  FailureReport failure_report;
  failure_report.add(of(ErrorKind::input, 0, "failed: NCCL: remote process exited"));
  failure_report.add(of(ErrorKind::rank_lost, 2));
  failure_report.add(of(ErrorKind::input, 1));
  CHECK(failure_report.best()->rank == 2U);
  CHECK_FALSE(failure_report.certain());
}

TEST_CASE("of equally good explanations the first stays") {
  FailureReport failure_report;
  failure_report.add(of(ErrorKind::out_of_memory, 1));
  failure_report.add(of(ErrorKind::rank_lost, 2));
  failure_report.add(of(ErrorKind::rank_hung, 0));
  CHECK(failure_report.best()->rank == 1U);
}

TEST_CASE("the end of a process explains its own cut connection") {
  FailureReport failure_report;
  failure_report.add(of(ErrorKind::rank_lost, 1, "died: its connection closed"));
  RunFailure end = of(ErrorKind::rank_lost, 1, "was killed by signal 9 (SIGKILL)");
  end.operation.clear();
  failure_report.add_end_of_process(end);
  CHECK(failure_report.best()->text() == "rank 1 was killed by signal 9 (SIGKILL); its last operation: op");
  failure_report.add_end_of_process(of(ErrorKind::rank_lost, 2, "was killed by signal 6 (SIGABRT)"));
  CHECK(failure_report.best()->rank == 1U);
}

TEST_CASE("a launcher ends ranks because another one is gone") {
  FailureReport failure_report;
  failure_report.add(of(ErrorKind::interrupted, 0));
  CHECK_FALSE(failure_report.certain());
  failure_report.add(of(ErrorKind::rank_lost, 2));
  failure_report.add(of(ErrorKind::interrupted, 1));
  CHECK(failure_report.best()->rank == 2U);
}

TEST_CASE("a person's interrupt and other settings need no better explanation") {
  FailureReport failure_report;
  failure_report.add(of(ErrorKind::mismatch, 1));
  CHECK(failure_report.certain());
  failure_report.add({ErrorKind::interrupted, std::nullopt, {}, "interrupted", {}, {}});
  CHECK(failure_report.best()->kind == ErrorKind::interrupted);
  CHECK(failure_report.certain());
}
