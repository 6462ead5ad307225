#include "core/explain/memory_parts.hpp"

#include <algorithm>

namespace foreshard::explain_detail {
namespace {

/// Whether [address, address + size) is a range at all.
bool is_range(Address address, Bytes size) {
  return size > 0 && address + size > address;
}

void change(Bytes& total, Bytes amount, bool sign) {
  total = sign ? total + amount : total - amount;
}

}  // namespace

MemoryParts MemoryState::parts() const {
  MemoryParts parts = totals_;
  const auto own = idle_.find(asking_);
  parts.soft = own == idle_.end() ? 0 : own->second;
  parts.stream = idle_sum_ - parts.soft;
  return parts;
}

std::map<Address, Segment>::const_iterator MemoryState::segment_of(Address address) const {
  auto after = segments_.upper_bound(address);
  if (after == segments_.begin()) return segments_.end();
  --after;
  return address < after->second.end ? after : segments_.end();
}

bool MemoryState::overlaps(Address address, Address end) const {
  const auto next = segments_.lower_bound(address);
  return (next != segments_.end() && next->first < end) || segment_of(address) != segments_.end();
}

Bytes MemoryState::idle_bytes(Address begin, const Segment& segment, Address from, Address to) {
  if (segment.page == 0) return from == begin && to == segment.end ? to - from : 0;
  // A run of pages begins on the grid of pages (caching allocator 4.1).
  const Bytes first = ceil_div(from - begin, segment.page) * segment.page;
  const Bytes last = to == segment.end ? to - begin : (to - begin) / segment.page * segment.page;
  return last > first ? last - first : 0;
}

void MemoryState::count_free(Segments::const_iterator segment, Address from, Address to, bool sign) {
  if (from >= to) return;
  if (segment->second.pool != kDefaultPool) return change(totals_.private_pool, to - from, sign);
  const Bytes idle = idle_bytes(segment->first, segment->second, from, to);
  change(totals_.hard, to - from - idle, sign);
  if (idle == 0) return;
  change(idle_[segment->second.stream], idle, sign);
  change(idle_sum_, idle, sign);
}

Address MemoryState::end_before(Segments::const_iterator segment, std::map<Address, Held>::const_iterator held) const {
  if (held == held_.begin()) return segment->first;
  const auto& [address, block] = *std::prev(held);
  return std::max(segment->first, address + block.size);
}

void MemoryState::count_segment(Segments::const_iterator segment, bool sign) {
  Address from = segment->first;
  for (auto it = held_.lower_bound(segment->first); it != held_.end() && it->first < segment->second.end; ++it) {
    count_free(segment, from, it->first, sign);
    from = it->first + it->second.size;
  }
  count_free(segment, from, segment->second.end, sign);
}

bool MemoryState::add(Address address, Bytes size, Segment segment, bool asks) {
  if (!is_range(address, size) || overlaps(address, address + size)) return false;
  segment.end = address + size;
  if (asks) asking_ = segment.stream;
  auto place = segments_.emplace(address, segment).first;
  if (segment.page == 0) {
    count_segment(place, true);
    return true;
  }
  const auto joins = [&](const Segment& other) {
    return other.page == segment.page && other.stream == segment.stream && other.pool == segment.pool;
  };
  if (const auto next = std::next(place);
      next != segments_.end() && next->first == segment.end && joins(next->second)) {
    count_segment(next, false);
    place->second.end = next->second.end;
    segments_.erase(next);
  }
  if (place != segments_.begin()) {
    if (const auto before = std::prev(place); before->second.end == address && joins(before->second)) {
      count_segment(before, false);
      before->second.end = place->second.end;
      segments_.erase(place);
      place = before;
    }
  }
  count_segment(place, true);
  return true;
}

bool MemoryState::remove(Address address, Bytes size) {
  const auto found = segment_of(address);
  if (!is_range(address, size) || found == segments_.end()) return false;
  const Address begin = found->first;
  const Segment segment = found->second;
  const Address end = address + size;
  const bool whole = address == begin && end == segment.end;
  if (end > segment.end || (segment.page == 0 && !whole)) return false;
  const auto next = held_.lower_bound(address);
  if (next != held_.end() && next->first < end) return false;
  if (end_before(found, next) > address) return false;
  count_segment(found, false);
  segments_.erase(found);
  const auto keep = [&](Address from, Address to) {
    if (from >= to) return;
    Segment part = segment;
    part.end = to;
    count_segment(segments_.emplace(from, part).first, true);
  };
  keep(begin, address);
  keep(end, segment.end);
  return true;
}

bool MemoryState::hold(Address address, Held held) {
  const auto segment = segment_of(address);
  if (segment == segments_.end()) return false;
  const auto next = held_.lower_bound(address);
  const Address before = end_before(segment, next);
  Address end = segment->second.end;
  if (next != held_.end()) end = std::min(end, next->first);
  if (before > address || end <= address) return false;
  held.size = std::min(held.size, end - address);
  if (held.size == 0) return false;
  held.requested = std::min(held.requested, held.size);
  count_free(segment, before, end, false);
  count_free(segment, before, address, true);
  count_free(segment, address + held.size, end, true);
  if (held.pending) {
    totals_.pending_free += held.size;
    pending_requested_ += held.requested;
  } else {
    totals_.requested += held.requested;
    totals_.rounding += held.size - held.requested;
  }
  held_.emplace_hint(next, address, held);
  return true;
}

bool MemoryState::request_free(Address address, std::size_t event) {
  const auto found = held_.find(address);
  if (found == held_.end() || found->second.pending) return false;
  Held& held = found->second;
  held.pending = true;
  held.freed = event;
  totals_.requested -= held.requested;
  totals_.rounding -= held.size - held.requested;
  totals_.pending_free += held.size;
  pending_requested_ += held.requested;
  return true;
}

bool MemoryState::release(Address address) {
  const auto found = held_.find(address);
  if (found == held_.end()) return false;
  const Held held = found->second;
  const auto segment = segment_of(address);
  const auto next = std::next(found);
  const Address before = end_before(segment, found);
  Address end = segment->second.end;
  if (next != held_.end()) end = std::min(end, next->first);
  count_free(segment, before, address, false);
  count_free(segment, address + held.size, end, false);
  count_free(segment, before, end, true);
  if (held.pending) {
    totals_.pending_free -= held.size;
    pending_requested_ -= held.requested;
  } else {
    totals_.requested -= held.requested;
    totals_.rounding -= held.size - held.requested;
  }
  held_.erase(found);
  return true;
}

}  // namespace foreshard::explain_detail
