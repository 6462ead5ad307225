// `segments` and `allocator_settings` of a snapshot.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "traces/pytorch/record_reader.hpp"
#include "traces/pytorch/snapshot_parts.hpp"

namespace foreshard::traces {

namespace {

using Severity = ImportStat::Severity;

// PyTorch 2.11, torch/csrc/cuda/Module.cpp, segmentInfoToDict and blockInfo.
enum SegmentKey : std::size_t {
  kDevice,
  kAddress,
  kTotal,
  kAllocated,
  kActive,
  kRequested,
  kStream,
  kType,
  kPool,
  kExpandable,
  kFrames,
  kBlocks
};
constexpr std::array<std::string_view, 12> kSegmentKeys{
    "device", "address",      "total_size",      "allocated_size", "active_size", "requested_size",
    "stream", "segment_type", "segment_pool_id", "is_expandable",  "frames",      "blocks"};
enum BlockKey : std::size_t { kBlockAddress, kBlockSize, kBlockRequested, kState, kBlockFrames, kHistory };
constexpr std::array<std::string_view, 6> kBlockKeys{"address", "size", "requested_size", "state", "frames", "history"};

class SegmentReader {
 public:
  explicit SegmentReader(SnapshotContext& context)
      : context_(context),
        segment_record_(context.document, kSegmentKeys),
        block_record_(context.document, kBlockKeys) {}

  Result<SnapshotSegment> segment(std::size_t index, PlainValue value);
  /// The device of a segment dict that may not be wanted; 0 where none is named (before PyTorch 1.11).
  Result<std::uint64_t> device_of(std::size_t index, PlainValue value);
  void finish() {
    segment_record_.report_unknown(context_.stats, "unknown_segment_key", "segments");
    block_record_.report_unknown(context_.stats, "unknown_block_key", "blocks");
  }

 private:
  Result<void> blocks(SnapshotSegment& segment, PlainValue list);
  Result<SnapshotBlock> block(Address expected, PlainValue value);
  Result<BlockState> state() const;
  std::optional<Bytes> history_size() const;

  Result<Bytes> number(const RecordReader& record, std::span<const std::string_view> keys, std::size_t key,
                       std::optional<Bytes> otherwise) const {
    const auto value = record.at(key);
    if (!value && otherwise) return *otherwise;
    const auto read = value ? context_.document.uint64(*value) : std::nullopt;
    if (!read) return bad(fmt::format("needs an integer '{}'", keys[key]));
    return *read;
  }
  Result<Bytes> in_segment(std::size_t key, std::optional<Bytes> otherwise = std::nullopt) const {
    return number(segment_record_, kSegmentKeys, key, otherwise);
  }
  tl::unexpected<Error> bad(const std::string& what) const {
    return block_ < 0 ? context_.fail_at(fmt::format("segments[{}]", segment_), "the segment " + what)
                      : context_.fail_at(fmt::format("segments[{}].blocks[{}]", segment_, block_), "the block " + what);
  }

  SnapshotContext& context_;
  RecordReader segment_record_;
  RecordReader block_record_;
  std::size_t segment_ = 0;
  std::ptrdiff_t block_ = -1;
};

Result<std::uint64_t> SegmentReader::device_of(std::size_t index, PlainValue value) {
  segment_ = index;
  block_ = -1;
  if (!segment_record_.read(value)) return bad(fmt::format("is {}, not a dict of a segment", describe(value.kind())));
  return in_segment(kDevice, Bytes{0});
}

Result<SnapshotSegment> SegmentReader::segment(std::size_t index, PlainValue value) {
  auto device = device_of(index, value);
  FORESHARD_TRY(device);
  SnapshotSegment segment;
  segment.device = static_cast<std::uint32_t>(*device);
  // The sums are derived from the blocks where a writer leaves them out.
  struct Target {
    SegmentKey key;
    Bytes* out;
    std::optional<Bytes> otherwise;
  };
  for (const Target& target :
       {Target{kAddress, &segment.address, std::nullopt}, Target{kTotal, &segment.total_size, std::nullopt},
        Target{kAllocated, &segment.allocated_size, Bytes{0}}, Target{kActive, &segment.active_size, Bytes{0}},
        Target{kRequested, &segment.requested_size, Bytes{0}}, Target{kStream, &segment.stream, Bytes{0}}}) {
    auto read = in_segment(target.key, target.otherwise);
    FORESHARD_TRY(read);
    *target.out = *read;
  }
  if (segment.address + segment.total_size < segment.address) return bad("reaches beyond the end of memory");
  const PlainDocument& document = context_.document;
  if (const auto type = segment_record_.at(kType)) segment.small_pool = document.string(*type) == "small";
  if (const auto flag = segment_record_.at(kExpandable))
    segment.is_expandable = document.boolean(*flag).value_or(false);
  if (const auto pool = segment_record_.at(kPool)) {
    const auto ids = document.items(*pool);
    const auto first = ids.size() == 2 ? document.uint64(ids[0]) : std::nullopt;
    const auto second = ids.size() == 2 ? document.uint64(ids[1]) : std::nullopt;
    if (!first || !second) return bad("needs two integers in 'segment_pool_id'");
    segment.pool_id = {*first, *second};
  }
  const auto list = segment_record_.at(kBlocks);
  if (!list || list->kind() != PlainKind::list) return bad("has no list 'blocks'");
  FORESHARD_TRY(blocks(segment, *list));
  return segment;
}

Result<void> SegmentReader::blocks(SnapshotSegment& segment, PlainValue list) {
  const std::span<const PlainValue> entries = context_.document.items(list);
  if (auto done = context_.spend(entries.size()); !done) return done;
  segment.blocks.reserve(entries.size());
  Address expected = segment.address;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    block_ = static_cast<std::ptrdiff_t>(i);
    auto read = block(expected, entries[i]);
    FORESHARD_TRY(read);
    expected = read->address + read->size;
    segment.blocks.push_back(*read);
  }
  block_ = -1;
  if (expected != segment.address + segment.total_size)
    context_.stats.add("segment_not_filled", Severity::error,
                       "segments' blocks do not add up to the segment's size: the snapshot is damaged");
  return {};
}

Result<SnapshotBlock> SegmentReader::block(Address expected, PlainValue value) {
  if (!block_record_.read(value)) return bad(fmt::format("is {}, not a dict of a block", describe(value.kind())));
  SnapshotBlock block;
  auto size = number(block_record_, kBlockKeys, kBlockSize, std::nullopt);
  FORESHARD_TRY(size);
  block.size = *size;
  // Before PyTorch 2.0 blocks have no address: they lie one behind the other.
  auto address = number(block_record_, kBlockKeys, kBlockAddress, expected);
  FORESHARD_TRY(address);
  block.address = *address;
  if (block.address != expected)
    context_.stats.add("block_out_of_place", Severity::error,
                       "blocks do not lie one behind the other: the snapshot is damaged");
  if (block.address + block.size < block.address) return bad("reaches beyond the end of memory");
  if (!block_record_.at(kBlockAddress))
    context_.stats.add("block_without_address", Severity::info,
                       "blocks have no address; it is derived from their order");
  auto requested = number(block_record_, kBlockKeys, kBlockRequested, history_size().value_or(block.size));
  FORESHARD_TRY(requested);
  block.requested_size = *requested;
  auto known = state();
  FORESHARD_TRY(known);
  block.state = *known;
  if (const auto frames = block_record_.at(kBlockFrames)) block.stack = context_.stacks.read(*frames);
  return block;
}

// The code writes active_pending_free, PyTorch's documentation says active_awaiting_free.
Result<BlockState> SegmentReader::state() const {
  const auto value = block_record_.at(kState);
  const auto text = value ? context_.document.string(*value) : std::nullopt;
  if (!text) return bad("has no text 'state'");
  if (*text == "active_allocated") return BlockState::live;
  if (*text == "active_pending_free" || *text == "active_awaiting_free") return BlockState::pending_free;
  if (*text == "inactive") return BlockState::inactive;
  return bad(fmt::format("has the unknown state '{}'", text->substr(0, 40)));
}

// PyTorch 1.x: `history` is a list of dicts with `real_size`, the newest first.
std::optional<Bytes> SegmentReader::history_size() const {
  const auto history = block_record_.at(kHistory);
  if (!history) return std::nullopt;
  const auto entries = context_.document.items(*history);
  if (entries.empty() || context_.document.entries(entries[0]).size() > 2 * RecordReader::kMaxEntries)
    return std::nullopt;
  const auto size = context_.document.find(entries[0], "real_size");
  return size ? context_.document.uint64(*size) : std::nullopt;
}

}  // namespace

Result<std::vector<SnapshotSegment>> read_segments(SnapshotContext& context, std::uint32_t device, PlainValue list) {
  const std::span<const PlainValue> entries = context.document.items(list);
  FORESHARD_TRY(context.spend(entries.size()));
  std::vector<SnapshotSegment> segments;
  SegmentReader reader(context);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto on_device = reader.device_of(i, entries[i]);
    FORESHARD_TRY(on_device);
    if (*on_device != device) continue;
    auto segment = reader.segment(i, entries[i]);
    FORESHARD_TRY(segment);
    segments.push_back(std::move(*segment));
  }
  reader.finish();
  const auto by_address = [](const SnapshotSegment& a, const SnapshotSegment& b) { return a.address < b.address; };
  if (!std::is_sorted(segments.begin(), segments.end(), by_address)) {
    context.stats.add("segments_out_of_order", Severity::info, "the segments were not in the order of their addresses");
    std::stable_sort(segments.begin(), segments.end(), by_address);
  }
  for (std::size_t i = 1; i < segments.size(); ++i)
    if (segments[i - 1].address + segments[i - 1].total_size > segments[i].address)
      context.stats.add("segments_overlap", Severity::error, "segments overlap: the snapshot is damaged");
  return segments;
}

SnapshotSettings read_allocator_settings(SnapshotContext& context, PlainValue dict) {
  const PlainDocument& document = context.document;
  SnapshotSettings settings;
  if (document.entries(dict).size() > 2 * RecordReader::kMaxEntries) return settings;
  // Renamed from PYTORCH_CUDA_ALLOC_CONF on the way to 2.13; either may be there.
  for (const std::string_view key : {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}) {
    const auto value = document.find(dict, key);
    if (const auto text = value ? document.string(*value) : std::nullopt; text && !text->empty())
      settings.alloc_conf = std::string(*text);
  }
  if (const auto value = document.find(dict, "max_split_size"))
    settings.max_split_size = document.int64(*value).value_or(-1);
  if (const auto value = document.find(dict, "garbage_collection_threshold"))
    settings.garbage_collection_threshold = document.real(*value).value_or(0);
  if (const auto value = document.find(dict, "expandable_segments"))
    settings.expandable_segments = document.boolean(*value).value_or(false);
  if (const auto value = document.find(dict, "trace_alloc_max_entries"))
    settings.history_entries = document.uint64(*value).value_or(0);
  if (const auto value = document.find(dict, "trace_alloc_overflowed"))
    settings.history_overflowed = document.boolean(*value).value_or(false);
  return settings;
}

}  // namespace foreshard::traces
