#include "viz/serve/server.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <list>
#include <vector>

#include "viz/serve/http_connection.hpp"

namespace foreshard::viz {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kThreads = 2;              // for pages and pieces, and as many for questions and for reports
constexpr std::chrono::milliseconds kAgain{50};  // after a connection that could not be taken

}  // namespace

class Server::Impl {
 public:
  Impl(Content& content, const ServerOptions& options)
      : content_(content), acceptor_(context_), again_(context_), signals_(context_) {
    host_.options = options;
    host_.make = [this](Asked asked, std::string body, std::function<void(Answer)> then) {
      make(std::move(asked), std::move(body), std::move(then));
    };
    host_.gone = [this](HttpConnection* connection) {
      connections_.remove_if([&](const auto& each) { return each.get() == connection; });
    };
  }

  Result<std::uint16_t> listen() {
    const tcp::endpoint loopback(asio::ip::address_v4::loopback(), host_.options.port);
    error_code error;
    const auto go = [&](auto step) {
      if (!error) step();
    };
    go([&] { acceptor_.open(loopback.protocol(), error); });
    go([&] { ::fcntl(acceptor_.native_handle(), F_SETFD, FD_CLOEXEC); });
    go([&] { acceptor_.set_option(asio::socket_base::reuse_address(true), error); });
    go([&] { acceptor_.bind(loopback, error); });
    go([&] { acceptor_.listen(asio::socket_base::max_listen_connections, error); });
    if (error)
      return fail(ErrorKind::input, fmt::format("cannot listen on port {}: {}", host_.options.port, error.message()),
                  "127.0.0.1", "give another --port");
    host_.port = acceptor_.local_endpoint(error).port();
    return host_.port;
  }

  void run() {
    if (host_.options.signals) {
      for (const int signal : {SIGINT, SIGTERM}) signals_.add(signal);
      signals_.async_wait([this](error_code stopped, int) {
        if (!stopped) end();
      });
    }
    accept();
    context_.run();
    questioners_.join();
  }

  [[nodiscard]] bool busy() const { return *answers_ > 0; }

  void stop() {
    asio::post(context_, [this] { end(); });
  }

 private:
  void accept() {
    acceptor_.async_accept([this](error_code error, tcp::socket socket) {
      if (!acceptor_.is_open()) return;
      if (error) {  // out of descriptors, mostly
        drop_idle();
        again_.expires_after(kAgain);
        again_.async_wait([this](error_code stopped) {
          if (!stopped) accept();
        });
        return;
      }
      ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
      if (connections_.size() >= host_.options.connections) drop_idle();
      if (connections_.size() < host_.options.connections) {
        connections_.push_back(make_connection(std::move(socket), host_));
        const auto connection = connections_.back();
        connection->start();
      }
      accept();
    });
  }

  /// Ends the connection that waits longest for a request; none, where all are being answered.
  void drop_idle() {
    std::shared_ptr<HttpConnection> longest;
    for (const auto& connection : connections_)
      if (connection->idle() && (!longest || *connection->idle() < *longest->idle())) longest = connection;
    if (longest) longest->close();
  }

  /// Requests that are equal are one: a report may take minutes, and as many threads as there are.
  void report(const Asked& asked, std::function<void(Answer)> then) {
    const auto same =
        std::find_if(asked_for_.begin(), asked_for_.end(), [&](const auto& of) { return of.asked == asked; });
    if (same != asked_for_.end()) return same->then.push_back(std::move(then));
    asked_for_.push_back({asked, {}});
    asked_for_.back().then.push_back(std::move(then));
    asio::post(reporters_, [this, counted = counted(answers_), asked] {
      auto answer = std::make_shared<Answer>(content_.answer(asked, {}));
      asio::post(context_, [this, asked, answer] {
        const auto made =
            std::find_if(asked_for_.begin(), asked_for_.end(), [&](const auto& of) { return of.asked == asked; });
        const Report report = std::move(*made);
        asked_for_.erase(made);
        for (const auto& each : report.then) each(*answer);
      });
    });
  }

  void make(Asked asked, std::string body, std::function<void(Answer)> then) {
    if (content_.is_report(asked)) return report(asked, std::move(then));
    const bool question = asked.what == Asked::What::sql;
    if (question && *questions_ >= host_.options.questions)
      return then({503, "application/json", "{\"error\":\"too many questions at once\"}"});
    std::shared_ptr<void> until_sent = question ? counted(questions_) : nullptr;
    asio::post(question ? questioners_ : readers_,
               [this, until_sent = std::move(until_sent), made = question ? nullptr : counted(answers_),
                asked = std::move(asked), body = std::move(body), then = std::move(then)]() mutable {
                 auto answer = std::make_shared<Answer>(content_.answer(asked, body));
                 answer->until_sent = std::move(until_sent);
                 asio::post(context_,
                            [answer = std::move(answer), then = std::move(then)] { then(std::move(*answer)); });
               });
  }

  void end() {
    content_.stop();
    error_code ignored;
    acceptor_.close(ignored);
    again_.cancel();
    signals_.cancel(ignored);
    for (const auto& connection : std::list(connections_)) connection->close();
    readers_.stop();
    questioners_.stop();
    reporters_.stop();
    context_.stop();
  }

  Content& content_;
  asio::io_context context_;
  tcp::acceptor acceptor_;
  asio::steady_timer again_;
  asio::signal_set signals_;
  HttpConnection::Host host_;
  std::list<std::shared_ptr<HttpConnection>> connections_;
  using Count = std::shared_ptr<std::atomic<std::size_t>>;
  /// One more until it is let go of.
  static std::shared_ptr<void> counted(const Count& count) {
    ++*count;
    return {nullptr, [count](void*) { --*count; }};
  }
  /// Shared, because an answer that is never sent is let go of after this; changed on the context's thread, and by
  /// answers that are dropped when no thread runs any more.
  Count questions_ = std::make_shared<std::atomic<std::size_t>>(0);
  Count answers_ = std::make_shared<std::atomic<std::size_t>>(0);  ///< others that are being made, or wait to be
  struct Report {
    Asked asked;
    std::vector<std::function<void(Answer)>> then;
  };
  std::list<Report> asked_for_;  ///< reports that are being made; of the context's thread
  asio::thread_pool readers_{kThreads}, questioners_{kThreads}, reporters_{kThreads};
};

Server::Server(Content& content, const ServerOptions& options) : impl_(std::make_unique<Impl>(content, options)) {}

Server::~Server() = default;

Result<std::uint16_t> Server::listen() {
  return impl_->listen();
}

void Server::run() {
  impl_->run();
}

void Server::stop() {
  impl_->stop();
}

bool Server::busy() const {
  return impl_->busy();
}

}  // namespace foreshard::viz
