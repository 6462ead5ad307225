// What a collective costs when it runs alone: the seam behind which rings, trees and fabrics are priced.
//
// Who: sim/engine asks once for each collective that is put on a stream. Implemented from measured tables
// by measured_collectives.hpp. Pure and deterministic; safe to share between simulations on many threads.
#pragma once

#include <string>
#include <string_view>

#include "core/device/device.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct CollectiveRequest {
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  Bytes bytes = 0;  ///< whole buffer, as CollectiveWork::bytes
  std::uint32_t ranks = 1;
  std::uint32_t ranks_per_node = 1;
};

struct CollectivePrice {
  Nanoseconds time;  ///< alone, from the kernel's start to its end, every rank being there
  CollectiveResource uses = CollectiveResource::ring;
  double sms = 0;        ///< SMs held while it runs
  Bytes hbm_bytes = 0;   ///< read and written in this GPU's memory
  Bytes link_bytes = 0;  ///< sent over NVLink by this GPU
  /// What ran, and why it is not what was asked for, where it is not: "NCCL ring, Simple, 24 channels";
  /// "NCCL ring: a copy-engine all-gather does not cross nodes (NCCL 2.28)".
  std::string path;
  /// Empty where the price rests on measurements of this transport and this many ranks. Else one sentence
  /// without a full stop: what it was derived from; a prediction that contains it is not `valid`.
  std::string caveat;
};

class CollectiveCost {
 public:
  virtual ~CollectiveCost() = default;
  [[nodiscard]] virtual CollectivePrice price(const CollectiveRequest& request) const = 0;
  /// One sentence: how this model prices a collective.
  [[nodiscard]] virtual std::string_view description() const = 0;
};

}  // namespace foreshard::sim
