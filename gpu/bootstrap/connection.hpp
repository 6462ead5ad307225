// One TCP connection that carries messages: both ends of it, rendezvous_server.cpp's and
// session_thread.cpp's.
//
// Everything happens on the thread of the io_context. Holds itself alive while it is open. What arrives is bounded by
// the frame limit, what waits to be sent by kMaxWaitingBytes: a peer that does not read loses its connection. Until
// seal() is called messages go both ways without seals, and a message is short (kMaxUnauthenticatedBytes).
#pragma once

#include <array>
#include <boost/asio/ip/tcp.hpp>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "gpu/bootstrap/liveness_monitor.hpp"
#include "gpu/bootstrap/message.hpp"

namespace foreshard::gpu {

inline constexpr std::size_t kMaxWaitingBytes = std::size_t{2} << 30;

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  using Socket = boost::asio::ip::tcp::socket;

  explicit Connection(Socket socket) : socket_(std::move(socket)) {}

  /// A message came. May close the connection.
  std::function<void(Message message)> on_message;
  /// It ended, once, with why: an empty text where the other end closed it. Not after close().
  std::function<void(const std::string& reason)> on_closed;

  /// Begins to read. Set the callbacks first.
  void start();
  void send(std::shared_ptr<const std::string> frame);
  void send(const Message& message) { send(std::make_shared<const std::string>(encode(message))); }
  /// At once; what waits to be sent is lost. The callbacks are never called again.
  void close();
  /// After what waits is sent. Nothing more is read.
  void close_when_sent();

  void limit(std::size_t payload_bytes) { reader_.limit(payload_bytes); }
  /// Both ends have proven themselves: what is sent and what is read from here on carries a seal.
  void seal(const Seals& seals) {
    outgoing_ = seals.outgoing;
    reader_.expect(seals.incoming);
  }
  /// Bytes that are no message are answered with Unproven before the connection ends, until it is sealed.
  void answer_garbage() { answers_garbage_ = true; }
  /// It ended because the other end sent what is no message.
  [[nodiscard]] bool spoke_garbage() const { return garbage_; }
  /// When the last bytes came, whole message or not: a large one on a slow link is a sign of life.
  [[nodiscard]] TimePoint heard() const { return heard_; }
  [[nodiscard]] TimePoint since() const { return since_; }
  [[nodiscard]] bool open() const { return socket_.is_open(); }
  /// "10.0.0.3"; an IPv4 address as such, also where it came to an IPv6 socket.
  [[nodiscard]] std::string address() const;
  /// "10.0.0.3:41234"
  [[nodiscard]] std::string peer() const;

 private:
  struct Outgoing {
    std::shared_ptr<const std::string> frame;
    std::optional<Block> seal;

    [[nodiscard]] std::size_t size() const { return frame->size() + (seal ? seal->size() : 0); }
  };

  void read();
  void write();
  void take();
  void garbage(Error error);
  void end(const std::string& reason);

  Socket socket_;
  FrameReader reader_;
  std::array<char, 64 << 10> buffer_;
  std::optional<Seal> outgoing_;
  std::deque<Outgoing> waiting_;
  std::size_t waiting_bytes_ = 0;
  bool closing_ = false;
  bool answers_garbage_ = false;
  bool garbage_ = false;
  TimePoint since_ = std::chrono::steady_clock::now();
  TimePoint heard_ = since_;
};

/// Options of a connected socket: no delay for small messages, not inherited by programs that this one starts.
void prepare(Connection::Socket& socket);

}  // namespace foreshard::gpu
