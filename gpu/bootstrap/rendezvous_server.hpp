// The rendezvous: where the ranks of one run meet, exchange bytes and learn of each other's end.
//
// Held by rank 0's session (torchrun, Slurm, MPI) or by foreshard's own launcher. Listens on TCP; a connection that
// does not prove in time that it knows the run's secret (proof.hpp) learns nothing, is dropped and counted, and harms
// nobody: what it sends beside its proof is not looked at. Everything happens on the thread of the io_context.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "gpu/bootstrap/connection.hpp"
#include "gpu/bootstrap/failure_report.hpp"
#include "gpu/bootstrap/handshake.hpp"
#include "gpu/bootstrap/liveness_monitor.hpp"
#include "gpu/bootstrap/message.hpp"
#include "gpu/bootstrap/proof.hpp"
#include "gpu/bootstrap/round.hpp"
#include "gpu/bootstrap/unauthenticated_count.hpp"

namespace foreshard::gpu {

struct RendezvousOptions {
  std::uint32_t ranks = 1;
  std::uint16_t port = 0;      ///< 0: any free one
  bool loopback_only = true;   ///< all ranks are on this host
  bool held_by_rank_0 = true;  ///< its death is the rendezvous's, so the others are told what it does
  Timeouts timeouts;
};

class RendezvousServer {
 public:
  RendezvousServer(boost::asio::io_context& context, const RendezvousOptions& options);
  RendezvousServer(const RendezvousServer&) = delete;
  RendezvousServer& operator=(const RendezvousServer&) = delete;

  /// The run failed: told once, when the ranks have been told. May be empty.
  std::function<void(const RunFailure& failure)> on_failure;

  /// Takes the port and returns it; whoever connects waits. Errors: `rendezvous`, when the port cannot be had.
  [[nodiscard]] Result<std::uint16_t> listen();
  /// Lets those in who prove that they know `key`.
  void serve(Key key);

  /// What the launcher knows of a rank beyond its connection.
  void attribute_failure(RunFailure failure);
  void rank_ended(std::uint32_t rank, RunFailure failure);

  [[nodiscard]] const std::optional<RunFailure>& failure() const { return failure_; }
  /// Every rank called finish().
  [[nodiscard]] bool finished() const { return monitor_.all_finished(); }
  [[nodiscard]] const LivenessMonitor& monitor() const { return monitor_; }
  /// Connections that proved nothing so far.
  [[nodiscard]] const UnauthenticatedCount& unauthenticated() const { return unauthenticated_; }
  /// Every other rank's connection has ended, after it was sent all that it is to hear.
  [[nodiscard]] bool nobody_but(std::uint32_t rank) const;
  /// Closes everything. The rendezvous server must outlive the io_context's handlers or be closed before it goes.
  void close();

 private:
  using Peer = std::shared_ptr<Connection>;

  /// A connection that is no rank's yet.
  struct Newcomer {
    Peer peer;
    std::string address;
    RendezvousHandshake handshake;

    [[nodiscard]] bool proven() const { return handshake.seals().has_value(); }
  };
  using Newcomers = std::list<Newcomer>;

  void accept();
  void accept_newcomer(const Peer& peer);
  void make_room();
  void hear(Newcomers::iterator newcomer, Message message);
  void hello(Newcomers::iterator newcomer, Hello hello);
  void turn_away(Newcomers::iterator newcomer, std::string why);
  /// Forgets it, counted as refused; its connection is the caller's to end.
  Peer take_off(Newcomers::iterator newcomer, std::string why);
  void admit(Newcomers::iterator newcomer, Hello hello);
  void take(std::uint32_t rank, Message message);
  void enter(std::uint32_t rank, Enter enter);
  void finish(std::uint32_t rank);
  void lost(std::uint32_t rank, const std::string& reason);
  void send_to_all(const Message& message);
  void tick();
  void trouble();
  void end_run();
  void complete_missing(RunFailure& failure) const;

  RendezvousOptions options_;
  boost::asio::ip::tcp::acceptor acceptor_;
  boost::asio::steady_timer ticker_, settle_, accept_again_;
  std::optional<Key> key_;
  Newcomers newcomers_;        ///< the oldest first
  std::vector<Peer> members_;  ///< by rank; null before it came and after it left
  std::vector<Hello> hellos_;
  LivenessMonitor monitor_;
  Round round_;
  FailureReport failure_report_;
  std::optional<RunFailure> failure_;
  bool settling_ = false;
  UnauthenticatedCount unauthenticated_;
  std::uint64_t refused_ = 0;  ///< connections that became no rank's, strangers' among them
  std::string last_refused_;   ///< and why, of the last
  TimePoint last_tick_;
};

}  // namespace foreshard::gpu
