#include "viz/pack/address_axis.hpp"

#include <algorithm>

namespace foreshard::viz {

AddressAxis::AddressAxis(std::vector<AddressRange> reserved) {
  std::sort(reserved.begin(), reserved.end(),
            [](const AddressRange& a, const AddressRange& b) { return a.base < b.base; });
  for (const AddressRange& range : reserved) {
    // Sizes of a foreign file may reach over the end of the address space.
    const Bytes size = std::min<Bytes>(range.size, UINT64_MAX - range.base);
    if (size == 0) continue;
    if (!ranges_.empty() && range.base <= ranges_.back().base + ranges_.back().size) {
      AddressRange& last = ranges_.back();
      last.size = std::max(last.size, range.base + size - last.base);
    } else {
      ranges_.push_back({range.base, size, 0});
    }
  }
  for (AddressRange& range : ranges_) {
    range.place = length_;
    length_ += range.size;
  }
}

Bytes AddressAxis::place(Address address) const {
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), address,
                             [](Address a, const AddressRange& range) { return a < range.base; });
  if (it == ranges_.begin()) return 0;
  --it;
  return it->place + std::min<Bytes>(address - it->base, it->size);
}

}  // namespace foreshard::viz
