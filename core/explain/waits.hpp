// Which stream a pending block waits for. Recordings do not say; it follows from what the block is for.
//
// Internal to core/explain. `run` must outlive it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "core/explain/explanation.hpp"
#include "core/workload/workload_names.hpp"

namespace foreshard::explain_detail {

class Waits {
 public:
  explicit Waits(const Run& run);

  /// Fills waits_for, waits_for_name, behind and op_end of a block that was freed at block.freed.
  ///
  /// A gather buffer is used by the all-gather, a reduce-scatter input by the reduce-scatter, each on a stream of its
  /// own; record_stream's event lies behind everything that the host had put on that stream by the time of the free
  /// (caching allocator 5.1), so behind the last such collective.
  void fill(HeldBlock& block) const;

 private:
  /// A collective as the host issued it, on the allocator's clock.
  struct Issued {
    Nanoseconds issue;
    std::optional<Nanoseconds> end;
    std::string unit;
  };
  struct Kind {
    StreamId stream;  ///< the first of that kind ran on it
    std::vector<Issued> issued;
  };
  void read_device_ops(const Run& run);
  void read_annotations(const Run& run);

  std::array<Kind, kEnumSize<CollectiveKind>> kinds_;  ///< by CollectiveKind
};

}  // namespace foreshard::explain_detail
