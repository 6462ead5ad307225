// One rank's membership of a run: what the GPU worker uses to meet the others, say what it does, and end together.
//
//   auto session = Session::join({.environment = *read_environment(process_variables()), .settings = {...}});
//   if (!session) return session.error();
//   (*session)->on_abort([&](const RunFailure&) { ncclCommAbort(communicator); });
//   ... (*session)->exchange().all_gather("NCCL id", id) ... (*session)->report("step 3, layers.5 forward") ...
//   if (trouble) return tl::unexpected((*session)->fail(error));
//   return (*session)->finish();
//
// A background thread sends heartbeats with the last operation and hears of the other ranks' ends. Rank 0's thread
// also holds the rendezvous (rendezvous_server.hpp), unless foreshard's own launcher does (supervisor.hpp).
//
// What ends a run: a rank that dies, leaves before finish(), calls fail(), reports no progress, falls silent, was
// started with other settings, asks for another collective than the rest; a rendezvous that is cut; an interrupt at
// the launcher. Then on every rank: the abort callbacks run, a pending exchange call returns the failure as its Error,
// and so does every later one. The exit status of each rank is to be the number of that Error's kind.
//
// Thread safety: report() from any thread, the rest from one thread at a time. Callbacks run on the background thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/bootstrap/bootstrap.hpp"
#include "gpu/bootstrap/environment.hpp"
#include "gpu/bootstrap/failure.hpp"
#include "gpu/bootstrap/timeouts.hpp"

namespace foreshard::gpu {

/// One thing that all ranks must agree on: an option with its value, a version, a file with its digest.
struct Setting {
  std::string key;
  std::string value;

  friend bool operator==(const Setting&, const Setting&) = default;
};

struct SessionOptions {
  Environment environment;
  std::vector<Setting> settings;  ///< at most 1 MiB of text; the first that differs is named
  Timeouts timeouts;              ///< of the rendezvous too, where this rank holds it
  /// The last resort: called on the background thread when the run failed and this Session was not destroyed within
  /// timeouts.grace (the worker's own thread is stuck in a driver call, say). The program's main passes a function
  /// that ends the process with failure.kind's number; empty: nothing happens.
  std::function<void(const RunFailure&)> on_stuck;
  /// Takes SIGTERM while the Session lives, with which torchrun, `srun --kill-on-bad-exit` and mpirun end the ranks as
  /// soon as one of them is gone: this rank then stays until it knows why (kTakeFailure at most) and ends with the
  /// run's failure. For a program that is a rank and nothing else. Without effect under foreshard's launcher, which
  /// tells the ranks before it signals them.
  bool hear_sigterm = false;
};

class Session {
 public:
  /// Meets the other ranks: returns when all have come and agree. Errors: `input` (the secret's file), `rendezvous`
  /// (not reachable, not this run's, refused, a rank that does not come within timeouts.join), `mismatch` (settings,
  /// numbers of ranks), or the run's failure.
  [[nodiscard]] static Result<std::unique_ptr<Session>> join(SessionOptions options);
  /// Without finish() or fail() before it, the others are told that this rank left.
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] const Environment& environment() const;
  /// Lives as long as the Session.
  [[nodiscard]] Bootstrap& bootstrap();

  /// What this rank does now, and that it got on: cheap (some 20 ns, no lock, no system call), the first 95 bytes are
  /// kept. `timeout`: how long until the next report before this counts as a hang; zero: timeouts.progress.
  void report(std::string_view operation, Milliseconds timeout = Milliseconds::zero());

  /// Adds a callback for the run's failure: called once, soon after it is known; at once if it is known already.
  void on_abort(std::function<void(const RunFailure&)> callback);
  /// The run's failure, once it is known. Cheap: to be looked at in waiting loops.
  [[nodiscard]] bool aborted() const;
  [[nodiscard]] std::optional<RunFailure> failure() const;

  /// Who came to the rendezvous, where this rank holds it, without knowing the run's secret, for a person: "3
  /// connections did not prove that they know the run's secret: 3 from 10.0.0.7". Empty: nobody.
  [[nodiscard]] std::string unauthenticated();

  /// Ends the run for all: tells them this rank's error and waits until the rendezvous took it (2 s at most). Returns
  /// what to return: the run's failure, which is another rank's if that came first.
  [[nodiscard]] Error fail(const Error& error);
  /// Collective: waits until every rank got here. After it, ranks may end. Errors: the run's failure.
  [[nodiscard]] Result<void> finish();

 private:
  class Impl;
  explicit Session(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace foreshard::gpu
