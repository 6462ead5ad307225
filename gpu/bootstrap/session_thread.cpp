#include "gpu/bootstrap/session_thread.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <boost/asio/connect.hpp>
#include <boost/asio/post.hpp>
#include <future>
#include <utility>

namespace foreshard::gpu {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr Milliseconds kLateThread{1000};    // lateness of this thread that is nobody else's silence
constexpr Milliseconds kIdleHeartbeat{500};  // between heartbeats that say nothing new
constexpr Milliseconds kTakeFailure{2'000};  // for the rendezvous to take this rank's failure
constexpr Milliseconds kDrain{1'000};        // for the others to hear the end from a rendezvous that is about to go
constexpr std::size_t kLongestWhat = 256;

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

}  // namespace

SessionThread::SessionThread(SessionOptions options)
    : options_(std::move(options)),
      work_(asio::make_work_guard(context_)),
      resolver_(context_),
      again_(context_),
      ticker_(context_),
      stuck_(context_),
      told_(context_),
      sigterm_(context_),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      last_tick_(std::chrono::steady_clock::now()) {}

/// From the variables; nothing where rank 0 of this host makes one.
Result<void> SessionThread::take_secret() {
  const Environment& e = options_.environment;
  if (e.secret_file.empty()) {
    if (!e.secret.empty()) key_.emplace(e.secret, e.run);
    return {};
  }
  const auto secret = read_secret_file(e.secret_file);
  FORESHARD_TRY(secret);
  key_.emplace(*secret, e.run);
  return {};
}

Result<void> SessionThread::open_server() {
  const Environment& e = options_.environment;
  server_ = std::make_unique<RendezvousServer>(context_, RendezvousOptions{.ranks = e.ranks,
                                                                           .port = e.port,
                                                                           .loopback_only = e.one_host(),
                                                                           .held_by_rank_0 = true,
                                                                           .timeouts = options_.timeouts});
  const auto port = server_->listen();
  FORESHARD_TRY(port);
  options_.environment.port = *port;
  if (!key_) {
    const std::string secret = random_secret();
    key_.emplace(secret, e.run);
    if (e.ranks > 1) {  // whoever finds the file under this port finds this run's: the port is taken
      auto published = HostSecret::publish(e.runtime_folder, *port, secret);
      FORESHARD_TRY(published);
      host_secret_.emplace(std::move(*published));
    }
  }
  server_->serve(*key_);
  return {};
}

Result<void> SessionThread::join() {
  FORESHARD_TRY(take_secret());
  if (holds_server())
    if (auto opened = open_server(); !opened) return opened;
  const TimePoint deadline = std::chrono::steady_clock::now() + options_.timeouts.join;
  if (options_.hear_sigterm && !server_elsewhere()) hear_sigterm();
  asio::post(context_, [this] { connect(); });
  thread_ = std::thread([this] { context_.run(); });
  std::unique_lock lock(mutex_);
  const auto known = [&] { return welcome_ || refused_ || failure_; };
  // The rendezvous itself names who is missing when the time is up; only where it cannot be had, this rank must.
  if (!changed_.wait_until(lock, deadline + options_.timeouts.silence, known)) return tl::unexpected(unreachable());
  if (failure_) return tl::unexpected(failure_->error());
  if (refused_) return tl::unexpected(*refused_);
  return {};
}

Error SessionThread::unreachable() const {
  const Environment& e = options_.environment;
  return {ErrorKind::rendezvous,
          fmt::format("rank {} cannot reach the rendezvous at {}:{} ({}) within {} s: {}", e.rank, e.address, e.port,
                      server_elsewhere() ? "the launcher" : "rank 0", options_.timeouts.join.count() / 1000,
                      last_trouble_.empty() ? "no answer" : last_trouble_),
          {},
          "is rank 0 running, is MASTER_ADDR its host, and may this host reach the port?"};
}

void SessionThread::connect() {
  const Environment& e = options_.environment;
  const std::string address = holds_server() ? "127.0.0.1" : e.address;
  resolver_.async_resolve(address, std::to_string(e.port), [this](error_code error, const auto& ends) {
    if (leaving_) return;
    if (error) return try_again(error.message());
    auto socket = std::make_shared<tcp::socket>(context_);
    auto timer = std::make_shared<asio::steady_timer>(context_, options_.timeouts.silence);
    timer->async_wait([socket](error_code stopped) {
      error_code ignored;
      if (!stopped) socket->close(ignored);
    });
    asio::async_connect(*socket, ends, [this, socket, timer](error_code failed, const tcp::endpoint&) {
      timer->cancel();
      if (leaving_) return;
      if (failed || !socket->is_open()) return try_again(failed ? failed.message() : "no answer in time");
      connected(std::move(*socket));
    });
  });
}

void SessionThread::try_again(const std::string& reason) {
  {
    const std::lock_guard lock(mutex_);
    last_trouble_ = reason;
    if (refused_ || failure_) return;
  }
  again_.expires_after(Milliseconds(100));
  again_.async_wait([this](error_code stopped) {
    if (!stopped && !leaving_) connect();
  });
}

void SessionThread::connected(tcp::socket socket) {
  prepare(socket);
  connection_ = std::make_shared<Connection>(std::move(socket));
  connection_->on_message = [this](const Message& message) { prove(message); };
  connection_->on_closed = [this](const std::string& reason) { closed(reason); };
  handshake_ = {};
  connection_->start();
  connection_->send(handshake_.greeting());
  // Until it is known who answers, a silence is no rank's: another connection may fare better.
  again_.expires_after(options_.timeouts.silence);
  again_.async_wait([this](error_code stopped) {
    if (stopped || leaving_ || handshake_.seals() || !connection_) return;
    connection_->close();
    closed("it accepts the connection and says nothing");
  });
}

/// Until both ends have proven that they know the secret. What does not belong to that is not of this run.
void SessionThread::prove(const Message& message) {
  const auto answer = handshake_.hear(message, [this] { return find_key(); });
  if (!answer) {
    const Error& e = answer.error();
    return not_ours(e.where.empty() ? e.what : e.where + ": " + e.what, e.hint);
  }
  if (*answer) return connection_->send(**answer);
  enter();
}

Result<Key> SessionThread::find_key() const {
  const Environment& e = options_.environment;
  if (key_) return *key_;
  const auto secret = HostSecret::find(e.runtime_folder, e.port);
  FORESHARD_TRY(secret);
  return Key(*secret, e.run);
}

void SessionThread::enter() {
  const Environment& e = options_.environment;
  again_.cancel();
  connection_->seal(*handshake_.seals());
  connection_->limit(kMaxRoundBytes + std::size_t{8} * e.ranks + 64);
  connection_->on_message = [this](Message message) { take(std::move(message)); };
  connection_->send(Hello{e.rank, e.ranks, e.local_rank, e.local_ranks, host_name(),
                          static_cast<std::uint64_t>(::getpid()), options_.settings});
  last_tick_ = std::chrono::steady_clock::now();
  heartbeat();
}

void SessionThread::not_ours(const std::string& why, std::string hint) {
  const Environment& e = options_.environment;
  if (hint.empty())
    hint =
        "another run or program may have this port: set FORESHARD_PORT on every rank; and the same FORESHARD_SECRET, "
        "or FORESHARD_SECRET_FILE";
  refuse({ErrorKind::rendezvous,
          fmt::format("what answers rank {} at {}:{} is not its run's rendezvous: {}", e.rank, e.address, e.port, why),
          {},
          std::move(hint)});
}

void SessionThread::refuse(Error error) {
  again_.cancel();
  if (connection_) connection_->close();
  connection_ = nullptr;
  const std::lock_guard lock(mutex_);
  if (!refused_) refused_ = std::move(error);
  changed_.notify_all();
}

void SessionThread::take(Message message) {
  answered_ = true;
  if (auto* heartbeat = std::get_if<ServerHeartbeat>(&message)) {
    server_operation_ = std::move(heartbeat->operation);
    return;
  }
  if (auto* abort_it = std::get_if<Abort>(&message)) return abort(std::move(abort_it->failure));
  const std::lock_guard lock(mutex_);
  if (std::holds_alternative<Welcome>(message)) {
    welcome_ = true;
    host_secret_.reset();  // every rank has it
  }
  if (std::holds_alternative<LeaveNotice>(message)) leave_notice_ = true;
  if (auto* refused = std::get_if<Refused>(&message)) {
    refused_ = std::move(refused->error);
    refused_->what = fmt::format("the rendezvous at {}:{} refused rank {}: {}", options_.environment.address,
                                 options_.environment.port, options_.environment.rank, refused_->what);
    refused_->hint = "another run with this secret may be using this port: set FORESHARD_PORT on every rank";
  }
  if (auto* gathered = std::get_if<Gathered>(&message)) gathered_ = std::move(*gathered);
  changed_.notify_all();
}

void SessionThread::closed(const std::string& reason) {
  ticker_.cancel();
  const bool garbage = connection_ && connection_->spoke_garbage();
  connection_ = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (leave_notice_ || failure_ || refused_ || leaving_) return;
  }
  // Not this run's so far: a rendezvous under a flood of connections, or one that is about to go; a new one may come.
  if (!handshake_.seals() && garbage) return not_ours(reason);
  if (!answered_) return try_again(reason.empty() ? "it closed the connection without an answer" : reason);
  RunFailure failure{ErrorKind::rank_lost, 0U, server_operation_, "died, or its rendezvous was cut", {}, {}};
  if (server_elsewhere() || options_.environment.rank == 0)
    failure = {ErrorKind::rendezvous, std::nullopt, {}, "the rendezvous was cut, or the launcher died", {}, {}};
  if (!reason.empty()) failure.cause += " (" + reason + ")";
  abort(std::move(failure));
}

void SessionThread::heartbeat() {
  const auto now = std::chrono::steady_clock::now();
  const auto& t = options_.timeouts;
  const auto late = std::chrono::duration_cast<Milliseconds>(now - last_tick_) - t.heartbeat;
  last_tick_ = now;
  if (!connection_) return;
  const LastOperation::Snapshot last = last_.get();
  if (last.progress != sent_progress_ || now - sent_heartbeat_ >= kIdleHeartbeat) {
    sent_progress_ = last.progress;
    sent_heartbeat_ = now;
    connection_->send(Heartbeat{last.progress, static_cast<std::uint64_t>(last.timeout.count()), last.text});
  }
  if (connection_ && late < kLateThread && now - connection_->heard() > t.silence && !aborted() && !over()) {
    RunFailure failure{ErrorKind::rank_hung, 0U, server_operation_, "has not been heard of", {}, {}};
    if (server_elsewhere()) failure = {ErrorKind::rendezvous, {}, {}, "the launcher has not been heard of", {}, {}};
    failure.cause += fmt::format(" for {:.1f} s: it is stopped, or its host or network is gone",
                                 static_cast<double>(t.silence.count()) / 1e3);
    abort(std::move(failure));
  }
  ticker_.expires_after(t.heartbeat);
  ticker_.async_wait([this](error_code stopped) {
    if (!stopped) heartbeat();
  });
}

void SessionThread::hear_sigterm() {
  saved_.emplace(std::vector{SIGTERM});
  sigterm_.add(SIGTERM);
  sigterm_.async_wait([this](error_code stopped, int) {
    if (!stopped) told_to_end();
  });
}

/// The launcher may know of a rank's end what the rendezvous is about to learn. Who learns nothing in time ends too. A
/// second SIGTERM, and one after the run, does what it did before.
void SessionThread::told_to_end() {
  error_code ignored;
  sigterm_.clear(ignored);
  saved_->restore();
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || refused_) return;  // it is ending
    if (leave_notice_) {
      ::kill(::getpid(), SIGTERM);
      return;
    }
  }
  const Error error{ErrorKind::interrupted,
                    "was told to end by signal 15 (SIGTERM)",
                    {},
                    "launchers end the ranks when one of them has ended: its status is in the launcher's output"};
  const std::string operation = last_.get().text;
  if (connection_ && handshake_.seals()) connection_->send(Failed{error, operation});
  told_.expires_after(kTakeFailure);
  told_.async_wait([this, error, operation](error_code stopped) {
    if (!stopped) abort({error.kind, options_.environment.rank, operation, error.what, {}, error.hint});
  });
}

void SessionThread::abort(RunFailure failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_ || leave_notice_) return;
    failure_ = failure;
    aborted_.store(true, std::memory_order_release);
    changed_.notify_all();
    // Their own thread: a callback that waits for a driver must not keep the others from hearing of the end.
    aborter_ = std::thread([this, failure] { run_callbacks(failure); });
  }
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto woken = ::write(wake_.get(), &one, sizeof one);
  if (!options_.on_stuck) return;
  stuck_.expires_after(options_.timeouts.grace);
  stuck_.async_wait([this, failure = std::move(failure)](error_code stopped) {
    if (!stopped) options_.on_stuck(failure);
  });
}

void SessionThread::run_callbacks(const RunFailure& failure) {
  std::vector<std::function<void(const RunFailure&)>> callbacks;
  {
    const std::lock_guard lock(mutex_);
    callbacks.swap(callbacks_);
  }
  for (const auto& callback : callbacks) callback(failure);
}

void SessionThread::on_abort(std::function<void(const RunFailure&)> callback) {
  std::unique_lock lock(mutex_);
  if (!failure_) return callbacks_.push_back(std::move(callback));
  const RunFailure failure = *failure_;
  lock.unlock();
  callback(failure);
}

std::optional<RunFailure> SessionThread::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

bool SessionThread::over() const {
  const std::lock_guard lock(mutex_);
  return leave_notice_ || failure_ || refused_ || !welcome_;
}

std::string SessionThread::unauthenticated() {
  if (!server_ || !thread_.joinable()) return {};
  std::promise<std::string> answer;
  asio::post(context_, [&] { answer.set_value(server_->unauthenticated().text()); });
  return answer.get_future().get();
}

Result<std::vector<std::string>> SessionThread::gather(std::string_view what, std::string_view bytes) {
  if (bytes.size() > kMaxShareBytes)
    return tl::unexpected(fail_run({ErrorKind::usage,
                                    fmt::format("'{}' brings {} bytes; at most {}", what, bytes.size(), kMaxShareBytes),
                                    {},
                                    {}}));
  std::unique_lock lock(mutex_);
  if (failure_) return tl::unexpected(failure_->error());
  gathered_.reset();
  const std::uint64_t sequence = sequence_++;
  asio::post(context_, [this, frame = std::make_shared<const std::string>(encode(
                                  Enter{sequence, std::string(what.substr(0, kLongestWhat)), std::string(bytes)}))] {
    if (connection_) connection_->send(frame);
  });
  changed_.wait(lock, [&] { return failure_ || (gathered_ && gathered_->sequence == sequence); });
  if (failure_) return tl::unexpected(failure_->error());
  auto shares = std::move(gathered_->bytes);
  lock.unlock();
  last_.set(fmt::format("after '{}'", what), Milliseconds::zero());
  return shares;
}

Error SessionThread::fail_run(const Error& error) {
  std::unique_lock lock(mutex_);
  if (failure_) return failure_->error();
  asio::post(context_, [this, error] {
    if (connection_) connection_->send(Failed{error, last_.get().text});
  });
  changed_.wait_for(lock, kTakeFailure, [&] { return failure_.has_value(); });
  return failure_ ? failure_->error() : error;
}

Result<void> SessionThread::finish() {
  std::unique_lock lock(mutex_);
  asio::post(context_, [this] {
    if (connection_) connection_->send(Finish{});
  });
  changed_.wait(lock, [&] { return failure_ || leave_notice_; });
  if (failure_) return tl::unexpected(failure_->error());
  return {};
}

/// The rendezvous goes with this rank: lets the others hear of the end first.
void SessionThread::drain() {
  const TimePoint deadline = std::chrono::steady_clock::now() + kDrain;
  bool empty = false;
  while (!empty && std::chrono::steady_clock::now() < deadline) {
    std::promise<bool> answer;
    asio::post(context_, [&] {
      if (connection_) connection_->close();
      connection_ = nullptr;
      answer.set_value(server_->nobody_but(0));
    });
    empty = answer.get_future().get();
    if (!empty) std::this_thread::sleep_for(Milliseconds(10));
  }
}

SessionThread::~SessionThread() {
  if (thread_.joinable()) {
    if (server_ && (leave_notice_ || failure_)) drain();
    if (aborter_.joinable()) aborter_.join();
    asio::post(context_, [this] {
      leaving_ = true;
      again_.cancel();
      ticker_.cancel();
      stuck_.cancel();
      told_.cancel();
      sigterm_.cancel();
      resolver_.cancel();
      if (connection_) connection_->close_when_sent();
      host_secret_.reset();  // while the port is this run's
      if (server_) server_->close();
      work_.reset();
      context_.stop();
    });
    thread_.join();
  }
  if (aborter_.joinable()) aborter_.join();
}

}  // namespace foreshard::gpu
