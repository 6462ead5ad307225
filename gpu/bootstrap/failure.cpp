#include "gpu/bootstrap/failure.hpp"

namespace foreshard::gpu {

std::string RunFailure::text() const {
  std::string out = rank ? "rank " + std::to_string(*rank) + " " + cause : cause;
  if (!operation.empty()) out += "; its last operation: " + operation;
  return out;
}

}  // namespace foreshard::gpu
