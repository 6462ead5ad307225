// Where cudaMalloc puts a range: the driver's address model, fitted to recorded addresses.
//
// Who: sim/machine/address_space.hpp, one instance for each kind of memory. Counts no memory and never
// fails. Matters because the caching allocator breaks ties by address.
//
// The driver takes virtual arenas in multiples of 32 MiB (caching allocator 10.3; driver 580, H200,
// Linux; every address of the random single-GPU programs among the reference runs comes out):
//   · arenas are looked through from the newest to the oldest; in the first with a free gap that is large
//     enough, the smallest such gap is taken (the lowest of equal ones) at its low end;
//   · else a new arena of the size rounded up to 32 MiB: at the top end of the highest hole between arenas
//     that is strictly larger, or directly below the lowest arena, and the range at its low end;
//   · for a multiple of 512 MiB the arena's address is rounded down to 512 MiB, and a hole must be larger
//     than the arena by more than 512 MiB;
//   · a freed range merges with its neighbours; an arena that becomes wholly free disappears.
#pragma once

#include <map>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard::sim {

class Arenas {
 public:
  /// Starts with one 32 MiB arena at `first` whose low `taken` bytes belong to others (the CUDA context).
  Arenas(Address first, Bytes taken);

  [[nodiscard]] Address allocate(Bytes size);
  /// Takes exactly [address, address + size), making an arena around it where there is none: a recorded
  /// allocation. What lies below it in an arena made so belongs to others. False, and no change, where a
  /// live range is there already.
  [[nodiscard]] bool place(Address address, Bytes size);
  void free(Address address);

 private:
  struct Arena {
    Address base = 0;
    Address end = 0;
    bool shared = false;              // holds ranges of others, so it never disappears
    std::map<Address, Address> gaps;  // begin → end, disjoint, never touching
    Bytes largest = 0;                // of the gaps; what is too large for it passes by
  };
  struct Extent {
    Address base = 0;
    Address end = 0;
  };

  [[nodiscard]] Address new_arena_base(Bytes arena_size, bool aligned);
  Arena* arena_of(Address address);
  void add(Arena arena);
  void remove(const Arena* arena);
  /// After any change of an arena's gaps.
  void measure(Arena& arena);
  void take(Arena& arena, Address address, Bytes size);
  /// Arenas that cover [begin, end) where none does yet, so that a recorded range fits.
  void cover(Address begin, Address end);

  std::vector<Arena> arenas_;      // oldest first
  std::vector<Extent> extents_;    // of the arenas, highest first
  std::map<Address, Bytes> live_;  // ranges handed out
  // Bounds, so that mostly nothing is looked through in vain:
  Bytes largest_gap_ = 0;   // no gap of an arena is larger
  Bytes largest_hole_ = 0;  // … and no hole between arenas
};

}  // namespace foreshard::sim
