#include "tests/gpu/collectives/forked_ranks.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

namespace foreshard::gpu {
namespace {

Error lost(std::string_view what, std::uint32_t rank) {
  return {ErrorKind::rank_lost, fmt::format("rank {} did not come to '{}'", rank, what), {}, {}};
}

bool send_all(int socket, const void* data, std::size_t size) {
  const char* at = static_cast<const char*>(data);
  while (size != 0) {
    const ssize_t sent = ::send(socket, at, size, MSG_NOSIGNAL);
    if (sent <= 0) return false;
    at += sent;
    size -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int socket, void* data, std::size_t size) {
  char* at = static_cast<char*>(data);
  while (size != 0) {
    const ssize_t got = ::recv(socket, at, size, 0);
    if (got <= 0) return false;
    at += got;
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_descriptor(int socket, int descriptor) {
  char byte = 'd';
  iovec io{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  return ::sendmsg(socket, &message, MSG_NOSIGNAL) == 1;
}

int receive_descriptor(int socket) {
  char byte = 0;
  iovec io{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &io;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(socket, &message, MSG_CMSG_CLOEXEC) != 1) return -1;
  const cmsghdr* header = CMSG_FIRSTHDR(&message);
  if (header == nullptr || header->cmsg_type != SCM_RIGHTS) return -1;
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

class SocketBootstrap : public Bootstrap {
 public:
  SocketBootstrap(std::uint32_t rank, std::vector<int> sockets) : rank_(rank), sockets_(std::move(sockets)) {}

  std::uint32_t rank() const override { return rank_; }
  std::uint32_t ranks() const override { return static_cast<std::uint32_t>(sockets_.size()); }
  std::uint32_t local_rank() const override { return rank_; }
  std::uint32_t local_ranks() const override { return ranks(); }

  Result<std::vector<std::string>> all_gather(std::string_view what, std::string_view bytes) override {
    const std::uint64_t size = bytes.size();
    std::vector<std::string> all(ranks());
    all[rank_] = bytes;
    for (std::uint32_t r = 0; r < ranks(); ++r)
      if (r != rank_ && !(send_all(sockets_[r], &size, sizeof size) && send_all(sockets_[r], bytes.data(), size)))
        return tl::unexpected<Error>(lost(what, r));
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      if (r == rank_) continue;
      std::uint64_t theirs = 0;
      if (!receive_all(sockets_[r], &theirs, sizeof theirs)) return tl::unexpected<Error>(lost(what, r));
      all[r].resize(theirs);
      if (!receive_all(sockets_[r], all[r].data(), theirs)) return tl::unexpected<Error>(lost(what, r));
    }
    return all;
  }

  Result<void> barrier(std::string_view what) override {
    const auto all = all_gather(what, what);
    FORESHARD_TRY(all);
    for (std::uint32_t r = 0; r < ranks(); ++r)
      if ((*all)[r] != what) return fail(ErrorKind::mismatch, fmt::format("rank {} came to '{}'", r, (*all)[r]));
    return {};
  }

  Result<std::vector<int>> share_descriptor(std::string_view what, int descriptor) override {
    std::vector<int> all(ranks(), -1);
    all[rank_] = ::dup(descriptor);
    for (std::uint32_t r = 0; r < ranks(); ++r)
      if (r != rank_ && !send_descriptor(sockets_[r], descriptor)) return tl::unexpected<Error>(lost(what, r));
    for (std::uint32_t r = 0; r < ranks(); ++r) {
      if (r == rank_) continue;
      all[r] = receive_descriptor(sockets_[r]);
      if (all[r] < 0) return tl::unexpected<Error>(lost(what, r));
    }
    return all;
  }

 private:
  std::uint32_t rank_;
  std::vector<int> sockets_;  ///< by rank
};

/// Waits for the children; kills those left when one fails or time is up.
int reap(std::vector<pid_t> children, int timeout_s) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  int result = 0;
  std::size_t left = children.size();
  while (left != 0) {
    for (pid_t& child : children) {
      int status = 0;
      if (child <= 0 || ::waitpid(child, &status, WNOHANG) != child) continue;
      child = 0;
      --left;
      if (status != 0 && result == 0) result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    }
    if (left != 0 && (result != 0 || std::chrono::steady_clock::now() > deadline)) {
      if (result == 0) result = 124;
      std::this_thread::sleep_for(std::chrono::seconds(1));  // for the messages of the others
      for (const pid_t child : children)
        if (child > 0) ::kill(child, SIGKILL);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return result;
}

}  // namespace

int run_ranks(std::uint32_t ranks, int timeout_s, const std::function<int(Bootstrap&)>& body) {
  std::vector<std::vector<int>> sockets(ranks, std::vector<int>(ranks, -1));
  for (std::uint32_t a = 0; a < ranks; ++a)
    for (std::uint32_t b = a + 1; b < ranks; ++b) {
      int pair[2] = {-1, -1};
      if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0) return 1;
      sockets[a][b] = pair[0];
      sockets[b][a] = pair[1];
    }
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (std::uint32_t r = 0; r < ranks; ++r)
        for (const int socket : sockets[r])
          if (r != rank && socket >= 0) ::close(socket);
      SocketBootstrap bootstrap(rank, sockets[rank]);
      const int code = body(bootstrap);
      std::fflush(nullptr);
      ::_exit(code);
    }
    children.push_back(child);
  }
  for (const auto& row : sockets)
    for (const int socket : row)
      if (socket >= 0) ::close(socket);
  return reap(std::move(children), timeout_s);
}

}  // namespace foreshard::gpu
