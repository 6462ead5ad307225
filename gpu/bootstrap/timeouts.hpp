// How long the ranks of one run wait for each other before they give up. Every wait of gpu/launch has one of these.
//
// The defaults end a run within ten seconds of a death, an error or a rank that falls silent: settle, grace and kill
// follow each other, and silence comes before them when nobody says a word.
#pragma once

#include <chrono>

namespace foreshard::gpu {

using Milliseconds = std::chrono::milliseconds;
using TimePoint = std::chrono::steady_clock::time_point;

struct Timeouts {
  Milliseconds join{60'000};        ///< from the start until every rank has come
  Milliseconds bootstrap{600'000};  ///< a collective call of Exchange, from the first rank to the last
  Milliseconds progress{60'000};    ///< a rank that reports no new operation hangs; Session::report can be more patient
  Milliseconds silence{4'000};      ///< a rank, or the rendezvous, that says nothing at all is stopped or gone
  Milliseconds heartbeat{100};      ///< between two heartbeats, each way
  Milliseconds settle{250};         ///< after the first sign of trouble: a better explanation may be on its way
  Milliseconds grace{4'000};        ///< for ranks to abort, write what they have and leave by themselves
  Milliseconds kill{1'000};         ///< between SIGTERM and SIGKILL for those that did not
};

}  // namespace foreshard::gpu
