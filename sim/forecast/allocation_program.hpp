// What one training step asks of the caching allocator, as a flat list in host order: the "allocation program" that a
// forecast runs thousands of times on one allocator.
//
// A program is a shape, which the programs of many sequence lengths share, and the sizes that it asks for at one
// length. Plain data. Who: derive.hpp makes them, allocator_process.hpp runs them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/quantity.hpp"
#include "core/device/device_memory.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::sim {

struct AllocationOp {
  enum class Kind : std::uint8_t {
    malloc = 0,        ///< `index`: the slot, which counts the mallocs of the program
    free = 1,          ///< `index`: a slot of this program
    free_carried = 2,  ///< `index`: a place in what the step before carried over
    free_setup = 3,    ///< `index`: a slot of setup's program
    free_older = 4,    ///< `index`: a place in ProcessStart::older, what is older than setup
  };
  Kind kind = Kind::malloc;
  std::uint8_t stream = 0;                 ///< of a malloc: StreamId
  MemoryKind memory = MemoryKind::device;  ///< of a malloc; any other has a private pool
  std::uint32_t index = 0;
  bool operator==(const AllocationOp&) const = default;
};

struct ProgramShape {
  std::vector<AllocationOp> ops;
  /// Slots that live on behind the step and are freed by the next one, in order of their mallocs. What lives on and is
  /// not among them stays for good.
  std::vector<std::uint32_t> carried;
  /// By slot, who asks: "layers.3.ffn: aten::mm"; for people.
  std::vector<std::string> names;
  std::vector<MemoryCategory> categories;  ///< by slot

  /// Whether programs of both ask for and free the same things in the same order; names may differ.
  [[nodiscard]] bool same_order(const ProgramShape& other) const {
    return ops == other.ops && carried == other.carried;
  }
};

struct AllocationProgram {
  std::shared_ptr<const ProgramShape> shape;
  std::vector<Bytes> sizes;  ///< by slot, as asked for
};

}  // namespace foreshard::sim
