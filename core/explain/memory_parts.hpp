// The caching allocator's memory as its events tell it: segments, blocks in use, and the space between them, with
// MemoryParts kept up to date at every change.
//
// Internal to core/explain. Where blocks in use lie in a segment tells its free blocks: adjacent free blocks are always
// merged (caching allocator 1.2). Entries that contradict the state change nothing and answer false, whatever their
// numbers are, so that the parts always leave no remainder. Cost: O(log n) a change.
#pragma once

#include <cstddef>
#include <map>

#include "core/explain/explanation.hpp"

namespace foreshard::explain_detail {

struct Segment {
  Address end = 0;
  StreamId stream;
  PoolId pool = kDefaultPool;
  Bytes page = 0;  ///< of an expandable segment, whose mapped runs are segments here; 0: cudaMalloc
};

struct Held {
  Bytes size = 0;
  Bytes requested = 0;
  BlockId block;  ///< invalid: older than the recording
  bool pending = false;
  std::size_t freed = 0;  ///< event of the program's free, of pending blocks
};

class MemoryState {
 public:
  /// cudaMalloc's segment, or pages mapped, which join their neighbours of the same stream and pool. `asks`: this
  /// request got it now; false for memory that was there before.
  bool add(Address address, Bytes size, Segment segment, bool asks);
  /// segment_free of a whole segment, or segment_unmap of pages; nothing in it may be in use.
  bool remove(Address address, Bytes size);
  /// A block in use. Longer than its place: cut to it.
  bool hold(Address address, Held held);
  /// The program's free: the block waits for an event.
  bool request_free(Address address, std::size_t event);
  /// The block is free.
  bool release(Address address);

  [[nodiscard]] MemoryParts parts() const;
  /// torch's requested_bytes: of live and pending blocks.
  [[nodiscard]] Bytes requested_active() const { return totals_.requested + pending_requested_; }
  [[nodiscard]] const std::map<Address, Segment>& segments() const { return segments_; }
  [[nodiscard]] const std::map<Address, Held>& held() const { return held_; }
  /// The segment that holds an address; segments().end() without one.
  [[nodiscard]] std::map<Address, Segment>::const_iterator segment_of(Address address) const;
  [[nodiscard]] StreamId asking() const { return asking_; }
  /// Whole free pages of [from, to) in a segment that begins at `begin`; of cudaMalloc's: all or nothing.
  [[nodiscard]] static Bytes idle_bytes(Address begin, const Segment& segment, Address from, Address to);

 private:
  using Segments = std::map<Address, Segment>;
  [[nodiscard]] bool overlaps(Address address, Address end) const;
  /// Adds (or, with `sign` false, takes away) the free space [from, to) of a segment.
  void count_free(Segments::const_iterator segment, Address from, Address to, bool sign);
  /// The same for all free space of the segment.
  void count_segment(Segments::const_iterator segment, bool sign);
  [[nodiscard]] Address end_before(Segments::const_iterator segment,
                                   std::map<Address, Held>::const_iterator held) const;

  Segments segments_;
  std::map<Address, Held> held_;
  MemoryParts totals_;  // soft and stream stay 0: they follow from idle_ and asking_
  std::map<StreamId, Bytes> idle_;
  Bytes idle_sum_ = 0;
  Bytes pending_requested_ = 0;
  StreamId asking_ = kComputeStream;
};

}  // namespace foreshard::explain_detail
