#include "gpu/torch_collectives/peer_sockets.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

namespace foreshard::gpu {
namespace {

constexpr std::size_t kWordBytes = 16;
constexpr std::size_t kMaxMessage = 4096;
constexpr std::chrono::milliseconds kIntroduction{1000};  // from a connection until its word

tl::unexpected<Error> failed_call(std::string_view call) {
  return fail(ErrorKind::rendezvous, fmt::format("the ranks of this host cannot reach each other: {}: {}", call,
                                                 std::generic_category().message(errno)));
}

tl::unexpected<Error> lost(std::string_view what, std::uint32_t rank) {
  return fail(ErrorKind::rank_lost, fmt::format("rank {} has ended before '{}'", rank, what));
}

/// 1 when one of them can be read or has ended, 0 when the time is up, -1 on an error. Negative ones are left out.
template <std::size_t N>
int wait_readable(std::array<pollfd, N>& of, std::chrono::steady_clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const int ready = ::poll(of.data(), N, static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 1 << 30)));
    if (ready != -1 || errno != EINTR) return std::min(ready, 1);
  }
}

int wait_readable(int socket, std::chrono::steady_clock::time_point deadline) {
  std::array<pollfd, 1> of{pollfd{socket, POLLIN, 0}};
  return wait_readable(of, deadline);
}

/// Whose process is at the other end; uid and pid are -1 where the kernel does not say.
ucred other_end(int socket) {
  ucred peer{-1, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  socklen_t size = sizeof peer;
  (void)::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size);
  return peer;
}

/// One message of `text`, with the descriptor where it is not -1.
bool send_message(int socket, const std::string& text, int descriptor) {
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (descriptor >= 0) {
    message.msg_control = control.data();
    message.msg_controllen = control.size();
    cmsghdr* rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof descriptor);
  }
  ssize_t sent;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == static_cast<ssize_t>(text.size());
}

}  // namespace

Result<std::unique_ptr<PeerSockets>> PeerSockets::open(std::uint32_t rank, std::uint32_t ranks,
                                                       std::chrono::milliseconds timeout) {
  std::unique_ptr<PeerSockets> sockets(new PeerSockets(rank, ranks, timeout));
  FORESHARD_TRY(sockets->listen());
  return sockets;
}

Result<void> PeerSockets::listen() {
  std::string word(kWordBytes, '\0');
  if (::getrandom(word.data(), word.size(), 0) != static_cast<ssize_t>(word.size())) return failed_call("getrandom");
  listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener_) return failed_call("socket");
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  // Bound with the family alone, it gets an abstract name of the kernel's choice: unix(7), autobind.
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name.sun_family) != 0)
    return failed_call("bind");
  if (::listen(listener_.get(), static_cast<int>(peers_.size())) != 0) return failed_call("listen");
  socklen_t size = sizeof name;
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name), &size) != 0) return failed_call("getsockname");
  address_ = word + std::string(name.sun_path, size - offsetof(sockaddr_un, sun_path));
  return {};
}

Result<void> PeerSockets::connect_to(std::uint32_t peer, const std::string& address) {
  sockaddr_un to{};
  if (address.size() <= kWordBytes || address.size() - kWordBytes > sizeof to.sun_path)
    return fail(ErrorKind::rendezvous, fmt::format("rank {} did not say where it listens", peer));
  OwnedDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return failed_call("socket");
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address.data() + kWordBytes, address.size() - kWordBytes);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size() - kWordBytes);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), size) != 0) {
    auto error = failed_call("connect");
    error.value().hint = "the ranks of a host must share its network name space (one container for all of them)";
    return error;
  }
  std::string introduction = address.substr(0, kWordBytes);
  introduction.append(reinterpret_cast<const char*>(&rank_), sizeof rank_);
  if (!send_message(socket.get(), introduction, -1)) return failed_call("send");
  add(peer, std::move(socket));
  return {};
}

void PeerSockets::add(std::uint32_t peer, OwnedDescriptor socket) {
  const pid_t process = other_end(socket.get()).pid;
  if (process > 0) peers_[peer].process.reset(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  peers_[peer].socket = std::move(socket);
}

Result<void> PeerSockets::accept_one(Deadline deadline) {
  const int ready = wait_readable(listener_.get(), deadline);
  if (ready < 0) return failed_call("poll");
  if (ready == 0) return fail(ErrorKind::rank_hung, "a rank of this host did not connect in time");
  OwnedDescriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!peer) return errno == EINTR || errno == ECONNABORTED ? Result<void>{} : failed_call("accept");
  if (other_end(peer.get()).uid != ::geteuid()) return {};
  if (wait_readable(peer.get(), std::min(deadline, std::chrono::steady_clock::now() + kIntroduction)) != 1) return {};
  std::array<char, kWordBytes + sizeof(std::uint32_t)> said{};
  const ssize_t got = ::recv(peer.get(), said.data(), said.size(), MSG_DONTWAIT);
  std::uint32_t rank = 0;
  std::memcpy(&rank, said.data() + kWordBytes, sizeof rank);
  const bool right =
      got == static_cast<ssize_t>(said.size()) && address_.compare(0, kWordBytes, said.data(), kWordBytes) == 0;
  if (right && rank > rank_ && rank < ranks() && !peers_[rank]) add(rank, std::move(peer));
  return {};
}

Result<void> PeerSockets::connect(const std::vector<std::string>& addresses) {
  if (addresses.size() != peers_.size())
    return fail(ErrorKind::usage, fmt::format("{} addresses for {} ranks", addresses.size(), peers_.size()));
  for (std::uint32_t peer = 0; peer < rank_; ++peer) FORESHARD_TRY(connect_to(peer, addresses[peer]));
  const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
  const auto missing = [&] {
    return std::any_of(peers_.begin() + rank_ + 1, peers_.end(), [](const Peer& peer) { return !peer; });
  };
  while (missing()) FORESHARD_TRY(accept_one(deadline));
  listener_.reset();
  return {};
}

void PeerSockets::leave() {
  listener_.reset();
  for (Peer& peer : peers_) peer = {};
}

Result<PeerSockets::Message> PeerSockets::receive(std::string_view what, std::uint32_t from, Deadline deadline) {
  std::array<pollfd, 2> of{pollfd{peers_[from].socket.get(), POLLIN, 0}, pollfd{peers_[from].process.get(), POLLIN, 0}};
  const int ready = wait_readable(of, deadline);
  if (ready < 0) return failed_call("poll");
  if (ready == 0) return fail(ErrorKind::rank_hung, fmt::format("rank {} did not come to '{}' in time", from, what));
  // The process has ended, and a child of it may hold the socket open. What it sent before counts: poll() may have
  // looked at the socket before that came.
  if (of[0].revents == 0 && ::poll(of.data(), 1, 0) != 1) return lost(what, from);
  std::string text(kMaxMessage, '\0');
  iovec part{text.data(), text.size()};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got;
  do got = ::recvmsg(peers_[from].socket.get(), &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got <= 0) return lost(what, from);
  text.resize(static_cast<std::size_t>(got));
  Message out;
  if (const cmsghdr* rights = CMSG_FIRSTHDR(&message); rights != nullptr && rights->cmsg_type == SCM_RIGHTS) {
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(rights), sizeof descriptor);
    out.descriptor.reset(descriptor);
  }
  const std::size_t end = text.find('\0');  // of the operation's name
  if (end == std::string::npos || std::string_view(text).substr(0, end) != what)
    return fail(ErrorKind::mismatch,
                fmt::format("rank {} came to '{}' where this one is at '{}'", from, text.substr(0, end), what));
  out.bytes = text.substr(end + 1);
  return out;
}

Result<std::vector<PeerSockets::Message>> PeerSockets::exchange(std::string_view what, std::string_view bytes,
                                                                int descriptor) {
  std::string text(what);
  text += '\0';
  text += bytes;
  if (text.size() > kMaxMessage) return fail(ErrorKind::usage, fmt::format("'{}' is too long to exchange", what));
  const Deadline deadline = std::chrono::steady_clock::now() + timeout_;
  for (std::uint32_t r = 0; r < ranks(); ++r)
    if (r != rank_ && !send_message(peers_[r].socket.get(), text, descriptor)) return lost(what, r);
  std::vector<Message> all(ranks());
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    if (r == rank_) continue;
    auto message = receive(what, r, deadline);
    FORESHARD_TRY(message);
    all[r] = std::move(*message);
  }
  all[rank_].bytes = bytes;
  return all;
}

Result<std::vector<std::string>> PeerSockets::all_gather(std::string_view what, std::string_view bytes) {
  auto all = exchange(what, bytes, -1);
  FORESHARD_TRY(all);
  std::vector<std::string> out;
  for (Message& message : *all) out.push_back(std::move(message.bytes));
  return out;
}

Result<void> PeerSockets::barrier(std::string_view what) {
  FORESHARD_TRY(exchange(what, {}, -1));
  return {};
}

Result<std::vector<int>> PeerSockets::share_descriptor(std::string_view what, int descriptor) {
  auto all = exchange(what, {}, descriptor);
  FORESHARD_TRY(all);
  (*all)[rank_].descriptor.reset(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
  for (std::uint32_t r = 0; r < ranks(); ++r)
    if (!(*all)[r].descriptor)
      return fail(ErrorKind::rendezvous, fmt::format("rank {} brought no file descriptor to '{}'", r, what));
  std::vector<int> out;
  for (Message& message : *all) out.push_back(message.descriptor.release());
  return out;
}

std::optional<std::uint32_t> PeerSockets::gone() const {
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    if (r == rank_ || !peers_[r]) continue;
    std::array<pollfd, 2> of{pollfd{peers_[r].socket.get(), POLLRDHUP, 0}, pollfd{peers_[r].process.get(), POLLIN, 0}};
    if (::poll(of.data(), of.size(), 0) > 0) return r;
  }
  return std::nullopt;
}

}  // namespace foreshard::gpu
