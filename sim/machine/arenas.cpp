#include "sim/machine/arenas.hpp"

#include <algorithm>
#include <iterator>

#include "core/base/check.hpp"

namespace foreshard::sim {
namespace {

constexpr Bytes kArena = 32 * kMiB;
constexpr Bytes kHuge = 512 * kMiB;

}  // namespace

Arenas::Arenas(Address first, Bytes taken) {
  add({first, first + kArena, true, {{first + taken, first + kArena}}});
}

void Arenas::measure(Arena& arena) {
  arena.largest = 0;
  for (const auto& [from, to] : arena.gaps) arena.largest = std::max(arena.largest, to - from);
  largest_gap_ = std::max(largest_gap_, arena.largest);
}

void Arenas::add(Arena arena) {
  const auto above = [](const Extent& a, Address base) { return a.base > base; };
  const auto place = std::lower_bound(extents_.begin(), extents_.end(), arena.base, above);
  if (place != extents_.begin()) largest_hole_ = std::max(largest_hole_, std::prev(place)->base - arena.end);
  if (place != extents_.end()) largest_hole_ = std::max(largest_hole_, arena.base - place->end);
  extents_.insert(place, {arena.base, arena.end});
  measure(arena);
  arenas_.push_back(std::move(arena));
}

void Arenas::remove(const Arena* arena) {
  std::erase_if(extents_, [&](const Extent& extent) { return extent.base == arena->base; });
  arenas_.erase(arenas_.begin() + (arena - arenas_.data()));
  largest_hole_ = ~Bytes{0};
}

Address Arenas::new_arena_base(Bytes arena_size, bool aligned) {
  const Bytes needed = aligned ? arena_size + kHuge : arena_size;
  const auto place_below = [&](Address top) {
    const Address base = top - arena_size;
    return aligned ? base / kHuge * kHuge : base;
  };
  for (std::size_t i = 0; needed < largest_hole_ && i + 1 < extents_.size(); ++i)
    if (extents_[i].base - extents_[i + 1].end > needed) return place_below(extents_[i].base);
  largest_hole_ = std::min(largest_hole_, needed);
  return place_below(extents_.back().base);
}

void Arenas::take(Arena& arena, Address address, Bytes size) {
  auto gap = std::prev(arena.gaps.upper_bound(address));
  const auto [begin, end] = *gap;
  arena.gaps.erase(gap);
  if (begin < address) arena.gaps.emplace(begin, address);
  if (address + size < end) arena.gaps.emplace(address + size, end);
  measure(arena);
}

Address Arenas::allocate(Bytes size) {
  FORESHARD_CHECK(size > 0, "cudaMalloc of nothing");
  for (std::size_t i = size <= largest_gap_ ? arenas_.size() : 0; i-- > 0;) {
    if (arenas_[i].largest < size) continue;
    Address best = 0;
    Bytes best_size = 0;
    for (const auto& [begin, end] : arenas_[i].gaps) {
      if (end - begin < size || (best_size != 0 && end - begin >= best_size)) continue;
      best = begin;
      best_size = end - begin;
    }
    take(arenas_[i], best, size);
    live_.emplace(best, size);
    return best;
  }
  largest_gap_ = std::min(largest_gap_, size - 1);
  const Bytes arena_size = round_up(size, kArena);
  const Address base = new_arena_base(arena_size, size % kHuge == 0);
  Arena arena{base, base + arena_size, false, {}};
  if (size < arena_size) arena.gaps.emplace(base + size, base + arena_size);
  add(std::move(arena));
  live_.emplace(base, size);
  return base;
}

Arenas::Arena* Arenas::arena_of(Address address) {
  for (Arena& arena : arenas_)
    if (arena.base <= address && address < arena.end) return &arena;
  return nullptr;
}

void Arenas::cover(Address begin, Address end) {
  const Address low = begin / kArena * kArena;
  const Address high = round_up(end, kArena);
  for (Address at = low; at < high;) {
    if (const Arena* there = arena_of(at)) {
      at = there->end;
      continue;
    }
    Address stop = high;
    for (const Arena& arena : arenas_)
      if (arena.base > at) stop = std::min(stop, arena.base);
    Arena arena{at, stop, false, {}};
    const Address free_from = std::max(at, begin);  // below it others are at home
    arena.shared = free_from > at;
    if (free_from < stop) arena.gaps.emplace(free_from, stop);
    add(std::move(arena));
    at = stop;
  }
}

bool Arenas::place(Address address, Bytes size) {
  const auto next = live_.lower_bound(address);
  if (next != live_.end() && next->first < address + size) return false;
  if (next != live_.begin() && std::prev(next)->first + std::prev(next)->second > address) return false;
  cover(address, address + size);
  for (Address at = address; at < address + size;) {
    Arena* arena = arena_of(at);
    const Address end = std::min(arena->end, address + size);
    // What is neither free nor live was others' in this model; the recording says that it is ours.
    auto gap = arena->gaps.upper_bound(at);
    if (gap != arena->gaps.begin() && std::prev(gap)->second > at) --gap;
    while (gap != arena->gaps.end() && gap->first < end) {
      const auto [gap_begin, gap_end] = *gap;
      gap = arena->gaps.erase(gap);
      if (gap_begin < at) arena->gaps.emplace(gap_begin, at);
      if (gap_end > end) gap = arena->gaps.emplace(end, gap_end).first;
    }
    measure(*arena);
    at = end;
  }
  live_.emplace(address, size);
  return true;
}

void Arenas::free(Address address) {
  const auto range = live_.find(address);
  FORESHARD_CHECK(range != live_.end(), "cudaFree of an address that is not live");
  const Address end = address + range->second;
  live_.erase(range);
  for (Address at = address; at < end;) {  // a recorded range may lie in two arenas
    Arena* arena = arena_of(at);
    Address from = at;
    Address to = std::min(arena->end, end);
    at = to;
    auto next = arena->gaps.lower_bound(from);
    if (next != arena->gaps.begin() && std::prev(next)->second == from) {
      from = std::prev(next)->first;
      arena->gaps.erase(std::prev(next));
    }
    if (next != arena->gaps.end() && next->first == to) {
      to = next->second;
      arena->gaps.erase(next);
    }
    arena->gaps.emplace(from, to);
    measure(*arena);
    if (!arena->shared && from == arena->base && to == arena->end) remove(arena);
  }
}

}  // namespace foreshard::sim
