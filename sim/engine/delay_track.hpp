// What an engine keeps to know the Delays of its ops: those of the last ones that were issued and that ended.
//
// Who: sim/engine/engine.cpp. Of fixed size for each stream: who goes on from an op waits for its last ones alone.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/engine/delays.hpp"

namespace foreshard::sim {

class DelayTrack {
 public:
  /// How many ops of a stream its host may issue before they begin, each of them still known: one that waits for longer
  /// than for so many launches does not wait for its launch.
  static constexpr std::uint32_t kIssued = 8;
  /// How many of a stream's ends are known: those of the last microseconds are asked for, an event's wait.
  static constexpr std::uint32_t kEnded = 8;

  void grow(std::size_t streams, std::size_t communicators) {
    if (streams > streams_.size()) streams_.resize(streams);
    if (communicators > communicators_.size()) communicators_.resize(communicators);
  }
  void issue(std::uint32_t stream, std::uint32_t place, const Delays& host) {
    streams_[stream].issued[place % kIssued] = host;
  }
  void end(std::uint32_t stream, std::uint32_t place, const Delays& delays) {
    streams_[stream].ended[place % kEnded] = last_ = delays;
  }
  [[nodiscard]] const Delays& issued(std::uint32_t stream, std::uint32_t place) const {
    return streams_[stream].issued[place % kIssued];
  }
  [[nodiscard]] const Delays& ended(std::uint32_t stream, std::uint32_t place) const {
    return streams_[stream].ended[place % kEnded];
  }
  /// Of the stream's first unfinished op, once it may begin.
  [[nodiscard]] Delays& first(std::uint32_t stream) { return streams_[stream].first; }
  /// Of the communicator's last collective: where it ended.
  [[nodiscard]] Delays& communicator(std::uint32_t communicator) { return communicators_[communicator]; }
  /// Of the op that ended last.
  [[nodiscard]] const Delays& last() const { return last_; }

 private:
  struct Stream {
    Delays first;
    std::array<Delays, kIssued> issued{};  // rings, by place
    std::array<Delays, kEnded> ended{};
  };
  std::vector<Stream> streams_;
  std::vector<Delays> communicators_;
  Delays last_;
};

}  // namespace foreshard::sim
