#include "sim/forecast/size_fit.hpp"

#include <algorithm>
#include <array>

namespace foreshard::sim {
namespace {

__extension__ using Wide = __int128;

Bytes size(const RecordedSizes& recorded, std::size_t slot) {
  return (*recorded.sizes)[slot];
}

/// The polynomial through `count` of the recorded lengths (Lagrange), at `length`; rounded down.
/// `exact`: whether it is a whole number there.
Bytes polynomial(std::uint32_t length, const RecordedSizes* const* points, std::size_t count, std::size_t slot,
                 bool& exact) {
  Wide numerator = 0;
  Wide denominator = 1;
  for (std::size_t i = 0; i < count; ++i) {
    Wide top = static_cast<Wide>(size(*points[i], slot));
    Wide bottom = 1;
    for (std::size_t j = 0; j < count; ++j) {
      if (j == i) continue;
      top *= static_cast<Wide>(length) - points[j]->length;
      bottom *= static_cast<Wide>(points[i]->length) - points[j]->length;
    }
    numerator = numerator * bottom + top * denominator;
    denominator *= bottom;
  }
  if (denominator < 0) {
    numerator = -numerator;
    denominator = -denominator;
  }
  exact = numerator % denominator == 0;
  return numerator <= 0 ? 0 : static_cast<Bytes>(numerator / denominator);
}

/// First, last and, of three, the middle recorded length: the widest apart.
std::array<const RecordedSizes*, 3> anchors(const std::vector<RecordedSizes>& recorded) {
  return {&recorded.front(), &recorded.back(), &recorded[recorded.size() / 2]};
}

bool fits(const std::vector<RecordedSizes>& recorded, std::size_t points, std::size_t slot) {
  const auto through = anchors(recorded);
  return std::all_of(recorded.begin(), recorded.end(), [&](const RecordedSizes& one) {
    bool exact = false;
    return polynomial(one.length, through.data(), points, slot, exact) == size(one, slot) && exact;
  });
}

/// FSDP2's own buffers, states and workspaces are as large at every length.
bool follows_length(MemoryCategory category) {
  return category == MemoryCategory::activations || category == MemoryCategory::temporaries ||
         category == MemoryCategory::inputs || category == MemoryCategory::other;
}

SizeFit::Kind kind_of(const std::vector<RecordedSizes>& recorded, std::size_t slot, MemoryCategory category) {
  if (recorded.size() == 1) {
    const bool divides = size(recorded.front(), slot) % recorded.front().length == 0;
    return divides && follows_length(category) ? SizeFit::Kind::inferred : SizeFit::Kind::constant;
  }
  const Bytes one = size(recorded.front(), slot);
  const auto same = [&](const RecordedSizes& other) { return size(other, slot) == one; };
  if (std::all_of(recorded.begin(), recorded.end(), same)) return SizeFit::Kind::constant;
  if (fits(recorded, 2, slot)) return SizeFit::Kind::linear;
  if (recorded.size() > 3 && fits(recorded, 3, slot)) return SizeFit::Kind::quadratic;
  return SizeFit::Kind::interpolated;
}

/// Between the recorded lengths around `length`, or through the two nearest where it lies beyond all.
Bytes interpolated(std::uint32_t length, const std::vector<RecordedSizes>& recorded, std::size_t slot) {
  auto above = std::lower_bound(recorded.begin(), recorded.end(), length,
                                [](const RecordedSizes& one, std::uint32_t than) { return one.length < than; });
  if (above == recorded.end()) --above;
  if (above == recorded.begin()) ++above;
  const std::array<const RecordedSizes*, 2> around{&*std::prev(above), &*above};
  bool exact = false;
  return polynomial(length, around.data(), 2, slot, exact);
}

}  // namespace

std::size_t SizeFit::count(Kind kind) const {
  return static_cast<std::size_t>(std::count(kinds.begin(), kinds.end(), kind));
}

SizeFit fit_sizes(const std::vector<RecordedSizes>& recorded, const std::vector<MemoryCategory>& categories) {
  SizeFit fit;
  for (std::size_t slot = 0; slot < categories.size(); ++slot)
    fit.kinds.push_back(kind_of(recorded, slot, categories[slot]));
  return fit;
}

std::vector<Bytes> sizes_at(std::uint32_t length, const std::vector<RecordedSizes>& recorded, const SizeFit& fit) {
  const auto through = anchors(recorded);
  std::vector<Bytes> sizes;
  for (std::size_t slot = 0; slot < fit.kinds.size(); ++slot) {
    const Bytes first = size(recorded.front(), slot);
    bool exact = false;
    Bytes bytes = first;
    switch (fit.kinds[slot]) {
      case SizeFit::Kind::constant:
        break;
      case SizeFit::Kind::linear:
        bytes = polynomial(length, through.data(), 2, slot, exact);
        break;
      case SizeFit::Kind::quadratic:
        bytes = polynomial(length, through.data(), 3, slot, exact);
        break;
      case SizeFit::Kind::interpolated:
        bytes = interpolated(length, recorded, slot);
        break;
      case SizeFit::Kind::inferred:
        bytes = first / recorded.front().length * length;
        break;
    }
    sizes.push_back(std::max<Bytes>(1, bytes));  // a request of nothing is never made
  }
  return sizes;
}

}  // namespace foreshard::sim
