// A rank of a job in which groups meet on links: what it has heard, and how far it went ahead of what holds for others.
//
// Who: sim/ranks/job.cpp. It asks these of every rank again and again, and of the rank itself (2 KiB) only to go on.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/ranks/next_meetings.hpp"

namespace foreshard::sim {

/// What a rank hears of a collective.
struct Answer {
  enum class What : std::uint8_t {
    all_there = 0,
    all_done = 1,
    pace = 2,  ///< what the links leave it from now on
  };
  What what = What::all_there;
  CommunicatorId communicator;
  Nanoseconds at;
  std::int64_t pace = kFullRate;
  bool behind = false;  ///< what else the rank does at that instant
  Delays delays = {};   ///< of all_done, where they are told
};

struct Ahead {
  NextMeetings stands;               ///< as all that holds leaves it, its answers among it
  NextMeetings next;                 ///< as it stands itself, where it is ahead
  SmallVector<Meeting, 2> meetings;  ///< to which it came, ahead; none: it stopped before one
  std::vector<Answer> answers;       ///< that it has not taken, in order of time
  Nanoseconds reached;               ///< the last instant that it played
  Nanoseconds then;                  ///< when it would do something; kNever: never, unless it hears of others
  Nanoseconds last_end = kNever;     ///< of the last step that is wanted
  std::size_t step = 0;              ///< in which it is
  bool is_ahead = false;             ///< of what holds
  bool is_marked = false;            ///< where it set out to go ahead
  bool goes_back = false;            ///< to its mark: an answer came to an instant that it had passed
  bool told = false;                 ///< its engine's meetings are known
  bool is_free = false;              ///< it is known to be NextMeetings::is_free(), and has not gone on since
};

}  // namespace foreshard::sim
