#include "viz/serve/http_connection.hpp"

#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http/empty_body.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/beast/http/message.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/string_body.hpp>
#include <boost/beast/http/write.hpp>

namespace foreshard::viz {
namespace {

namespace http = boost::beast::http;
using boost::beast::error_code;
using Request = http::request<http::string_body>;
using Response = http::response<http::string_body>;

constexpr std::uint32_t kMaxHeadBytes = 8 << 10;
constexpr std::uint64_t kMaxBodyBytes = 64 << 10;

std::string_view field(const Request& request, http::field name) {
  const auto value = request[name];
  return {value.data(), value.size()};
}

std::string_view field(const Request& request, const char* name) {
  const auto value = request[name];
  return {value.data(), value.size()};
}

std::string json_error(const std::string& what) {
  return "{\"error\":\"" + what + "\"}";  // our own words: nothing in them needs an escape
}

/// 0, or the status of a request that is not for us.
unsigned refused(const Request& request, std::uint16_t port) {
  if (request.count(http::field::host) != 1 || !own_host(field(request, http::field::host), port)) return 421;
  if (request.count(http::field::origin) > 0 && !own_origin(field(request, http::field::origin), port)) return 403;
  return own_site(field(request, "Sec-Fetch-Site")) ? 0 : 403;
}

class BeastConnection final : public HttpConnection, public std::enable_shared_from_this<BeastConnection> {
 public:
  BeastConnection(boost::asio::ip::tcp::socket socket, const Host& host) : stream_(std::move(socket)), host_(host) {}

  void start() override;
  void close() override;
  [[nodiscard]] std::optional<Time> idle() const override { return idle_since_; }

 private:
  void read(std::chrono::milliseconds patience);
  void take(Request request);
  void send(Answer answer);
  void refuse(unsigned status, const std::string& what);

  boost::beast::tcp_stream stream_;
  const Host& host_;
  boost::beast::flat_buffer buffer_{64 << 10};
  std::optional<http::request_parser<http::string_body>> parser_;
  std::optional<Time> idle_since_;
  bool keep_alive_ = false, head_ = false, closed_ = false;
  std::shared_ptr<Response> response_;
  std::shared_ptr<void> until_sent_;
};

void BeastConnection::start() {
  read(host_.options.request_time);
}

void BeastConnection::read(std::chrono::milliseconds patience) {
  idle_since_ = std::chrono::steady_clock::now();
  parser_.emplace();
  parser_->header_limit(kMaxHeadBytes);
  parser_->body_limit(kMaxBodyBytes);
  stream_.expires_after(patience);
  http::async_read(stream_, buffer_, *parser_, [self = shared_from_this()](error_code error, std::size_t) {
    if (self->closed_) return;
    if (!error) return self->take(self->parser_->release());
    self->keep_alive_ = self->head_ = false;
    if (error == http::error::header_limit) return self->refuse(431, "the head of the request is too long");
    if (error == http::error::body_limit) return self->refuse(413, "the question is too long");
    if (error == http::error::buffer_overflow) return self->refuse(413, "the request is too long");
    const bool bad = error.category() == http::make_error_code(http::error::bad_method).category();
    if (bad && error != http::error::end_of_stream && error != http::error::partial_message)
      return self->refuse(400, "this is no HTTP request");
    self->close();
  });
}

void BeastConnection::take(Request request) {
  idle_since_.reset();
  keep_alive_ = request.keep_alive();
  head_ = request.method() == http::verb::head;
  if (const unsigned status = refused(request, host_.port); status != 0) {
    keep_alive_ = false;
    return refuse(status, "this server answers requests from its own page only, on the loopback address");
  }
  const auto target = request.target();
  auto asked = parse_target({target.data(), target.size()});
  if (!asked) return refuse(404, asked.error().what);
  const bool question = asked->what == Asked::What::sql;
  if (question ? request.method() != http::verb::post : request.method() != http::verb::get && !head_)
    return refuse(405, question ? "a question is sent with POST" : "this can only be read");
  // A browser sends this type to another site only after asking there, and it is not told that it may.
  if (question && field(request, http::field::content_type) != "application/sql")
    return refuse(415, "a question has the type application/sql");
  stream_.expires_never();
  host_.make(std::move(*asked), std::move(request.body()),
             [self = shared_from_this()](Answer answer) { self->send(std::move(answer)); });
}

void BeastConnection::refuse(unsigned status, const std::string& what) {
  send({status, "application/json", json_error(what)});
}

void BeastConnection::send(Answer answer) {
  if (closed_) return;
  idle_since_.reset();
  response_ = std::make_shared<Response>();
  until_sent_ = std::move(answer.until_sent);
  response_->version(11);
  response_->result(answer.status);
  response_->keep_alive(keep_alive_);
  response_->set(http::field::content_type, answer.type);
  response_->set(http::field::cache_control, "no-store");
  response_->set("X-Content-Type-Options", "nosniff");
  response_->set("Cross-Origin-Resource-Policy", "same-origin");
  response_->set("Cross-Origin-Opener-Policy", "same-origin");
  response_->set("Content-Security-Policy", "frame-ancestors 'none'");
  response_->set("Referrer-Policy", "no-referrer");
  response_->content_length(answer.body.size());
  if (!head_) response_->body() = std::move(answer.body);
  stream_.expires_after(host_.options.answer_time);
  http::async_write(stream_, *response_, [self = shared_from_this()](error_code error, std::size_t) {
    self->response_.reset();
    self->until_sent_.reset();
    if (self->closed_) return;
    if (error || !self->keep_alive_) return self->close();
    self->read(self->host_.options.idle_time);
  });
}

void BeastConnection::close() {
  if (closed_) return;
  closed_ = true;
  error_code ignored;
  stream_.socket().shutdown(boost::asio::socket_base::shutdown_both, ignored);
  stream_.close();
  host_.gone(this);
}

}  // namespace

std::shared_ptr<HttpConnection> make_connection(boost::asio::ip::tcp::socket socket, const HttpConnection::Host& host) {
  return std::make_shared<BeastConnection>(std::move(socket), host);
}

}  // namespace foreshard::viz
