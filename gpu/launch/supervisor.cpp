#include "gpu/launch/supervisor.hpp"

#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "gpu/bootstrap/rendezvous_server.hpp"
#include "gpu/bootstrap/saved_signals.hpp"
#include "gpu/launch/line_reader.hpp"
#include "gpu/launch/process.hpp"

namespace foreshard::gpu {
namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::uint32_t kMaxRanks = 1024;
constexpr Milliseconds kLastWords{500};  // for the pipes of processes that have ended

/// The failure's kind where the status is one of ours (docs/exit_codes.md).
ErrorKind kind_of_status(int status) {
  for (const ErrorKind kind :
       {ErrorKind::usage, ErrorKind::input, ErrorKind::mismatch, ErrorKind::out_of_memory, ErrorKind::deadlock,
        ErrorKind::rank_hung, ErrorKind::rendezvous, ErrorKind::skipped, ErrorKind::interrupted})
    if (static_cast<int>(kind) == status) return kind;
  return ErrorKind::rank_lost;
}

class Supervisor {
 public:
  Supervisor(const std::vector<std::string>& command, const LaunchOptions& options)
      : command_(command),
        options_(options),
        signals_(context_),
        step_(context_),
        ticker_(context_),
        server_(context_, RendezvousOptions{.ranks = options.ranks,
                                            .port = 0,
                                            .loopback_only = true,
                                            .held_by_rank_0 = false,
                                            .timeouts = options.timeouts}),
        processes_(options.ranks, 0),
        ends_(options.ranks) {}

  Result<RunEnd> run() {
    const auto port = server_.listen();
    FORESHARD_TRY(port);
    server_.serve(Key(secret_, {}));
    server_.on_failure = [this](const RunFailure& failure) { end_all(failure); };
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) signals_.add(signal);
    if (auto started = start_all(*port); !started) {
      for (const int process : processes_)
        if (process != 0) signal_group(process, SIGKILL);
      while (alive() > 0) look();
      return tl::unexpected(started.error());
    }
    if (options_.on_start) options_.on_start(processes_);
    hear_signals();
    tick();
    context_.run();
    return result();
  }

 private:
  Result<void> start_all(std::uint16_t port) {
    for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
      Variables variables = options_.variables;
      variables["RANK"] = variables["LOCAL_RANK"] = std::to_string(rank);
      variables["WORLD_SIZE"] = variables["LOCAL_WORLD_SIZE"] = std::to_string(options_.ranks);
      variables["FORESHARD_PORT"] = std::to_string(port);
      variables["FORESHARD_SECRET"] = secret_;
      variables.erase("FORESHARD_SECRET_FILE");
      variables["FORESHARD_LAUNCHER"] = "1";
      auto process = start_process(command_, variables, rank == 0);
      FORESHARD_TRY(process);
      processes_[rank] = process->id;
      readers_.push_back(std::make_shared<LineReader>(context_, std::move(process->words), [this, rank](auto line) {
        if (options_.on_line) options_.on_line(rank, line);
      }));
      readers_.back()->start();
    }
    return {};
  }

  void hear_signals() {
    signals_.async_wait([this](error_code stopped, int signal) {
      if (stopped) return;
      if (signal == SIGCHLD) {
        look();
      } else if (interrupted_by_ != 0) {
        signal_all(SIGKILL);
      } else {
        interrupted_by_ = signal;
        server_.attribute_failure(
            {ErrorKind::interrupted, std::nullopt, {}, "interrupted by " + signal_text(signal), {}, {}});
      }
      hear_signals();
    });
  }

  /// Which processes have ended since the last look.
  void look() {
    for (std::uint32_t rank = 0; rank < options_.ranks; ++rank) {
      if (processes_[rank] == 0) continue;
      const auto end = ended(processes_[rank]);
      if (!end) continue;
      processes_[rank] = 0;
      ends_[rank] = *end;
      explain(rank, *end);
    }
  }

  void explain(std::uint32_t rank, const RankEnd& end) {
    RunFailure failure{ErrorKind::rank_lost, rank, server_.monitor().operation(rank), {}, {}, {}};
    if (end.signal != 0) {
      failure.cause = "was killed by " + signal_text(end.signal);
      if (end.signal == SIGKILL) failure.hint = "if nobody did, the kernel ran out of host memory: see dmesg";
    } else {
      failure.kind = kind_of_status(end.status);
      failure.cause = fmt::format("ended with status {} before the run was over", end.status);
      if (end.status != 0) failure.hint = fmt::format("its output is above, prefixed with [rank {}]", rank);
    }
    if (!server_.finished()) return server_.rank_ended(rank, std::move(failure));
    if (end.status == 0 || late_) return;
    if (end.signal == 0) failure.cause = fmt::format("ended with status {} after the run", end.status);
    late_ = std::move(failure);
  }

  [[nodiscard]] std::ptrdiff_t alive() const {
    return std::count_if(processes_.begin(), processes_.end(), [](int process) { return process != 0; });
  }

  void signal_all(int signal) {
    for (const int process : processes_)
      if (process != 0) signal_group(process, signal);
  }

  /// The ranks have been told: time to leave by themselves, then a request, then none.
  void end_all(const RunFailure& failure) {
    const bool hung = failure.kind == ErrorKind::rank_hung && failure.rank && processes_[*failure.rank] != 0;
    if (hung) signal_group(processes_[*failure.rank], SIGKILL);
    after(options_.timeouts.grace, [this] {
      signal_all(SIGTERM);
      after(options_.timeouts.kill, [this] { signal_all(SIGKILL); });
    });
  }

  template <class Then>
  void after(Milliseconds time, Then then) {
    step_.expires_after(time);
    step_.async_wait([then](error_code stopped) {
      if (!stopped) then();
    });
  }

  void tick() {
    look();  // a SIGCHLD that was merged with another
    const auto now = std::chrono::steady_clock::now();
    if (server_.finished() && !over_since_) over_since_ = now;
    if (over_since_ && !late_ && alive() > 0 && now - *over_since_ > options_.timeouts.progress) give_up();
    // Without either, the rendezvous still looks for the best explanation of what ended.
    if (alive() == 0 && (server_.failure() || server_.finished())) {
      if (!dead_since_) dead_since_ = now;
      const bool quiet = std::none_of(readers_.begin(), readers_.end(), [](const auto& r) { return r->open(); });
      if (quiet || now - *dead_since_ > kLastWords) return stop();
    }
    ticker_.expires_after(options_.timeouts.heartbeat);
    ticker_.async_wait([this](error_code stopped) {
      if (!stopped) tick();
    });
  }

  /// The run is over, and a process does not end.
  void give_up() {
    for (std::uint32_t rank = 0; rank < options_.ranks && !late_; ++rank)
      if (processes_[rank] != 0)
        late_ = RunFailure{ErrorKind::rank_hung,         rank, server_.monitor().operation(rank),
                           "does not end after the run", {},   {}};
    end_all(*late_);
  }

  void stop() {
    for (const auto& reader : readers_) reader->close();
    server_.close();
    error_code ignored;
    signals_.cancel(ignored);
    step_.cancel();
    context_.stop();
  }

  [[nodiscard]] RunEnd result() const {
    RunEnd out{server_.failure() ? server_.failure() : late_, ends_, 0, server_.unauthenticated().text()};
    if (!out.failure) return out;
    out.exit_code = static_cast<int>(out.failure->kind);
    if (out.failure->kind == ErrorKind::interrupted) out.interrupted_by = interrupted_by_;
    if (out.failure->kind != ErrorKind::rank_lost || !out.failure->rank) return out;
    // A status of its own that is no failure's is the run's.
    const RankEnd& end = ends_[*out.failure->rank];
    if (end.signal == 0 && end.status != 0) out.exit_code = end.status;
    return out;
  }

  const std::vector<std::string>& command_;
  const LaunchOptions& options_;
  const std::string secret_ = random_secret();
  const SavedSignals saved_{{SIGINT, SIGTERM, SIGHUP, SIGCHLD}};  // before signals_: put back after it is gone
  asio::io_context context_;
  asio::signal_set signals_;
  asio::steady_timer step_, ticker_;
  RendezvousServer server_;
  std::vector<int> processes_;  ///< by rank; 0: ended
  std::vector<RankEnd> ends_;
  std::vector<std::shared_ptr<LineReader>> readers_;
  std::optional<RunFailure> late_;  ///< what went wrong after the run
  std::optional<TimePoint> over_since_, dead_since_;
  int interrupted_by_ = 0;  // a signal
};

}  // namespace

Result<RunEnd> launch_ranks(const std::vector<std::string>& command, const LaunchOptions& options) {
  if (command.empty()) return fail(ErrorKind::usage, "no command to launch");
  if (options.ranks == 0 || options.ranks > kMaxRanks)
    return fail(ErrorKind::usage,
                fmt::format("{} ranks on one host; 1 to {} can be launched", options.ranks, kMaxRanks));
  return Supervisor(command, options).run();
}

}  // namespace foreshard::gpu
