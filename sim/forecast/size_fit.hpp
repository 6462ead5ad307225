// What requests ask for at a sequence length that was not recorded, from those of the lengths that were.
//
// A tensor's bytes are a polynomial of the length: a constant (weights), a + b·n (activations), a + b·n + c·n² (an
// attention that keeps its scores). The polynomial through two or three recorded lengths is held against all the others
// exactly; what fits none (workspaces of a sort, say) is interpolated between the nearest recorded lengths.
//
// Pure. Who: recorded_programs.cpp. Integers alone.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/forecast/allocation_program.hpp"

namespace foreshard::sim {

/// One recorded length and what its step asks for, by slot. `sizes` is not owned.
struct RecordedSizes {
  std::uint32_t length = 0;
  const std::vector<Bytes>* sizes = nullptr;
};

struct SizeFit {
  enum class Kind : std::uint8_t {
    constant = 0,
    linear = 1,
    quadratic = 2,
    interpolated = 3,
    /// Of one recorded length: proportional to it, since the length divides it and it is the user's own tensor.
    inferred = 4,
  };
  std::vector<Kind> kinds;  ///< by slot

  [[nodiscard]] std::size_t count(Kind kind) const;
};

/// `recorded`: ascending by length, of one shape, whose slots are of `categories`; at least one.
[[nodiscard]] SizeFit fit_sizes(const std::vector<RecordedSizes>& recorded,
                                const std::vector<MemoryCategory>& categories);

/// The sizes at `length`, by slot.
[[nodiscard]] std::vector<Bytes> sizes_at(std::uint32_t length, const std::vector<RecordedSizes>& recorded,
                                          const SizeFit& fit);

}  // namespace foreshard::sim
