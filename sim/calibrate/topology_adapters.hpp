// The adapters of a node that NCCL described, and what of them its GPUs have.
//
// NCCL gives a GPU DIVUP(local adapters, local GPUs) adapters, one a channel in turn, beginning at the GPU's number
// with its bits mirrored where the adapters are a power of two (ncclTopoGetLocalNet, graph/topo.cc of NCCL 2.28). Local
// are here those that are nearest in the tree (NodeTopology::nearest), which NCCL has only where no other has a faster
// way: where one has, that is a doubt.
//
// Who: plans with `--topology` and `calibrate`, so that both read a file alike. Pure and deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/calibrate/measurements.hpp"

namespace foreshard::sim {

/// What a PCIe slot carries over NCCL's weight for it: 32 GT/s in 128b/130b are 3.94 GB/s a lane, weighed as 3.
inline constexpr double kSlotOverWeight = 32.0 * 128 / 130 / 8 / 3;

struct NodeAdapters {
  std::uint32_t used = 0;  ///< 0: the file names none
  /// GB/s: times `used`, over the node's GPUs, what the GPU with the least has (rail_bandwidth()); all wait for it.
  double nic = 0;
  std::vector<std::uint32_t> of_gpu;  ///< the first of each GPU, numbered among those that are used
  std::vector<std::string> notes;     ///< which are left out, and what holds GPUs up
  std::vector<std::string> doubts;
};

/// `file`: for words.
[[nodiscard]] NodeAdapters adapters_of(const NodeTopology& node, std::string_view file);

}  // namespace foreshard::sim
