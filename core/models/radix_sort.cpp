#include "core/models/radix_sort.hpp"

#include "core/kernel/kernel_cost.hpp"

namespace foreshard::model {
namespace {

constexpr std::uint32_t kBitsPerPass = 8;
constexpr std::uint64_t kDigits = 1 << kBitsPerPass;
constexpr Bytes kItem = 8;   ///< a key, a value, and a counter of a histogram
constexpr Bytes kState = 4;  ///< of a tile for a digit, and a pass' counter

Bytes aligned(Bytes bytes) {
  return round_up(bytes, kCubAlignment);
}

Bytes histograms(const RadixSort& sort) {
  return sort.passes() * kDigits * kItem;
}

Bytes tile_states(const RadixSort& sort) {
  return ceil_div(sort.keys, sort.tile) * kDigits * kState;
}

}  // namespace

std::uint64_t RadixSort::passes() const {
  return ceil_div(bits, kBitsPerPass);
}

Bytes radix_sort_workspace(const RadixSort& sort) {
  return 2 * aligned(sort.keys * kItem) + aligned(histograms(sort)) + aligned(tile_states(sort)) +
         aligned(sort.passes() * kState) + kCubAlignment - 1;
}

void launch_radix_sort(Tape& tape, const RadixSort& sort) {
  const Bytes keys = sort.keys * kItem;
  tape.launch_memset(sort.passes() * kState);
  tape.launch_memset(histograms(sort));
  tape.launch(Launch::elementwise, "cub::DeviceRadixSort histogram", bytes_cost(keys));
  tape.launch(Launch::elementwise, "cub::DeviceRadixSort exclusive sum", bytes_cost(2 * histograms(sort)));
  for (std::uint64_t pass = 0; pass < sort.passes(); ++pass) {
    tape.launch_memset(tile_states(sort));
    tape.launch(Launch::elementwise, "cub::DeviceRadixSort onesweep", bytes_cost(4 * keys));
  }
}

}  // namespace foreshard::model
