#include "viz/pack/block_levels.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/explain/waits.hpp"
#include "core/run/block_names.hpp"
#include "viz/pack/level_widths.hpp"
#include "viz/scene/memory_state.hpp"
#include "viz/scene/palette.hpp"

namespace foreshard::viz {
namespace {

using Action = AllocatorAction;

/// Neighbours nearer than this share of the address axis are one merged entry: less than a pixel of a map.
constexpr Bytes kAxisParts = 2048;

/// Never negative, whatever the run's clock did: classify() finds a class for each length from 0 on.
std::int64_t life_length(const BlockLife& life) {
  return life.made == kBefore || life.back == kNever ? kNever : std::max<std::int64_t>(life.back - life.made, 0);
}

StreamId stream_of(const Run& run, std::uint64_t handle) {
  for (const StreamRecord& stream : run.streams)
    if (stream.handle == handle) return stream.id;
  return {};
}

}  // namespace

BlockLevels::BlockLevels(const Run& run, Nanoseconds origin, const std::array<BlockGroups, 3>& groups, Labels& names)
    : run_(run), groups_(groups), origin_(origin) {
  if (!run.allocator.empty()) length_ = run.allocator.back().time - run.allocator.front().time;
  read_lives();
  read_waits(names);
  read_names(names);
  read_segments();
  std::vector<AddressRange> reserved;
  for (const SegmentLife& segment : segments_) reserved.push_back({segment.address, segment.size, 0});
  for (const BlockLife& life : lives_) reserved.push_back({life.address, life.size, 0});
  axis_ = AddressAxis(std::move(reserved));
  classify();
}

void BlockLevels::read_lives() {
  std::vector<std::uint32_t> life_of(run_.blocks.size(), UINT32_MAX);
  std::map<Address, std::size_t> old;  // freed, not back yet, older than the recording
  std::vector<BlockLife> older;
  std::set<Address> in_use;
  for (const AllocatorRecord& record : run_.allocator) {
    const std::int64_t time = (record.time - origin_).count;
    const std::uint32_t block = record.block.value;
    const bool known = block < run_.blocks.size();
    if (record.action == Action::alloc && known) {
      const BlockBytes bytes = block_bytes(run_, record);
      life_of[block] = static_cast<std::uint32_t>(lives_.size());
      lives_.push_back({block, record.address, static_cast<Bytes>(bytes.size), static_cast<Bytes>(bytes.requested),
                        run_.blocks[block].stream, time, kNever, kNever});
      in_use.insert(record.address);
    } else if (record.action == Action::free_requested || record.action == Action::free_completed) {
      const bool back = record.action == Action::free_completed;
      BlockLife* life = known && life_of[block] != UINT32_MAX ? &lives_[life_of[block]] : nullptr;
      if (life == nullptr) {
        const auto [it, made] = old.emplace(record.address, older.size());
        if (made) {
          const BlockBytes bytes = block_bytes(run_, record);
          older.push_back({0, record.address, static_cast<Bytes>(bytes.size), static_cast<Bytes>(bytes.requested),
                           record.stream, kBefore, kNever, kNever});
        }
        life = &older[it->second];
        if (back) old.erase(it);
      }
      if (life->freed == kNever) life->freed = time;
      if (back) life->back = time;
      if (back) in_use.erase(record.address);
    }
  }
  for (const SnapshotSegment& segment : run_.segments)
    for (const SnapshotBlock& block : segment.blocks)
      if (block.state != BlockState::inactive && !in_use.contains(block.address) && !old.contains(block.address))
        older.push_back({0, block.address, block.size, block.requested_size, stream_of(run_, segment.stream), kBefore,
                         kNever, kNever});
  for (BlockLife& life : older) {
    life.id = static_cast<std::uint32_t>(run_.blocks.size() + static_cast<std::size_t>(&life - older.data()));
    lives_.push_back(life);
  }
}

void BlockLevels::read_waits(Labels& names) {
  const explain_detail::Waits waits(run_);
  for (BlockLife& life : lives_) {
    if (life.freed == kNever || life.back == life.freed || life.id >= run_.blocks.size()) continue;
    HeldBlock held;
    held.block = BlockId{life.id};
    held.category = run_.blocks[life.id].category;
    held.unit = run_.blocks[life.id].unit;
    held.stream = life.stream;
    held.freed = Nanoseconds{life.freed} + origin_;
    waits.fill(held);
    life.waits_for = held.waits_for;
    const std::string& stream = held.waits_for_name;
    const std::string text = held.behind.empty() || stream.empty() ? held.behind + stream
                                                                   : fmt::format("{} ({} stream)", held.behind, stream);
    if (!text.empty()) life.behind = names.intern(text).value;
    if (held.op_end) life.op_end = (*held.op_end - origin_).count;
  }
}

void BlockLevels::read_names(Labels& names) {
  const BlockNames of(run_);
  std::map<BlockNames::Key, Called> known;
  const auto id = [&](const std::string& text) { return text.empty() ? LabelId{} : names.intern(text); };
  for (const BlockRecord& block : run_.blocks) {
    const BlockNames::Key key = BlockNames::key(block);
    auto found = known.find(key);
    if (found == known.end())
      found = known.emplace(key, Called{id(of.owner(block)), id(of.op(block)), id(of.whole_frame(block.stack))}).first;
    called_.push_back(found->second);
  }
}

const BlockLevels::Called& BlockLevels::called(const BlockLife& life) const {
  static const Called kOlder;
  return life.id < called_.size() ? called_[life.id] : kOlder;
}

std::int64_t BlockLevels::group(GroupBy by, const BlockLife& life) const {
  const BlockGroups& groups = groups_[static_cast<std::size_t>(by)];
  if (!groups.any()) return -1;
  return life.id < groups.of_block.size() ? static_cast<std::int64_t>(groups.of_block[life.id]) : 0;
}

void BlockLevels::read_segments() {
  std::map<Address, SegmentLife> mapped;
  // Ends what lies in [from, to): whole ranges go, others are cut.
  const auto end = [&](Address from, Address to, StreamId stream, std::int64_t time) {
    bool any = false;
    auto it = mapped.lower_bound(from);
    if (it != mapped.begin() && std::prev(it)->first + std::prev(it)->second.size > from) --it;
    while (it != mapped.end() && it->first < to) {
      SegmentLife life = it->second;
      it = mapped.erase(it);
      any = true;
      const Address life_end = life.address + life.size;
      if (life.address < from)
        mapped[life.address] = {life.address, from - life.address, life.stream, life.from, kNever};
      if (life_end > to) mapped[to] = {to, life_end - to, life.stream, life.from, kNever};
      const Address cut = std::max(life.address, from);
      segments_.push_back({cut, std::min(life_end, to) - cut, life.stream, life.from, time});
    }
    if (!any) segments_.push_back({from, to - from, stream, kBefore, time});
  };
  for (const AllocatorRecord& record : run_.allocator) {
    const std::int64_t time = (record.time - origin_).count;
    const Address to = record.address + std::min<Bytes>(record.size, UINT64_MAX - record.address);
    if (record.action == Action::segment_alloc || record.action == Action::segment_map)
      mapped[record.address] = {record.address, to - record.address, record.stream, time, kNever};
    if (record.action == Action::segment_free || record.action == Action::segment_unmap)
      end(record.address, to, record.stream, time);
  }
  for (const SnapshotSegment& segment : run_.segments) {
    const auto it = mapped.upper_bound(segment.address + segment.total_size);
    const bool seen = it != mapped.begin() && std::prev(it)->first + std::prev(it)->second.size > segment.address;
    if (!seen)
      segments_.push_back({segment.address, segment.total_size, stream_of(run_, segment.stream), kBefore, kNever});
  }
  for (const auto& [address, life] : mapped) segments_.push_back(life);
  std::stable_sort(segments_.begin(), segments_.end(), [](const SegmentLife& a, const SegmentLife& b) {
    return std::tie(a.from, a.address) < std::tie(b.from, b.address);
  });
}

void BlockLevels::classify() {
  std::int64_t shortest = kNever;
  for (const BlockLife& life : lives_) shortest = std::min(shortest, life_length(life));
  std::vector<std::int64_t> widths;
  const std::int64_t coarsest = coarsest_width(length_).count;
  // The classes' widths go on in the steps of the merged levels, so that each level is a border between classes.
  for (std::int64_t width = coarsest * kCoarsestBuckets / 2; width > coarsest; width /= kFiner) widths.push_back(width);
  for (std::int64_t width = coarsest; width > std::max<std::int64_t>(shortest, 1); width /= kFiner)
    widths.push_back(width);
  widths.push_back(0);
  for (const std::int64_t width : widths) classes_.push_back({{width}, {}});
  std::vector<std::uint32_t> order(lives_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return lives_[a].made < lives_[b].made; });
  for (const std::uint32_t i : order) {
    const auto place =
        std::find_if(widths.begin(), widths.end(), [&](std::int64_t width) { return life_length(lives_[i]) >= width; });
    classes_[static_cast<std::size_t>(place - widths.begin())].lives.push_back(i);
  }
  for (const std::int64_t width : widths)
    if (width <= coarsest && width > 0) merge_short({width});
}

void BlockLevels::merge_short(Nanoseconds width) {
  std::vector<std::uint32_t> lives;
  for (const BlockClass& of : classes_)
    if (of.shortest < width) lives.insert(lives.end(), of.lives.begin(), of.lives.end());
  if (lives.empty()) return;
  struct Item {
    std::int64_t bucket;
    Bytes place;
    std::uint32_t life;
  };
  std::vector<Item> items;
  for (const std::uint32_t i : lives) {
    const std::int64_t made = lives_[i].made;
    items.push_back({made >= 0 ? made / width.count : -((width.count - 1 - made) / width.count),
                     axis_.place(lives_[i].address), i});
  }
  std::sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return std::tie(a.bucket, a.place, a.life) < std::tie(b.bucket, b.place, b.life);
  });
  MergedLevel level{width, {}};
  const Bytes near = axis_.length() / kAxisParts;
  std::array<Bytes, kCategories> bytes{};
  std::optional<std::int64_t> bucket;
  for (const Item& item : items) {
    const BlockLife& life = lives_[item.life];
    const bool known = life.id < run_.blocks.size();
    const auto category = std::min(
        static_cast<std::size_t>(known ? run_.blocks[life.id].category : MemoryCategory::other), kCategories - 1);
    const Bytes end = item.place + life.size;
    if (bucket != item.bucket || item.place > level.entries.back().end_place + near) {
      level.entries.push_back({life.made, life.back, item.place, end, 0, 0, 0});
      bytes = {};
      bucket = item.bucket;
    }
    MergedBlocks& open = level.entries.back();
    open.from = std::min(open.from, life.made);
    open.to = std::max(open.to, life.back);
    open.end_place = std::max(open.end_place, end);
    ++open.count;
    open.bytes += life.size;
    bytes[category] += life.size;
    open.category = static_cast<std::uint8_t>(std::max_element(bytes.begin(), bytes.end()) - bytes.begin());
  }
  merged_.push_back(std::move(level));
}

const BlockRecord& BlockLevels::record(const BlockLife& life) const {
  static const BlockRecord kOlder;
  return life.id < run_.blocks.size() ? run_.blocks[life.id] : kOlder;
}

ColumnTable BlockLevels::tile(std::size_t block_class, std::size_t tile) const {
  const std::vector<std::uint32_t>& lives = classes_[block_class].lives;
  ColumnTable table(kBlocks);
  const RowRange rows = tile_rows(tile, lives.size());
  const auto life = [&](std::size_t i) -> const BlockLife& { return lives_[lives[i]]; };
  const auto block = [&](std::size_t i) -> const BlockRecord& { return record(life(i)); };
  table.fill("block", rows, [&](std::size_t i) { return life(i).id; });
  table.fill("place", rows, [&](std::size_t i) { return axis_.place(life(i).address); });
  table.fill("size", rows, [&](std::size_t i) { return life(i).size; });
  table.fill("requested", rows, [&](std::size_t i) { return life(i).requested; });
  table.fill("stream", rows, [&](std::size_t i) { return life(i).stream; });
  table.fill("pool", rows, [&](std::size_t i) { return block(i).pool; });
  table.fill("category", rows, [&](std::size_t i) { return block(i).category; });
  table.fill("unit", rows, [&](std::size_t i) { return block(i).unit; });
  table.fill("parameter", rows, [&](std::size_t i) { return block(i).parameter; });
  table.fill("label", rows, [&](std::size_t i) { return block(i).label; });
  table.fill("owner", rows, [&](std::size_t i) { return called(life(i)).owner; });
  table.fill("operator", rows, [&](std::size_t i) { return called(life(i)).op; });
  table.fill("frame", rows, [&](std::size_t i) { return called(life(i)).frame; });
  table.fill("by_module", rows, [&](std::size_t i) { return group(GroupBy::module, life(i)); });
  table.fill("by_operator", rows, [&](std::size_t i) { return group(GroupBy::op, life(i)); });
  table.fill("by_frame", rows, [&](std::size_t i) { return group(GroupBy::frame, life(i)); });
  table.fill("step", rows, [&](std::size_t i) { return block(i).step; });
  table.fill("made", rows, [&](std::size_t i) { return life(i).made; });
  table.fill("freed", rows, [&](std::size_t i) { return life(i).freed; });
  table.fill("back", rows, [&](std::size_t i) { return life(i).back; });
  table.fill("waits_for_stream", rows, [&](std::size_t i) { return life(i).waits_for; });
  table.fill("waits_behind", rows, [&](std::size_t i) { return life(i).behind; });
  table.fill("waits_behind_end", rows, [&](std::size_t i) { return life(i).op_end; });
  return table;
}

ColumnTable BlockLevels::merged_tile(std::size_t level, std::size_t tile) const {
  const std::vector<MergedBlocks>& entries = merged_[level].entries;
  ColumnTable table(kMergedBlocks);
  const RowRange rows = tile_rows(tile, entries.size());
  table.fill("from", rows, [&](std::size_t i) { return entries[i].from; });
  table.fill("length", rows, [&](std::size_t i) { return entries[i].to - entries[i].from; });
  table.fill("place", rows, [&](std::size_t i) { return entries[i].place; });
  table.fill("extent", rows, [&](std::size_t i) { return entries[i].end_place - entries[i].place; });
  table.fill("count", rows, [&](std::size_t i) { return entries[i].count; });
  table.fill("category", rows, [&](std::size_t i) { return entries[i].category; });
  table.fill("bytes", rows, [&](std::size_t i) { return entries[i].bytes; });
  return table;
}

ColumnTable BlockLevels::segment_table() const {
  ColumnTable table(kSegments);
  const RowRange rows{0, segments_.size()};
  table.fill("place", rows, [&](std::size_t i) { return axis_.place(segments_[i].address); });
  table.fill("size", rows, [&](std::size_t i) { return segments_[i].size; });
  table.fill("stream", rows, [&](std::size_t i) { return segments_[i].stream; });
  table.fill("from", rows, [&](std::size_t i) { return segments_[i].from; });
  table.fill("to", rows, [&](std::size_t i) { return segments_[i].to; });
  return table;
}

ColumnTable BlockLevels::find_table() const {
  std::vector<std::uint32_t> class_of(lives_.size());
  for (std::size_t c = 0; c < classes_.size(); ++c)
    for (const std::uint32_t life : classes_[c].lives) class_of[life] = static_cast<std::uint32_t>(c);
  std::vector<std::uint32_t> order(lives_.size());
  for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(),
                   [this](std::uint32_t a, std::uint32_t b) { return lives_[a].id < lives_[b].id; });
  ColumnTable table(kFindBlocks);
  const RowRange rows{0, order.size()};
  const auto life = [&](std::size_t i) -> const BlockLife& { return lives_[order[i]]; };
  table.fill("block", rows, [&](std::size_t i) { return life(i).id; });
  table.fill("label", rows, [&](std::size_t i) { return record(life(i)).label; });
  table.fill("owner", rows, [&](std::size_t i) { return called(life(i)).owner; });
  table.fill("operator", rows, [&](std::size_t i) { return called(life(i)).op; });
  table.fill("frame", rows, [&](std::size_t i) { return called(life(i)).frame; });
  table.fill("category", rows, [&](std::size_t i) { return record(life(i)).category; });
  table.fill("unit", rows, [&](std::size_t i) { return record(life(i)).unit; });
  table.fill("made", rows, [&](std::size_t i) { return life(i).made; });
  table.fill("class", rows, [&](std::size_t i) { return class_of[order[i]]; });
  table.fill("size", rows, [&](std::size_t i) { return life(i).size; });
  return table;
}

}  // namespace foreshard::viz
