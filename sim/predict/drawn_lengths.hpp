// Lengths of samples that each rank of a model draws for each step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::sim {

/// A length is tokens of a sample. Each takes a program of about 10 MB.
struct DrawnLengths {
  std::string said;                    ///< as they were asked for
  std::string digest;                  ///< of what they were read from
  std::vector<std::uint32_t> lengths;  ///< that can be drawn, ascending; not empty
  std::uint32_t multiple = 1;          ///< that they are rounded up to
  /// One of `lengths`: what the owner of `key` draws for a step. Called on any thread.
  std::function<std::uint32_t(std::uint64_t key, std::size_t step)> draw;
  /// The model at a length, of them or another; not adapted. Called on one thread.
  std::function<Result<std::shared_ptr<const Workload>>(std::uint32_t length)> program;
};

}  // namespace foreshard::sim
