// A local server in this process and a client that says exactly what it is told, for the tests of this folder.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "viz/serve/content.hpp"
#include "viz/serve/server.hpp"

namespace foreshard::viz::test {

/// A small stored run, made once; its path.
[[nodiscard]] std::string stored_run();
/// A path that was not given before, in a temporary folder of the process, which goes when it ends.
[[nodiscard]] std::string fresh_path(const std::string& name);

class Served {
 public:
  explicit Served(std::vector<std::string> paths, const ServerOptions& options = {}, const ContentLimits& limits = {},
                  const Reports& reports = {});
  ~Served();

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// "127.0.0.1:PORT"
  [[nodiscard]] std::string host() const { return "127.0.0.1:" + std::to_string(port_); }
  /// Ends the server; how long that took, in seconds.
  double stop();

  /// GET with our own Host; `more`: further header lines, each with its end.
  [[nodiscard]] std::string get(const std::string& target, const std::string& more = "") const;
  /// A question in SQL.
  [[nodiscard]] std::string ask(const std::string& sql, const std::string& more = "") const;

 private:
  Content content_;
  Server server_;
  std::uint16_t port_ = 0;
  std::thread thread_;
};

/// One TCP connection.
class Line {
 public:
  explicit Line(std::uint16_t port);
  ~Line();
  Line(Line&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}

  /// False: the other end does not take it.
  bool say(const std::string& text) const;
  /// All that comes until the other end closes, or nothing comes for `patience`.
  [[nodiscard]] std::string hear(std::chrono::milliseconds patience = std::chrono::seconds(10)) const;
  /// Whether the other end has closed, within `patience`.
  [[nodiscard]] bool closed(std::chrono::milliseconds patience) const;

 private:
  int socket_;
};

/// Says it on a line of its own and hears the whole answer.
[[nodiscard]] std::string talk(std::uint16_t port, const std::string& text);

/// "HTTP/1.1 404 Not Found" gives 404; 0 where there is no answer.
[[nodiscard]] int status(const std::string& answer);
[[nodiscard]] std::string body(const std::string& answer);

}  // namespace foreshard::viz::test
