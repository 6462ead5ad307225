#include "tests/viz/serve/browser.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <fstream>
#include <span>
#include <stdexcept>

#include "tests/temporary_folder.hpp"
#include "tests/viz/svg/drawn_runs.hpp"
#include "traces/store/store.hpp"

namespace foreshard::viz::test {
namespace {

/// The process that answers a question is this program again, with these words: before main looks at them.
const int kQuestion = [] {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(file, word, '\0');) words.push_back(word);
  if (words.size() > 1 && words[1] == kQuestionVerb) _exit(answer_question(std::span(words).subspan(2)));
  return 0;
}();

}  // namespace

std::string fresh_path(const std::string& name) {
  static const foreshard::test::TemporaryFolder kFolder;
  static int count = 0;
  return kFolder.file(std::to_string(count++) + name);
}

std::string stored_run() {
  static const std::string kPath = [] {
    const std::string path = fresh_path("run.db");
    const auto written = traces::write_run(small_run(), path);
    if (!written) throw std::runtime_error(written.error().text());
    return path;
  }();
  return kPath;
}

Served::Served(std::vector<std::string> paths, const ServerOptions& options, const ContentLimits& limits,
               const Reports& reports)
    : content_(std::move(paths), "auto", limits, reports), server_(content_, options) {
  const auto port = server_.listen();
  if (!port) throw std::runtime_error(port.error().text());
  port_ = *port;
  thread_ = std::thread([this] { server_.run(); });
}

double Served::stop() {
  const auto start = std::chrono::steady_clock::now();
  server_.stop();
  if (thread_.joinable()) thread_.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

Served::~Served() {
  stop();
}

std::string Served::get(const std::string& target, const std::string& more) const {
  return talk(port_, "GET " + target + " HTTP/1.1\r\nHost: " + host() + "\r\nConnection: close\r\n" + more + "\r\n");
}

std::string Served::ask(const std::string& sql, const std::string& more) const {
  return talk(port_, "POST /run/0/sql HTTP/1.1\r\nHost: " + host() +
                         "\r\nConnection: close\r\nContent-Type: application/sql\r\nContent-Length: " +
                         std::to_string(sql.size()) + "\r\n" + more + "\r\n" + sql);
}

Line::Line(std::uint16_t port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw std::runtime_error("cannot connect");
}

Line::~Line() {
  if (socket_ >= 0) ::close(socket_);
}

bool Line::say(const std::string& text) const {
  return ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL) == static_cast<ssize_t>(text.size());
}

std::string Line::hear(std::chrono::milliseconds patience) const {
  std::string out;
  std::array<char, 64 << 10> piece;
  pollfd ready{socket_, POLLIN, 0};
  while (::poll(&ready, 1, static_cast<int>(patience.count())) > 0) {
    const ssize_t got = ::recv(socket_, piece.data(), piece.size(), 0);
    if (got <= 0) break;
    out.append(piece.data(), static_cast<std::size_t>(got));
  }
  return out;
}

bool Line::closed(std::chrono::milliseconds patience) const {
  std::array<char, 4096> piece;
  pollfd ready{socket_, POLLIN, 0};
  while (::poll(&ready, 1, static_cast<int>(patience.count())) > 0)
    if (::recv(socket_, piece.data(), piece.size(), 0) <= 0) return true;
  return false;
}

std::string talk(std::uint16_t port, const std::string& text) {
  const Line line(port);
  line.say(text);
  return line.hear();
}

int status(const std::string& answer) {
  return answer.starts_with("HTTP/1.1 ") ? std::atoi(answer.c_str() + 9) : 0;
}

std::string body(const std::string& answer) {
  const std::size_t head = answer.find("\r\n\r\n");
  return head == std::string::npos ? "" : answer.substr(head + 4);
}

}  // namespace foreshard::viz::test
