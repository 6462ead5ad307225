#include "gpu/bootstrap/local_sockets.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <system_error>

namespace foreshard::gpu {
namespace {

constexpr std::size_t kWordBytes = 16;

tl::unexpected<Error> failed_call(std::string_view call, int error) {
  return fail(ErrorKind::rendezvous, fmt::format("the ranks of this host cannot pass file descriptors: {}: {}", call,
                                                 std::generic_category().message(error)));
}

/// One message with a number and descriptors.
Result<void> send_descriptors(int socket, std::uint32_t number, const std::vector<int>& descriptors) {
  iovec part{&number, sizeof number};
  std::vector<char> control(CMSG_SPACE(descriptors.size() * sizeof(int)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(descriptors.size() * sizeof(int));
  std::memcpy(CMSG_DATA(rights), descriptors.data(), descriptors.size() * sizeof(int));
  ssize_t sent;
  do sent = ::sendmsg(socket, &message, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  if (sent < 0) return failed_call("sendmsg", errno);
  return {};
}

/// The other end of send_descriptors: exactly `count` of them, with `expected` as the number.
Result<std::vector<OwnedDescriptor>> receive_descriptors(int socket, std::uint32_t expected, std::uint32_t count) {
  std::uint32_t number = 0;
  iovec part{&number, sizeof number};
  std::vector<char> control(CMSG_SPACE(kMaxLocalRanks * sizeof(int)));
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t got;
  do got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  while (got < 0 && errno == EINTR);
  if (got < 0) return failed_call("recvmsg", errno);
  std::vector<OwnedDescriptor> out;
  for (cmsghdr* part_of = CMSG_FIRSTHDR(&message); part_of != nullptr; part_of = CMSG_NXTHDR(&message, part_of)) {
    if (part_of->cmsg_level != SOL_SOCKET || part_of->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t n = (part_of->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < n; ++i) {
      int descriptor = -1;
      std::memcpy(&descriptor, CMSG_DATA(part_of) + i * sizeof(int), sizeof descriptor);
      out.emplace_back(descriptor);
    }
  }
  if (got == 0) return fail(ErrorKind::rendezvous, "another rank of this host closed its Unix socket");
  if ((message.msg_flags & MSG_CTRUNC) != 0) return failed_call("recvmsg", EMFILE);
  if (got != sizeof number || number != expected || out.size() != count)
    return fail(ErrorKind::rendezvous,
                fmt::format("a Unix socket of this host brought {} descriptors as number {} where {} as number {} were "
                            "expected",
                            out.size(), number, count, expected));
  return out;
}

bool same_user(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
}

}  // namespace

Result<void> LocalSockets::wait(int descriptor, short events, TimePoint deadline) const {
  for (;;) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
    std::array<pollfd, 2> of{pollfd{descriptor, events, 0}, pollfd{wake_, POLLIN, 0}};
    const int ready = ::poll(of.data(), of.size(), static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) return failed_call("poll", errno);
    if (of[1].revents != 0) return fail(ErrorKind::rendezvous, "the run failed");
    if (ready == 0) return failed_call("poll", ETIMEDOUT);
    return {};
  }
}

Result<std::string> LocalSockets::open() {
  if (local_ranks_ > kMaxLocalRanks)
    return fail(ErrorKind::usage, fmt::format("{} ranks on one host; at most {}", local_ranks_, kMaxLocalRanks));
  if (local_rank_ != 0) return std::string();
  word_.resize(kWordBytes);
  if (::getrandom(word_.data(), word_.size(), 0) != static_cast<ssize_t>(word_.size()))
    return failed_call("getrandom", errno);
  listener_.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!listener_) return failed_call("socket", errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Bound with the family alone, it gets an abstract name of the kernel's choice: unix(7), autobind.
  if (::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address.sun_family) != 0)
    return failed_call("bind", errno);
  if (::listen(listener_.get(), static_cast<int>(kMaxLocalRanks)) != 0) return failed_call("listen", errno);
  socklen_t size = sizeof address;
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    return failed_call("getsockname", errno);
  return word_ + std::string(address.sun_path, size - offsetof(sockaddr_un, sun_path));
}

Result<void> LocalSockets::accept_one(std::string_view word, TimePoint deadline) {
  if (auto ready = wait(listener_.get(), POLLIN, deadline); !ready) return ready;
  OwnedDescriptor peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!peer) return errno == EINTR || errno == ECONNABORTED ? Result<void>{} : failed_call("accept", errno);
  if (!same_user(peer.get())) return {};
  const auto soon = std::min(deadline, std::chrono::steady_clock::now() + Milliseconds(1000));
  if (!wait(peer.get(), POLLIN, soon)) return {};
  std::array<char, kWordBytes + sizeof(std::uint32_t)> said{};
  const ssize_t got = ::recv(peer.get(), said.data(), said.size(), MSG_DONTWAIT);
  std::uint32_t local_rank = 0;
  std::memcpy(&local_rank, said.data() + kWordBytes, sizeof local_rank);
  const bool right = got == static_cast<ssize_t>(said.size()) && std::string_view(said.data(), kWordBytes) == word;
  if (right && local_rank > 0 && local_rank < local_ranks_ && !peers_[local_rank]) peers_[local_rank] = std::move(peer);
  return {};
}

Result<void> LocalSockets::connect(std::string_view address) {
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout_;
  if (local_rank_ == 0) {
    peers_.resize(local_ranks_);
    for (;;) {
      std::size_t missing = 0;
      for (std::uint32_t i = 1; i < local_ranks_; ++i) missing += peers_[i] ? 0 : 1;
      if (missing == 0) return {};
      if (auto taken = accept_one(word_, deadline); !taken) return taken;
    }
  }
  sockaddr_un to{};
  if (address.size() <= kWordBytes || address.size() - kWordBytes > sizeof to.sun_path)
    return fail(ErrorKind::rendezvous, "the first rank of this host did not say where it listens");
  OwnedDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return failed_call("socket", errno);
  to.sun_family = AF_UNIX;
  std::memcpy(to.sun_path, address.data() + kWordBytes, address.size() - kWordBytes);
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + address.size() - kWordBytes);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to), size) != 0) {
    auto error = failed_call("connect", errno);
    error.value().hint = "the ranks of a host must share its network name space (one container for all of them)";
    return error;
  }
  std::string introduction(address.substr(0, kWordBytes));
  introduction.append(reinterpret_cast<const char*>(&local_rank_), sizeof local_rank_);
  if (::send(socket.get(), introduction.data(), introduction.size(), MSG_NOSIGNAL) < 0)
    return failed_call("send", errno);
  peers_.clear();
  peers_.push_back(std::move(socket));
  return {};
}

Result<std::vector<int>> LocalSockets::bootstrap(int descriptor) {
  const TimePoint deadline = std::chrono::steady_clock::now() + timeout_;
  std::vector<OwnedDescriptor> all;
  if (local_rank_ != 0) {
    FORESHARD_TRY(send_descriptors(peers_[0].get(), local_rank_, {descriptor}));
    FORESHARD_TRY(wait(peers_[0].get(), POLLIN, deadline));
    auto received = receive_descriptors(peers_[0].get(), local_ranks_, local_ranks_);
    FORESHARD_TRY(received);
    all = std::move(*received);
  } else {
    all.emplace_back(::fcntl(descriptor, F_DUPFD_CLOEXEC, 3));
    if (!all[0]) return failed_call("fcntl", errno);
    for (std::uint32_t i = 1; i < local_ranks_; ++i) {
      FORESHARD_TRY(wait(peers_[i].get(), POLLIN, deadline));
      auto received = receive_descriptors(peers_[i].get(), i, 1);
      FORESHARD_TRY(received);
      all.push_back(std::move((*received)[0]));
    }
    std::vector<int> numbers;
    for (const OwnedDescriptor& each : all) numbers.push_back(each.get());
    for (std::uint32_t i = 1; i < local_ranks_; ++i)
      FORESHARD_TRY(send_descriptors(peers_[i].get(), local_ranks_, numbers));
  }
  std::vector<int> out;
  for (OwnedDescriptor& each : all) out.push_back(each.release());
  return out;
}

}  // namespace foreshard::gpu
