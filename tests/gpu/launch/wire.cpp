#include "tests/gpu/launch/wire.hpp"

#include <arpa/inet.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <stdexcept>

namespace foreshard::gpu::testing {
namespace {

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

bool readable(int socket, Milliseconds timeout) {
  pollfd of{socket, POLLIN, 0};
  return ::poll(&of, 1, static_cast<int>(timeout.count())) > 0;
}

}  // namespace

OwnedDescriptor connect_to(std::uint16_t port, std::uint32_t from) {
  const sockaddr_in address = loopback(port);
  sockaddr_in own = loopback(0);
  own.sin_addr.s_addr = htonl((127U << 24) + from);
  for (int i = 0; i < 200; ++i) {
    OwnedDescriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (from != 1) ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&own), sizeof own);
    if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return socket;
    std::this_thread::sleep_for(Milliseconds(20));
  }
  return {};
}

Listener::Listener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  if (::bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 || ::listen(socket_.get(), 64) != 0)
    throw std::runtime_error("nobody can listen on the loopback");
  ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size);
  port_ = ntohs(address.sin_port);
}

OwnedDescriptor Listener::accept(Milliseconds timeout) const {
  if (!readable(socket_.get(), timeout)) return {};
  return OwnedDescriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
}

void Wire::send_bytes(std::string_view bytes) const {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void Wire::send(const Message& message) {
  std::string bytes = encode(message);
  if (seal_) {
    const Block seal = seal_->next(bytes);
    bytes.append(seal.begin(), seal.end());
  }
  send_bytes(bytes);
}

std::optional<Message> Wire::receive(Milliseconds timeout) {
  for (;;) {
    auto frame = reader_.next();
    if (!frame) return std::nullopt;
    if (*frame) {
      auto message = decode(**frame);
      return message ? std::optional(std::move(*message)) : std::nullopt;
    }
    std::array<char, 4096> bytes;
    if (!readable(socket_.get(), timeout)) return std::nullopt;
    const ssize_t got = ::recv(socket_.get(), bytes.data(), bytes.size(), 0);
    if (got <= 0) return std::nullopt;
    reader_.feed({bytes.data(), static_cast<std::size_t>(got)});
  }
}

bool Wire::prove(Role role, const Key& key) {
  const Block own = random_block();
  Nonces nonces;
  if (role == Role::rank) {
    send(Greeting{own});
    const auto challenge = receive_one<Challenge>();
    if (!challenge) return false;
    nonces = {own, challenge->nonce};
    send(Proof{key.proof(role, nonces)});
    const auto proof = receive_one<Proof>();
    if (!proof || !key.proven_by(Role::rendezvous, nonces, proof->mac)) return false;
  } else {
    const auto greeting = receive_one<Greeting>();
    if (!greeting) return false;
    nonces = {greeting->nonce, own};
    send(Challenge{own});
    const auto proof = receive_one<Proof>();
    if (!proof || !key.proven_by(Role::rank, nonces, proof->mac)) return false;
    send(Proof{key.proof(role, nonces)});
  }
  seal_ = key.seal(role, nonces);
  reader_.expect(key.seal(role == Role::rank ? Role::rendezvous : Role::rank, nonces));
  return true;
}

Relay::Relay(std::uint16_t rendezvous, Change change) : change_(change) {
  taker_ = std::thread([this, rendezvous] {
    std::vector<OwnedDescriptor> sockets;
    std::vector<std::thread> passers;
    while (!over_) {
      OwnedDescriptor rank = listener_.accept(Milliseconds(20));
      if (!rank) continue;
      OwnedDescriptor to = connect_to(rendezvous);
      std::size_t connection = 0;
      {
        const std::lock_guard lock(mutex_);
        connection = recorded_.size();
        recorded_.emplace_back();
      }
      passers.emplace_back(&Relay::pass, this, connection, rank.get(), to.get(), false);
      passers.emplace_back(&Relay::pass, this, connection, to.get(), rank.get(), true);
      sockets.push_back(std::move(rank));
      sockets.push_back(std::move(to));
    }
    for (std::thread& passer : passers) passer.join();
  });
}

Relay::~Relay() {
  over_ = true;
  taker_.join();
}

void Relay::pass(std::size_t connection, int from, int to, bool to_rank) {
  std::array<char, 4096> bytes;
  std::ptrdiff_t passed = 0;
  while (!over_) {
    if (!readable(from, Milliseconds(20))) continue;
    const ssize_t got = ::recv(from, bytes.data(), bytes.size(), 0);
    if (got <= 0) break;
    if (!to_rank) {
      const std::lock_guard lock(mutex_);
      recorded_[connection].append(bytes.data(), static_cast<std::size_t>(got));
    }
    if (to_rank == change_.to_rank && change_.at >= passed && change_.at < passed + got)
      bytes[static_cast<std::size_t>(change_.at - passed)] ^= 1;
    passed += got;
    (void)::send(to, bytes.data(), static_cast<std::size_t>(got), MSG_NOSIGNAL);
  }
  ::shutdown(to, SHUT_WR);
}

std::vector<std::string> Relay::recorded() const {
  const std::lock_guard lock(mutex_);
  return recorded_;
}

}  // namespace foreshard::gpu::testing
