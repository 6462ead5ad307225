// One connection of a browser: reads requests, one after the other, and writes answers. Used by server.cpp.
//
// Everything happens on the thread of the io_context but the making of an answer, which the server hands to its own
// threads.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "viz/serve/server.hpp"

namespace foreshard::viz {

class HttpConnection {
 public:
  using Time = std::chrono::steady_clock::time_point;
  /// What the server does for a connection.
  struct Host {
    std::uint16_t port = 0;
    ServerOptions options;
    /// Makes the answer elsewhere and calls `then` on the io_context's thread.
    std::function<void(Asked asked, std::string body, std::function<void(Answer)> then)> make;
    std::function<void(HttpConnection*)> gone;
  };

  virtual ~HttpConnection() = default;
  virtual void start() = 0;
  virtual void close() = 0;
  /// Waits for a request, since when.
  [[nodiscard]] virtual std::optional<Time> idle() const = 0;
};

/// A connection that was accepted; `host` outlives it. Boost.Beast stays behind it, in one source.
[[nodiscard]] std::shared_ptr<HttpConnection> make_connection(boost::asio::ip::tcp::socket socket,
                                                              const HttpConnection::Host& host);

}  // namespace foreshard::viz
