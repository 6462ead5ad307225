// The blocks that wait for events: one queue for each stream they were also used on (caching allocator 5.2).
//
// Internal to core/allocator. Each queue is polled in order and stops at its first incomplete event; the
// queues are polled by ascending stream (PyTorch: the order of a hash map, fixed within a process).
#pragma once

#include <algorithm>
#include <cstddef>
#include <deque>
#include <vector>

#include "core/allocator/block.hpp"
#include "core/device/stream_events.hpp"

namespace foreshard::allocator_detail {

class EventQueues {
 public:
  [[nodiscard]] bool empty() const { return waiting_ == 0; }

  void push(StreamId stream, EventId event, Block* block) {
    auto place = std::lower_bound(queues_.begin(), queues_.end(), stream,
                                  [](const Queue& queue, StreamId key) { return queue.stream < key; });
    if (place == queues_.end() || place->stream != stream) place = queues_.insert(place, Queue{stream, {}});
    place->waiting.push_back({event, block});
    ++waiting_;
  }

  /// Calls `done(block)` for each complete event at the head of its queue.
  template <class Done>
  void poll(StreamEvents& events, Done done) {
    for (Queue& queue : queues_) {
      while (!queue.waiting.empty() && events.event_complete(queue.waiting.front().event)) {
        Block* block = queue.waiting.front().block;
        queue.waiting.pop_front();
        --waiting_;
        done(block);
      }
    }
    drop_empty();
  }

  /// Waits for every event whose block `wanted` accepts, and calls `done(block)` for each.
  template <class Wanted, class Done>
  void drain(StreamEvents& events, Wanted wanted, Done done) {
    for (Queue& queue : queues_) {
      std::deque<Waiting> kept;
      for (const Waiting& entry : queue.waiting) {
        if (!wanted(entry.block)) {
          kept.push_back(entry);
          continue;
        }
        events.synchronize_event(entry.event);
        --waiting_;
        done(entry.block);
      }
      queue.waiting = std::move(kept);
    }
    drop_empty();
  }

 private:
  struct Waiting {
    EventId event;
    Block* block;
  };
  struct Queue {
    StreamId stream;
    std::deque<Waiting> waiting;
  };
  static constexpr std::size_t kKept = 16;  ///< empty queues are kept up to here, to save their memory's churn

  void drop_empty() {
    if (queues_.size() <= kKept) return;
    std::erase_if(queues_, [](const Queue& queue) { return queue.waiting.empty(); });
  }

  std::vector<Queue> queues_;  // ascending by stream
  std::size_t waiting_ = 0;
};

}  // namespace foreshard::allocator_detail
