#include "core/explain/causes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>

#include "core/base/units.hpp"
#include "core/run/graph_replay.hpp"
#include "core/workload/workload_names.hpp"

namespace foreshard::explain_detail {
namespace {

std::string plural(std::uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

Bytes share_of(Bytes reserved, double share) {
  return std::max(kCauseFloor, static_cast<Bytes>(static_cast<double>(reserved) * share));
}

/// "The all-gather output is", in the names of FSDP2's and c10d's sources.
std::string subject(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::gather_buffers:
      return "The all-gather output is";
    case MemoryCategory::reduce_buffers:
      return "The reduce-scatter input is";
    case MemoryCategory::sharded_gradients:
      return "The reduce-scatter output is";
    case MemoryCategory::inputs:
      return "The batch is";
    default:
      return fmt::format("Tensors ({}) are", name(category));
  }
}

Nanoseconds held_time(Nanoseconds freed, Nanoseconds back) {
  return {
      std::bit_cast<std::int64_t>(static_cast<std::uint64_t>(back.count) - static_cast<std::uint64_t>(freed.count))};
}

class Finder {
 public:
  Finder(const Run& run, const Moments& moments, const Explanation& e) : run_(run), moments_(moments), e_(e) {}

  std::vector<Cause> find() {
    record_stream();
    reduce_inputs();
    first_step();
    fragmentation();
    std::stable_sort(causes_.begin(), causes_.end(), [](const Cause& a, const Cause& b) { return a.bytes > b.bytes; });
    return std::move(causes_);
  }

 private:
  void record_stream();
  void add_record_stream(const std::vector<const HeldBlock*>& blocks);
  void reduce_inputs();
  void first_step();
  void fragmentation();
  void add(CauseKind kind, Bytes bytes, std::uint64_t blocks, std::string text, std::string advice) {
    Cause cause;
    cause.kind = kind;
    cause.bytes = bytes;
    cause.blocks = blocks;
    cause.text = std::move(text);
    cause.advice = std::move(advice);
    causes_.push_back(std::move(cause));
  }
  [[nodiscard]] std::string unit_names(const std::vector<const HeldBlock*>& blocks) const;

  const Run& run_;
  const Moments& moments_;
  const Explanation& e_;
  std::vector<Cause> causes_;
};

/// " of layers.0 to layers.3": of the first and the last unit in unit order.
std::string Finder::unit_names(const std::vector<const HeldBlock*>& blocks) const {
  std::optional<std::uint32_t> first, last;
  for (const HeldBlock* block : blocks) {
    if (block->unit.value >= run_.units.size()) continue;
    first = std::min(first.value_or(block->unit.value), block->unit.value);
    last = std::max(last.value_or(block->unit.value), block->unit.value);
  }
  if (!first) return {};
  const auto text = [&](std::uint32_t unit) {
    return run_.units[unit].name.empty() ? std::string("the root") : run_.units[unit].name;
  };
  return *first == *last ? " of " + text(*first) : fmt::format(" of {} to {}", text(*first), text(*last));
}

void Finder::record_stream() {
  const Moment& moment = e_.pending_peak;
  std::map<std::tuple<MemoryCategory, StreamId, std::string>, std::vector<const HeldBlock*>> groups;
  for (const HeldBlock& block : moment.pending)
    groups[{block.category.value_or(MemoryCategory::other), block.stream, block.waits_for_name}].push_back(&block);
  for (const auto& [key, blocks] : groups) {
    Bytes bytes = 0;
    for (const HeldBlock* block : blocks) bytes += block->size;
    if (bytes >= share_of(e_.peaks.reserved, kPendingShare)) add_record_stream(blocks);
  }
}

void Finder::add_record_stream(const std::vector<const HeldBlock*>& blocks) {
  const HeldBlock& first = *blocks.front();
  Bytes bytes = 0;
  const HeldBlock* largest = &first;
  std::uint64_t sum = 0;  // unsigned, as held_time(): whatever the times of a damaged run are, nothing overflows
  Nanoseconds longest;
  std::uint64_t known = 0;
  for (const HeldBlock* block : blocks) {
    bytes += block->size;
    if (block->size > largest->size) largest = block;
    if (!block->freed || !block->back) continue;
    const Nanoseconds held = held_time(*block->freed, *block->back);
    sum += static_cast<std::uint64_t>(held.count);
    longest = std::max(longest, held);
    ++known;
  }
  const std::string on =
      first.waits_for_name.empty() ? std::string("another stream") : fmt::format("the {} stream", first.waits_for_name);
  std::string text = fmt::format(
      "{} held by record_stream on {}: {} ({}){} were freed by the program, and the caching allocator waits for "
      "events of that stream before it uses them again",
      subject(first.category.value_or(MemoryCategory::other)), on, plural(blocks.size(), "block"), format_bytes(bytes),
      unit_names(blocks));
  add(CauseKind::record_stream, bytes, blocks.size(), std::move(text),
      "the host runs ahead of the GPU, so freed blocks pile up and new segments are made instead; keep references "
      "until Work.wait() (PyTorch 2.8 and later do) instead of calling record_stream");
  Cause& cause = causes_.back();
  cause.category = first.category.value_or(MemoryCategory::other);
  cause.stream = first.stream;
  cause.waits_for = first.waits_for;
  cause.example = *largest;
  if (known > 0) {
    cause.held_mean = Nanoseconds{static_cast<std::int64_t>(sum / known)};
    cause.held_longest = longest;
  }
}

void Finder::reduce_inputs() {
  for (const auto& share : e_.allocated_peak.categories) {
    const std::uint32_t kept = run_.settings.reduce_scatter_max_input_buffers;
    if (share.key != MemoryCategory::reduce_buffers || share.units < kReduceInputs + kept) continue;
    if (share.live < share_of(e_.peaks.reserved, kPendingShare)) continue;
    add(CauseKind::reduce_input_held, share.live, share.blocks,
        fmt::format("reduce-scatter buffers of {} ({}) are alive at the peak of allocated memory, where FSDP2 keeps "
                    "{} until the next unit's reduce-scatter",
                    plural(share.units, "unit"), format_bytes(share.live),
                    kept == 1 ? std::string("one input") : fmt::format("{} inputs", kept)),
        "let each input go when its reduce-scatter has been waited for "
        "(set_reduce_scatter_max_input_buffers in PyTorch 2.13)");
    causes_.back().category = MemoryCategory::reduce_buffers;
  }
}

void Finder::first_step() {
  if (e_.steps.size() < 2) return;
  const Bytes early = std::max(e_.before_steps.active, e_.steps.front().peaks.active);
  Bytes later = 0;
  for (std::size_t i = 1; i < e_.steps.size(); ++i) later = std::max(later, e_.steps[i].peaks.active);
  if (early <= later || early - later < share_of(e_.peaks.reserved, kSpikeShare)) return;
  const bool before = e_.before_steps.active >= e_.steps.front().peaks.active;
  add(CauseKind::first_step_spike, early - later, 0,
      fmt::format("{} of reserved memory were used only {} (active {} then, at most {} in later steps); reserved "
                  "memory never falls by itself",
                  format_bytes(early - later), before ? "before the first step" : "in the first step",
                  format_bytes(early), format_bytes(later)),
      "torch.cuda.empty_cache() once after it gives wholly free segments back");
}

void Finder::fragmentation() {
  const Moment& moment = e_.reserved_peak;
  const MemoryParts& parts = moment.at.parts;
  const std::string of = fmt::format("of {} reserved", format_bytes(parts.reserved()));
  const Bytes much = share_of(parts.reserved(), kFragmentationShare);
  if (parts.hard >= much)
    add(CauseKind::hard_fragmentation, parts.hard, 0,
        fmt::format("hard fragmentation: {} {} are free between blocks in use; the largest free block is {}",
                    format_bytes(parts.hard), of, format_bytes(moment.largest_free)),
        "expandable_segments:True lets free pages move; fewer different sizes, or long-lived blocks made first");
  if (parts.soft >= much)
    add(CauseKind::soft_fragmentation, parts.soft, 0,
        fmt::format("soft fragmentation: {} {} are whole free segments, which cannot merge into a larger block",
                    format_bytes(parts.soft), of),
        "expandable_segments:True makes one growing segment of them");
  if (parts.stream >= much) {
    const Holding* most = nullptr;
    for (const Holding& stream : moment.streams)
      if (most == nullptr || stream.free > most->free) most = &stream;
    add(CauseKind::stream_pools, parts.stream, most != nullptr ? most->segments : 0,
        fmt::format("cross-stream allocation: {} {} are idle segments that another stream owns (most free: {} of the "
                    "{} stream); a block can only be used again on the stream that it was allocated on",
                    format_bytes(parts.stream), of, most != nullptr ? format_bytes(most->free) : "0 B",
                    most != nullptr ? most->name : ""),
        "allocate on the stream that computes (unshard async op, or a custom all-gather that allocates there)");
    if (most != nullptr) causes_.back().stream = most->stream;
  }
  if (parts.private_pool >= much && graph_pool_bytes(run_) > 0)
    add(CauseKind::private_pool_idle, parts.private_pool, 0,
        fmt::format("{} {} are not allocated in private pools, most of them a CUDA graph's: its replays write there, "
                    "though memory_stats() does not count it as allocated",
                    format_bytes(parts.private_pool), of),
        "what makes the passes' peak smaller: checkpointing, resharding, a smaller batch; captured anew, a smaller "
        "pool");
  else if (parts.private_pool >= much)
    add(CauseKind::private_pool_idle, parts.private_pool, 0,
        fmt::format("{} {} are free in private pools (symmetric memory, MemPool), which serve nobody else",
                    format_bytes(parts.private_pool), of),
        "smaller or fewer buffers in the pool; let it go when it is not used");
}

}  // namespace

std::vector<Cause> find_causes(const Run& run, const Moments& moments, const Explanation& explanation) {
  return Finder(run, moments, explanation).find();
}

}  // namespace foreshard::explain_detail
