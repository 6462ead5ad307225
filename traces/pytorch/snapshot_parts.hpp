// The parts of a memory snapshot's pickle, each from its plain values. Private to snapshot_file.cpp.
#pragma once

#include <string>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/base/error.hpp"
#include "traces/pytorch/plain_data.hpp"
#include "traces/pytorch/snapshot_stacks.hpp"
#include "traces/pytorch/stat_list.hpp"

namespace foreshard::traces {

/// What all parts share while one snapshot is read.
struct SnapshotContext {
  const PlainDocument& document;
  const std::string& name;  ///< of the file, for messages
  StatList& stats;
  StackReader& stacks;
  std::uint64_t entries_left = 0;  ///< that may still be read: an honest file has less than one per byte

  /// Takes `count` from entries_left. Fails when shared lists expand to more than the file can hold: a hostile
  /// pickle can name one list a million times.
  [[nodiscard]] Result<void> spend(std::uint64_t count);
  [[nodiscard]] tl::unexpected<Error> fail_at(const std::string& place, std::string what, std::string hint = {}) const;
};

/// One device's list of `device_traces`, in the order written.
[[nodiscard]] Result<std::vector<AllocatorEvent>> read_trace(SnapshotContext& context, std::size_t device,
                                                             PlainValue list);
/// `segments` of one device, by address, with their blocks.
[[nodiscard]] Result<std::vector<SnapshotSegment>> read_segments(SnapshotContext& context, std::uint32_t device,
                                                                 PlainValue list);
/// `external_annotations` of one device, in the order written.
[[nodiscard]] Result<std::vector<SnapshotAnnotation>> read_annotations(SnapshotContext& context, std::uint32_t device,
                                                                       PlainValue list);
[[nodiscard]] SnapshotSettings read_allocator_settings(SnapshotContext& context, PlainValue dict);

}  // namespace foreshard::traces
