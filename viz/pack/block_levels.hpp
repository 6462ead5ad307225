// Every block's life (made, freed, back in its segment) by time and address, at several levels of detail, and the
// segments they lie in.
//
// Used by pack.cpp. Pure; deterministic. Blocks are kept by how long they live: class k holds lives of at least
// widths[k] (and below widths[k − 1]), by when they were made. What is alive in a window of time was then made at
// most one class's longest life before it, so that few tiles answer. Lives too short to be seen at a zoom are merged
// there: a merged level of width w stands for all blocks of less than w.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "core/run/run.hpp"
#include "viz/pack/address_axis.hpp"
#include "viz/pack/tables.hpp"
#include "viz/scene/block_groups.hpp"

namespace foreshard::viz {

/// Times that the recording does not have; far outside of every recording (52 days) and exact in a double.
inline constexpr std::int64_t kNever = std::int64_t{1} << 52;
inline constexpr std::int64_t kBefore = -kNever;

struct BlockLife {
  std::uint32_t id = 0;  ///< of Run::blocks; from its size on: a block older than the recording
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;
  StreamId stream;
  std::int64_t made = kBefore;   ///< ns from the origin
  std::int64_t freed = kNever;   ///< by the program
  std::int64_t back = kNever;    ///< when the allocator had it again
  StreamId waits_for = {};       ///< of blocks that were freed and not back at once: whose event they waited for
  std::int64_t behind = -1;      ///< name of the op it waited behind
  std::int64_t op_end = kNever;  ///< when that op ended
};

struct SegmentLife {
  Address address = 0;
  Bytes size = 0;
  StreamId stream;
  std::int64_t from = kBefore;
  std::int64_t to = kNever;
};

/// Short lives that begin within one bucket and lie side by side.
struct MergedBlocks {
  std::int64_t from = 0, to = 0;
  Bytes place = 0, end_place = 0;
  std::uint32_t count = 0;
  std::uint8_t category = 0;  ///< that has most of their bytes
  Bytes bytes = 0;            ///< in sum
};

struct BlockClass {
  Nanoseconds shortest;              ///< lives are at least as long
  std::vector<std::uint32_t> lives;  ///< indices, by `made`
};

struct MergedLevel {
  Nanoseconds width;
  std::vector<MergedBlocks> entries;  ///< by bucket, then by place
};

class BlockLevels {
 public:
  /// Names that no label of the run has are added to `names`.
  /// `groups`, by viz::GroupBy, must outlive this.
  BlockLevels(const Run& run, Nanoseconds origin, const std::array<BlockGroups, 3>& groups, Labels& names);

  [[nodiscard]] const AddressAxis& axis() const { return axis_; }
  /// In order of `made`; those older than the recording last.
  [[nodiscard]] const std::vector<BlockLife>& lives() const { return lives_; }
  [[nodiscard]] const std::vector<SegmentLife>& segments() const { return segments_; }
  [[nodiscard]] const std::vector<BlockClass>& classes() const { return classes_; }
  [[nodiscard]] const std::vector<MergedLevel>& merged() const { return merged_; }

  /// Of kBlocks.
  [[nodiscard]] ColumnTable tile(std::size_t block_class, std::size_t tile) const;
  /// Of kMergedBlocks.
  [[nodiscard]] ColumnTable merged_tile(std::size_t level, std::size_t tile) const;
  /// Of kSegments.
  [[nodiscard]] ColumnTable segment_table() const;
  /// Of kFindBlocks, by id.
  [[nodiscard]] ColumnTable find_table() const;

 private:
  /// What the run keeps of a block; one older than the recording has nothing but its size.
  [[nodiscard]] const BlockRecord& record(const BlockLife& life) const;
  void read_lives();
  void read_waits(Labels& names);
  void read_names(Labels& names);
  void read_segments();
  void classify();
  void merge_short(Nanoseconds width);

  /// How a block is called (core/run/block_names.hpp), as ids of `names`; invalid: nothing to say.
  struct Called {
    LabelId owner, op, frame;
  };
  [[nodiscard]] const Called& called(const BlockLife& life) const;
  [[nodiscard]] std::int64_t group(GroupBy by, const BlockLife& life) const;

  const Run& run_;
  const std::array<BlockGroups, 3>& groups_;
  Nanoseconds origin_;
  Nanoseconds length_;
  std::vector<BlockLife> lives_;
  std::vector<SegmentLife> segments_;
  std::vector<Called> called_;  // by BlockId
  AddressAxis axis_{{}};
  std::vector<BlockClass> classes_;
  std::vector<MergedLevel> merged_;
};

}  // namespace foreshard::viz
