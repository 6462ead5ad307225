#include "traces/store/references.hpp"

#include <fmt/core.h>

#include <set>
#include <string_view>

namespace foreshard::traces {
namespace {

class Checker {
 public:
  explicit Checker(const Run& run)
      : labels_(run.labels.texts().size()),
        units_(run.units.size()),
        blocks_(run.blocks.size()),
        stacks_(run.stacks.stacks().size()) {
    for (const Unit& unit : run.units) parameters_ += unit.parameters.size();
  }

  void row(std::string_view table, std::size_t index) {
    table_ = table;
    index_ = index;
  }
  void check(LabelId id) { check("label", id.valid(), id.value, labels_); }
  void check(UnitId id) { check("unit", id.valid(), id.value, units_); }
  void check(ParameterId id) { check("parameter", id.valid(), id.value, parameters_); }
  void check(BlockId id) { check("block", id.valid(), id.value, blocks_); }
  void check(StackId id) { check("stack", id.valid(), id.value, stacks_); }

  [[nodiscard]] const std::string& failure() const { return failure_; }

 private:
  void check(std::string_view what, bool present, std::size_t id, std::size_t count) {
    if (!present || id < count || !failure_.empty()) return;
    failure_ = fmt::format("{} {} names {} {}, of which there are {}", table_, index_, what, id, count);
  }

  std::size_t labels_, units_, blocks_, stacks_, parameters_ = 0;
  std::string_view table_;
  std::size_t index_ = 0;
  std::string failure_;
};

template <class Records, class Check>
void each(Checker& checker, std::string_view table, const Records& records, Check&& check) {
  for (std::size_t i = 0; i < records.size(); ++i) {
    checker.row(table, i);
    check(records[i]);
  }
}

/// What is wrong with the ranks; empty: nothing. Their ops' times are added and subtracted (core/straggler).
std::string check_ranks(const Run& run) {
  constexpr std::int64_t kLongest = std::int64_t{1} << 50;  // ns: 13 days, more than an import lets through
  std::set<std::uint32_t> listed, seen;
  for (const RankRecord& rank : run.ranks)
    if (!listed.insert(rank.rank).second) return fmt::format("rank {} is listed twice", rank.rank);
  for (std::size_t i = 0; i < run.rank_ops.size(); ++i) {
    const RankOpRecord& row = run.rank_ops[i];
    const bool begins = i == 0 || run.rank_ops[i - 1].rank != row.rank;
    if (!listed.contains(row.rank)) return fmt::format("rank_op {} names rank {}, which is not there", i, row.rank);
    if (begins && !seen.insert(row.rank).second) return fmt::format("rank_op {} is apart from its rank's others", i);
    if (row.op.start < Nanoseconds{-kLongest} || row.op.end > Nanoseconds{kLongest} || row.op.end < row.op.start)
      return fmt::format("rank_op {} has times that no op has", i);
  }
  return {};
}

}  // namespace

Result<void> check_references(const Run& run, ErrorKind kind, const std::string& where) {
  Checker checker(run);
  each(checker, "host_op", run.host_ops, [&](const HostOpRecord& op) { checker.check(op.label); });
  each(checker, "device_op", run.device_ops, [&](const DeviceOpRecord& op) {
    checker.check(op.label);
    checker.check(op.unit);
  });
  each(checker, "rank_op", run.rank_ops, [&](const RankOpRecord& row) {
    checker.check(row.phase);
    checker.check(row.op.label);
    checker.check(row.op.unit);
  });
  each(checker, "block", run.blocks, [&](const BlockRecord& block) {
    checker.check(block.label);
    checker.check(block.unit);
    checker.check(block.parameter);
    checker.check(block.op);
    checker.check(block.module);
    checker.check(block.stack);
  });
  each(checker, "allocator_event", run.allocator, [&](const AllocatorRecord& event) {
    checker.check(event.block);
    checker.check(event.stack);
  });
  for (const SnapshotSegment& segment : run.segments)
    each(checker, "block of a segment", segment.blocks,
         [&](const SnapshotBlock& block) { checker.check(block.stack); });
  each(checker, "annotation", run.annotations, [&](const AnnotationRecord& range) { checker.check(range.label); });
  if (!checker.failure().empty()) return fail(kind, checker.failure(), where);
  if (auto ranks = check_ranks(run); !ranks.empty()) return fail(kind, ranks, where);
  std::set<StreamId> seen;
  for (const StreamRecord& stream : run.streams)
    if (!seen.insert(stream.id).second)
      return fail(kind, fmt::format("stream {} is listed twice", stream.id.value), where);
  return {};
}

}  // namespace foreshard::traces
