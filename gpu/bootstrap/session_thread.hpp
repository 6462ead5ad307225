// A session's background thread: the connection to the rendezvous, the heartbeats, the end of the run. Used by
// session.cpp alone; everything public is called from the rank's own threads.
#pragma once

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "gpu/bootstrap/connection.hpp"
#include "gpu/bootstrap/descriptor.hpp"
#include "gpu/bootstrap/handshake.hpp"
#include "gpu/bootstrap/last_operation.hpp"
#include "gpu/bootstrap/proof.hpp"
#include "gpu/bootstrap/rendezvous_server.hpp"
#include "gpu/bootstrap/saved_signals.hpp"
#include "gpu/bootstrap/secret_file.hpp"
#include "gpu/bootstrap/session.hpp"

namespace foreshard::gpu {

class SessionThread {
 public:
  explicit SessionThread(SessionOptions options);
  ~SessionThread();
  SessionThread(const SessionThread&) = delete;
  SessionThread& operator=(const SessionThread&) = delete;

  /// Starts the thread; returns when all ranks have come and agree.
  [[nodiscard]] Result<void> join();
  /// Sends a share of the next collective call and waits for all of them.
  [[nodiscard]] Result<std::vector<std::string>> gather(std::string_view what, std::string_view bytes);
  [[nodiscard]] Error fail_run(const Error& error);
  [[nodiscard]] Result<void> finish();
  void on_abort(std::function<void(const RunFailure&)> callback);
  [[nodiscard]] std::string unauthenticated();

  [[nodiscard]] const SessionOptions& options() const { return options_; }
  [[nodiscard]] LastOperation& last_operation() { return last_; }
  [[nodiscard]] bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  [[nodiscard]] std::optional<RunFailure> failure() const;
  /// Nothing more is expected of this session: it finished, failed, or was never let in.
  [[nodiscard]] bool over() const;
  /// Readable once the run failed.
  [[nodiscard]] int wake() const { return wake_.get(); }

 private:
  [[nodiscard]] Result<void> take_secret();
  [[nodiscard]] Result<void> open_server();

  // On the background thread.
  void connect();
  void connected(boost::asio::ip::tcp::socket socket);
  void try_again(const std::string& reason);
  void prove(const Message& message);
  [[nodiscard]] Result<Key> find_key() const;
  void enter();
  void not_ours(const std::string& why, std::string hint = {});
  void refuse(Error error);
  void take(Message message);
  void closed(const std::string& reason);
  void heartbeat();
  void hear_sigterm();
  void told_to_end();
  void abort(RunFailure failure);
  void run_callbacks(const RunFailure& failure);
  void drain();

  [[nodiscard]] Error unreachable() const;
  [[nodiscard]] bool holds_server() const { return options_.environment.rank == 0 && !server_elsewhere(); }
  [[nodiscard]] bool server_elsewhere() const { return options_.environment.launcher_holds_rendezvous; }

  SessionOptions options_;
  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
  boost::asio::ip::tcp::resolver resolver_;
  boost::asio::steady_timer again_, ticker_, stuck_, told_;
  std::optional<SavedSignals> saved_;  // before sigterm_: put back after it is gone
  boost::asio::signal_set sigterm_;
  std::optional<Key> key_;  ///< none where rank 0 makes the host's secret, and this is another rank
  std::optional<HostSecret> host_secret_;
  std::unique_ptr<RendezvousServer> server_;
  std::shared_ptr<Connection> connection_;
  LastOperation last_;
  OwnedDescriptor wake_;
  std::atomic<bool> aborted_{false};

  // Of the background thread alone.
  std::uint64_t sent_progress_ = 0;
  TimePoint sent_heartbeat_, last_tick_;
  std::string server_operation_;
  RankHandshake handshake_;  ///< of this connection
  bool answered_ = false;    ///< the rendezvous said something after its proof
  bool leaving_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  bool welcome_ = false, leave_notice_ = false;
  std::optional<Error> refused_;
  std::string last_trouble_;  ///< why the last attempt to connect failed
  std::optional<RunFailure> failure_;
  std::optional<Gathered> gathered_;
  std::vector<std::function<void(const RunFailure&)>> callbacks_;
  std::uint64_t sequence_ = 0;

  std::thread thread_, aborter_;
};

}  // namespace foreshard::gpu
