#include "gpu/bootstrap/failure_report.hpp"

#include <utility>

namespace foreshard::gpu {
namespace {

/// How likely an explanation is a cause and not a consequence.
int weight(const RunFailure& failure) {
  switch (failure.kind) {
    case ErrorKind::interrupted:
      return failure.rank ? 0 : 4;  // a launcher ends ranks when another one is gone; a person's wish explains all
    case ErrorKind::mismatch:
    case ErrorKind::out_of_memory:
    case ErrorKind::rank_lost:
      return 3;
    case ErrorKind::rank_hung:
      return 1;  // ranks hang because another one is gone
    default:
      return 2;  // an error of a collective may be another rank's end
  }
}

}  // namespace

void FailureReport::add(RunFailure failure) {
  if (!best_ || weight(failure) > weight(*best_)) best_ = std::move(failure);
}

void FailureReport::add_end_of_process(RunFailure failure) {
  if (best_ && best_->kind == ErrorKind::rank_lost && best_->rank == failure.rank) {
    if (failure.operation.empty()) failure.operation = best_->operation;
    best_ = std::move(failure);
  } else {
    add(std::move(failure));
  }
}

bool FailureReport::certain() const {
  return best_ && (weight(*best_) == 4 || best_->kind == ErrorKind::mismatch);
}

}  // namespace foreshard::gpu
