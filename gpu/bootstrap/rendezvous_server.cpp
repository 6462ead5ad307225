#include "gpu/bootstrap/rendezvous_server.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/socket.h>

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <map>
#include <utility>

#include "gpu/bootstrap/agreement.hpp"

namespace foreshard::gpu {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

/// Connections without a proof at one time. Ranks prove theirs at once; when there are more, the oldest goes of the
/// address that has the most, so that a flood from one host displaces itself.
constexpr std::size_t kMaxNewcomers = 256;
/// The watcher's own lateness that counts as a pause (a stopped process, a sleeping machine).
constexpr Milliseconds kPause{1000};

error_code open_on(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  error_code error;
  acceptor.close(error);
  const auto go = [&](auto step) {
    if (!error) step();
  };
  error.clear();
  go([&] { acceptor.open(endpoint.protocol(), error); });
  go([&] { ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC); });
  go([&] { acceptor.set_option(asio::socket_base::reuse_address(true), error); });
  if (endpoint.protocol() == tcp::v6()) go([&] { acceptor.set_option(asio::ip::v6_only(false), error); });
  go([&] { acceptor.bind(endpoint, error); });
  go([&] { acceptor.listen(asio::socket_base::max_listen_connections, error); });
  return error;
}

}  // namespace

RendezvousServer::RendezvousServer(asio::io_context& context, const RendezvousOptions& options)
    : options_(options),
      acceptor_(context),
      ticker_(context),
      settle_(context),
      accept_again_(context),
      members_(options_.ranks),
      hellos_(options_.ranks),
      monitor_(options_.ranks, options_.timeouts, std::chrono::steady_clock::now()),
      round_(options_.ranks),
      last_tick_(std::chrono::steady_clock::now()) {}

Result<std::uint16_t> RendezvousServer::listen() {
  error_code error;
  if (options_.loopback_only) {
    error = open_on(acceptor_, {asio::ip::address_v4::loopback(), options_.port});
  } else {
    error = open_on(acceptor_, {asio::ip::address_v6::any(), options_.port});  // both families
    if (error == asio::error::address_family_not_supported)
      error = open_on(acceptor_, {asio::ip::address_v4::any(), options_.port});
  }
  if (error)
    return fail(ErrorKind::rendezvous,
                fmt::format("the rendezvous cannot listen on port {}: {}", options_.port, error.message()), {},
                "set FORESHARD_PORT to a free port on every rank");
  return acceptor_.local_endpoint(error).port();
}

void RendezvousServer::serve(Key key) {
  key_ = key;
  accept();
  tick();
}

void RendezvousServer::accept() {
  acceptor_.async_accept([this](error_code error, tcp::socket socket) {
    if (!acceptor_.is_open()) return;
    if (!error) {
      prepare(socket);
      accept_newcomer(std::make_shared<Connection>(std::move(socket)));
      return accept();
    }
    // Out of descriptors, mostly: connections without a proof time out, then there are some again.
    accept_again_.expires_after(options_.timeouts.heartbeat);
    accept_again_.async_wait([this](error_code stopped) {
      if (!stopped) accept();
    });
  });
}

void RendezvousServer::accept_newcomer(const Peer& peer) {
  if (newcomers_.size() >= kMaxNewcomers) make_room();
  const auto newcomer = newcomers_.insert(newcomers_.end(), {peer, peer->address(), {}});
  peer->answer_garbage();
  // Gone from the list with its callbacks: take_off() and admit().
  peer->on_message = [this, newcomer](Message message) { hear(newcomer, std::move(message)); };
  peer->on_closed = [this, newcomer](const std::string& reason) {
    take_off(newcomer, reason.empty() ? "it closed the connection before it had proven itself" : reason);
  };
  peer->start();
}

void RendezvousServer::make_room() {
  std::map<std::string_view, std::size_t> of;
  for (const Newcomer& newcomer : newcomers_) ++of[newcomer.address];
  const auto most = std::max_element(newcomers_.begin(), newcomers_.end(), [&](const Newcomer& a, const Newcomer& b) {
    return of[a.address] < of[b.address];  // of equals the first, which is the oldest
  });
  take_off(most, "too many others came before it had proven itself")->close();
}

void RendezvousServer::hear(Newcomers::iterator newcomer, Message message) {
  if (newcomer->proven()) {
    auto* said = std::get_if<Hello>(&message);
    return said != nullptr ? hello(newcomer, std::move(*said))
                           : turn_away(newcomer, "its first message was not a hello");
  }
  const auto answer = newcomer->handshake.hear(message, *key_);
  if (!answer) return turn_away(newcomer, answer.error().what);
  newcomer->peer->send(*answer);
  if (!newcomer->proven()) return;
  newcomer->peer->seal(*newcomer->handshake.seals());
  newcomer->peer->limit(kMaxHelloBytes);
}

RendezvousServer::Peer RendezvousServer::take_off(Newcomers::iterator newcomer, std::string why) {
  Peer peer = newcomer->peer;
  ++refused_;
  last_refused_ = fmt::format("{}: {}", newcomer->address, why);
  if (!newcomer->proven()) unauthenticated_.add(newcomer->address);
  peer->on_message = nullptr;
  peer->on_closed = nullptr;
  newcomers_.erase(newcomer);
  return peer;
}

void RendezvousServer::turn_away(Newcomers::iterator newcomer, std::string why) {
  const bool proven = newcomer->proven();
  const Peer peer = take_off(newcomer, why);
  if (proven)
    peer->send(Refused{{ErrorKind::rendezvous, std::move(why), {}, {}}});
  else
    peer->send(Unproven{});
  peer->close_when_sent();
}

void RendezvousServer::hello(Newcomers::iterator newcomer, Hello hello) {
  auto wrong = failure_ ? failure_ : check_numbers(hello, options_.ranks);
  if (wrong) {
    const Peer peer = newcomer->peer;
    newcomers_.erase(newcomer);
    peer->on_message = nullptr;
    peer->on_closed = nullptr;
    peer->send(Abort{*wrong});
    peer->close_when_sent();
    return attribute_failure(std::move(*wrong));
  }
  if (monitor_.has_joined(hello.rank)) {
    const Hello& other = hellos_[hello.rank];
    return turn_away(newcomer,
                     fmt::format("rank {} is here already: process {} on {}", hello.rank, other.process, other.host));
  }
  admit(newcomer, std::move(hello));
}

void RendezvousServer::admit(Newcomers::iterator newcomer, Hello hello) {
  const std::uint32_t rank = hello.rank;
  const Peer peer = newcomer->peer;
  newcomers_.erase(newcomer);
  members_[rank] = peer;
  hellos_[rank] = std::move(hello);
  peer->limit(kMaxShareBytes + (64 << 10));
  peer->on_message = [this, rank](Message message) { take(rank, std::move(message)); };
  peer->on_closed = [this, rank](const std::string& reason) { lost(rank, reason); };
  monitor_.joined(rank, std::chrono::steady_clock::now());
  if (!monitor_.all_joined()) return;
  if (auto wrong = first_disagreement(hellos_)) return attribute_failure(std::move(*wrong));
  send_to_all(Welcome{});
}

void RendezvousServer::take(std::uint32_t rank, Message message) {
  const auto now = std::chrono::steady_clock::now();
  if (auto* heartbeat = std::get_if<Heartbeat>(&message)) {
    const auto timeout = std::min<std::uint64_t>(heartbeat->timeout_ms, 86'400'000);
    monitor_.heartbeat(rank, heartbeat->progress, Milliseconds(timeout), std::move(heartbeat->operation), now);
  } else if (auto* said = std::get_if<Enter>(&message)) {
    enter(rank, std::move(*said));
  } else if (auto* failed = std::get_if<Failed>(&message)) {
    Error& e = failed->error;
    if (e.kind == ErrorKind::interrupted && !monitor_.all_joined())
      return attribute_failure(monitor_.absent(fmt::format("before rank {} {}", rank, e.what)));
    const bool itself = e.kind == ErrorKind::rank_lost || e.kind == ErrorKind::interrupted;
    std::string cause = itself ? std::move(e.what) : "failed: " + e.what;
    attribute_failure(
        {e.kind, rank, std::move(failed->operation), std::move(cause), std::move(e.where), std::move(e.hint)});
  } else if (std::holds_alternative<Finish>(message)) {
    finish(rank);
  } else {
    attribute_failure({ErrorKind::rendezvous,
                       rank,
                       monitor_.operation(rank),
                       "sent a message that only the rendezvous server sends",
                       {},
                       {}});
  }
}

void RendezvousServer::enter(std::uint32_t rank, Enter enter) {
  const auto now = std::chrono::steady_clock::now();
  if (!monitor_.all_joined())
    return attribute_failure({ErrorKind::rendezvous, rank, enter.what, "did not wait for the others", {}, {}});
  monitor_.waits(rank, enter.what, now);
  if (auto wrong = round_.enter(rank, std::move(enter))) return attribute_failure(std::move(*wrong));
  if (!round_.complete()) return;
  monitor_.met(now);
  send_to_all(round_.take());
}

void RendezvousServer::finish(std::uint32_t rank) {
  monitor_.finished(rank);
  if (monitor_.all_finished() && !failure_) send_to_all(LeaveNotice{});
}

void RendezvousServer::lost(std::uint32_t rank, const std::string& reason) {
  members_[rank] = nullptr;
  if (failure_ || finished()) return;
  std::string cause = reason.empty() ? "died: its connection closed" : "is gone: " + reason;
  attribute_failure({ErrorKind::rank_lost, rank, monitor_.operation(rank), std::move(cause), {}, {}});
}

void RendezvousServer::send_to_all(const Message& message) {
  const auto frame = std::make_shared<const std::string>(encode(message));
  for (const Peer& member : std::vector<Peer>(members_))  // a send may lose a member
    if (member) member->send(frame);
}

void RendezvousServer::tick() {
  const auto now = std::chrono::steady_clock::now();
  const auto& t = options_.timeouts;
  const auto late = std::chrono::duration_cast<Milliseconds>(now - last_tick_) - t.heartbeat;
  last_tick_ = now;
  if (late > kPause) monitor_.paused(late);
  for (std::uint32_t rank = 0; rank < members_.size(); ++rank)
    if (members_[rank] && late <= kPause) monitor_.heard(rank, members_[rank]->heard());
  while (!newcomers_.empty() && now - newcomers_.front().peer->since() > t.silence)
    take_off(newcomers_.begin(), "it did not prove itself in time")->close();
  if (!failure_ && !finished()) {
    send_to_all(ServerHeartbeat{options_.held_by_rank_0 ? monitor_.operation(0) : ""});
    if (auto overdue = monitor_.overdue(now)) attribute_failure(std::move(*overdue));
  }
  ticker_.expires_after(t.heartbeat);
  ticker_.async_wait([this](error_code stopped) {
    if (!stopped) tick();
  });
}

void RendezvousServer::attribute_failure(RunFailure failure) {
  if (failure_ || finished()) return;
  if (failure.rank && failure.operation.empty() && *failure.rank < options_.ranks)
    failure.operation = monitor_.operation(*failure.rank);
  complete_missing(failure);
  failure_report_.add(std::move(failure));
  trouble();
}

void RendezvousServer::rank_ended(std::uint32_t rank, RunFailure failure) {
  if (failure_ || finished()) return;
  failure.operation = monitor_.operation(rank);
  complete_missing(failure);
  failure_report_.add_end_of_process(std::move(failure));
  trouble();
}

void RendezvousServer::complete_missing(RunFailure& failure) const {
  const bool never_came = failure.rank && *failure.rank < options_.ranks && !monitor_.has_joined(*failure.rank);
  if (failure.kind != ErrorKind::rendezvous || !never_came || refused_ == 0) return;
  failure.cause += fmt::format("; {} other connections were refused, the last: {}", refused_, last_refused_);
}

void RendezvousServer::trouble() {
  if (failure_report_.certain()) return end_run();
  if (settling_) return;
  settling_ = true;
  settle_.expires_after(options_.timeouts.settle);
  settle_.async_wait([this](error_code stopped) {
    if (!stopped) end_run();
  });
}

void RendezvousServer::end_run() {
  if (failure_) return;
  failure_ = failure_report_.best();
  send_to_all(Abort{*failure_});
  if (on_failure) on_failure(*failure_);
}

bool RendezvousServer::nobody_but(std::uint32_t rank) const {
  for (std::uint32_t i = 0; i < members_.size(); ++i)
    if (i != rank && members_[i]) return false;
  return true;
}

void RendezvousServer::close() {
  error_code ignored;
  acceptor_.close(ignored);
  ticker_.cancel();
  settle_.cancel();
  accept_again_.cancel();
  for (const Newcomer& newcomer : newcomers_) newcomer.peer->close();
  for (const Peer& member : members_)
    if (member) member->close();
  newcomers_.clear();
}

}  // namespace foreshard::gpu
