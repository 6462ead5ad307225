// Programs that are no rank: what speaks to a rendezvous, or answers a rank, with the protocol's own messages or with
// any bytes, with the run's secret or without. Used by the tests of this folder.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "gpu/bootstrap/descriptor.hpp"
#include "gpu/bootstrap/message.hpp"
#include "gpu/bootstrap/timeouts.hpp"

namespace foreshard::gpu::testing {

/// A connection to a port of the loopback, once somebody listens there; from 127.0.0.`from`.
[[nodiscard]] OwnedDescriptor connect_to(std::uint16_t port, std::uint32_t from = 1);

class Listener {
 public:
  Listener();
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// The next connection; none within `timeout`.
  [[nodiscard]] OwnedDescriptor accept(Milliseconds timeout = Milliseconds(5'000)) const;
  void close() { socket_.reset(); }

 private:
  OwnedDescriptor socket_;
  std::uint16_t port_ = 0;
};

/// One end of a connection.
class Wire {
 public:
  explicit Wire(OwnedDescriptor socket) : socket_(std::move(socket)) { reader_.limit(kMaxHelloBytes); }

  void send_bytes(std::string_view bytes) const;
  void send(const Message& message);
  /// The next message; none where the other end closed the connection, sent no message, or is silent for `timeout`.
  [[nodiscard]] std::optional<Message> receive(Milliseconds timeout = Milliseconds(3'000));
  template <class T>
  [[nodiscard]] std::optional<T> receive_one(Milliseconds timeout = Milliseconds(3'000)) {
    auto message = receive(timeout);
    if (!message || !std::holds_alternative<T>(*message)) return std::nullopt;
    return std::get<T>(std::move(*message));
  }
  /// Proves itself as `role` to the other end, which must do the same; from then on messages are sealed.
  [[nodiscard]] bool prove(Role role, const Key& key);
  void close() { socket_.reset(); }

 private:
  OwnedDescriptor socket_;
  FrameReader reader_;
  std::optional<Seal> seal_;
};

/// Stands between ranks and a rendezvous: passes bytes on, keeps those of the ranks, and may change one.
class Relay {
 public:
  /// The byte to change, counted from the connection's first; of none where `at` is negative.
  struct Change {
    std::ptrdiff_t at = -1;
    bool to_rank = false;  ///< in what the rendezvous sends; else in what the rank sends
  };

  Relay(std::uint16_t rendezvous, Change change);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] std::uint16_t port() const { return listener_.port(); }
  /// What the ranks sent so far, by connection.
  [[nodiscard]] std::vector<std::string> recorded() const;

 private:
  void pass(std::size_t connection, int from, int to, bool to_rank);

  Listener listener_;
  Change change_;
  std::atomic<bool> over_{false};
  mutable std::mutex mutex_;
  std::vector<std::string> recorded_;
  std::thread taker_;
};

}  // namespace foreshard::gpu::testing
