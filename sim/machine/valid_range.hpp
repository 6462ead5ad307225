// The range that a profile's numbers were measured in: inside it a prediction needs no warning.
//
// Used by sim/predict, which compares what a plan does with what the profile covers, and by `calibrate`,
// which writes the range of its inputs. Pure. An axis that a profile leaves out is not limited.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"
#include "core/device/device.hpp"

namespace foreshard::sim {

template <class T>
struct CoveredRange {
  T least = 0;
  T most = 0;
};

struct ValidRange {
  std::optional<CoveredRange<Bytes>> bytes;          ///< of a collective's whole buffer
  std::optional<CoveredRange<std::uint32_t>> ranks;  ///< of one collective
  std::optional<CoveredRange<std::uint32_t>> nodes;  ///< of the run
  std::vector<DType> dtypes;                         ///< of matrix operands; empty: not limited, here and below
  std::vector<Transport> transports;
  std::vector<KernelClass> kernels;
  std::string source;
};

/// What one plan asks of the machine.
struct MachineUse {
  Bytes largest_collective = 0;
  std::vector<std::uint32_t> ranks;  ///< of the communicators that are used
  std::uint32_t nodes = 1;
  std::vector<DType> dtypes;
  std::vector<Transport> transports;
  std::vector<KernelClass> kernels;  ///< of kernels priced by the profile
};

/// One sentence without a full stop for each axis on which `use` leaves the range; empty where none does. A collective
/// smaller than the smallest covered one is inside: it costs its latency.
[[nodiscard]] std::vector<std::string> outside(const ValidRange& valid_range, const std::string& machine,
                                               const MachineUse& use);

}  // namespace foreshard::sim
