// One connection of a browser: reads requests, one after the other, and writes answers. Used by server.cpp.
//
// Everything happens on the thread of the io_context but the making of an answer, which the server hands to its own
// threads.
#pragma once

#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <functional>
#include <memory>
#include <optional>

#include "viz/serve/server.hpp"

namespace foreshard::viz {

class HttpConnection : public std::enable_shared_from_this<HttpConnection> {
 public:
  using Request = boost::beast::http::request<boost::beast::http::string_body>;
  using Time = std::chrono::steady_clock::time_point;
  /// What the server does for a connection.
  struct Host {
    std::uint16_t port = 0;
    ServerOptions options;
    /// Makes the answer elsewhere and calls `then` on the io_context's thread.
    std::function<void(Asked asked, std::string body, std::function<void(Answer)> then)> make;
    std::function<void(HttpConnection*)> gone;
  };

  HttpConnection(boost::asio::ip::tcp::socket socket, const Host& host) : stream_(std::move(socket)), host_(host) {}

  void start();
  void close();
  /// Waits for a request, since when.
  [[nodiscard]] std::optional<Time> idle() const { return idle_since_; }

 private:
  using Response = boost::beast::http::response<boost::beast::http::string_body>;

  void read(std::chrono::milliseconds patience);
  void take(Request request);
  void send(Answer answer);
  void refuse(unsigned status, const std::string& what);

  boost::beast::tcp_stream stream_;
  const Host& host_;
  boost::beast::flat_buffer buffer_{64 << 10};
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  std::optional<Time> idle_since_;
  bool keep_alive_ = false, head_ = false, closed_ = false;
  std::shared_ptr<Response> response_;
};

}  // namespace foreshard::viz
