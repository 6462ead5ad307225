// A schedule in which nothing can ever run again, as a result: who waits for whom.
#pragma once

#include <string>
#include <vector>

#include "core/device/device.hpp"

namespace foreshard::sim {

/// One stream that cannot go on.
struct Stuck {
  enum class Reason : std::uint8_t {
    peers = 0,         ///< its collective runs and waits for ranks that do not come
    communicator = 1,  ///< its collective waits for an earlier one of the same communicator
    event = 2,         ///< its next op waits for an event
  };
  StreamId stream;
  OpId op;
  Reason reason = Reason::event;
  OpId waits_for;         ///< for `communicator` and `event`
  StreamId waits_for_on;  ///< the stream of `waits_for`
  Nanoseconds issued;     ///< when the host issued `op`
};

struct Deadlock {
  Nanoseconds at;            ///< when the last thing happened
  std::vector<Stuck> stuck;  ///< by stream id
  std::string text;          ///< one line a stream, by name
};

}  // namespace foreshard::sim
