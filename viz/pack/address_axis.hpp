// The addresses that a run ever reserved, as one axis without the holes between them.
//
// Used by block_levels.hpp. Pure; deterministic.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard::viz {

struct AddressRange {
  Address base = 0;
  Bytes size = 0;
  Bytes place = 0;  ///< where it begins on the axis
};

class AddressAxis {
 public:
  /// Ranges may overlap and touch; touching ones become one.
  explicit AddressAxis(std::vector<AddressRange> reserved);

  [[nodiscard]] const std::vector<AddressRange>& ranges() const { return ranges_; }
  [[nodiscard]] Bytes length() const { return length_; }
  /// Where an address stands on the axis; one outside every range stands at the end of the range below it.
  [[nodiscard]] Bytes place(Address address) const;

 private:
  std::vector<AddressRange> ranges_;  // by base
  Bytes length_ = 0;
};

}  // namespace foreshard::viz
