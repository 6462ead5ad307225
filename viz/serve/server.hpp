// The local server behind `foreshard serve`: HTTP/1.1 on the loopback, for the browser of the person who started it.
//
// What it refuses or bounds: hosts, origins and sites that are not its own (request.hpp); methods other than GET, HEAD
// and POST of a question; heads above 8 KiB, bodies above 64 KiB; a request or an answer that takes longer than its
// time; connections above `connections`, where the one that is idle longest goes; questions in SQL above
// `questions` at a time. A browser that goes away takes nothing with it.
//
// run() serves on the calling thread, with a few threads behind it that read and answer; reports, which simulate, have
// threads of their own, and are made once for all who ask meanwhile. stop() may be called from any
// thread; SIGINT and SIGTERM do the same where `signals` is set, and have their default actions after run().
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "core/base/error.hpp"
#include "viz/serve/content.hpp"

namespace foreshard::viz {

struct ServerOptions {
  std::uint16_t port = 0;  ///< 0: any free one
  bool signals = false;
  std::size_t connections = 256;
  std::size_t questions = 8;                       ///< in SQL, from their coming until their answer is read
  std::chrono::milliseconds request_time{10'000};  ///< from the first wait for a request to its last byte
  std::chrono::milliseconds idle_time{60'000};     ///< between two requests of one connection
  std::chrono::milliseconds answer_time{30'000};   ///< to take an answer
};

class Server {
 public:
  /// `content` must outlive the server.
  Server(Content& content, const ServerOptions& options);
  /// Waits for the answers that are being made.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  /// Returns the port. Errors: `input`, when it cannot be had.
  [[nodiscard]] Result<std::uint16_t> listen();
  /// Serves until stop(), or a signal; then ends every connection and question and returns.
  void run();
  void stop();
  /// Whether an answer is being made, also after run(): nobody wants it any more, but nothing ends it (a large store is
  /// read, a report simulates). A process that will not wait for ~Server() leaves server and content as they are and
  /// ends (_Exit).
  [[nodiscard]] bool busy() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace foreshard::viz
