// What the ranks of one process group on one host tell each other: a Bootstrap over Unix sockets, one between any two.
//
// Who: torch_group.hpp. Nothing but the addresses goes through the process group's store, so that this needs nothing of
// gpu/bootstrap's rendezvous. Each rank listens on an abstract socket whose name the kernel chose; a connection from
// another user, or without the listener's random word, is dropped. Thread safety: one thread at a time, except gone().
//
// Errors of every collective call: a rank that has ended (rank_lost), does not come within the timeout (rank_hung), or
// comes to something else (mismatch). Each names the rank and the operation.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gpu/bootstrap/bootstrap.hpp"
#include "gpu/bootstrap/descriptor.hpp"

namespace foreshard::gpu {

class PeerSockets final : public Bootstrap {
 public:
  /// Listens. Errors: the kernel's.
  [[nodiscard]] static Result<std::unique_ptr<PeerSockets>> open(std::uint32_t rank, std::uint32_t ranks,
                                                                 std::chrono::milliseconds timeout);
  /// What the other ranks pass to connect(): a secret word and a socket's name, less than 64 bytes.
  [[nodiscard]] const std::string& address() const { return address_; }
  /// For a rank to come to each later exchange.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  /// With every rank's address(), by rank.
  [[nodiscard]] Result<void> connect(const std::vector<std::string>& addresses);
  /// Closes this rank's ends: to the others it is gone. Nothing may be called after it, nor gone() meanwhile.
  void leave();

  [[nodiscard]] std::uint32_t rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t ranks() const override { return static_cast<std::uint32_t>(peers_.size()); }
  [[nodiscard]] std::uint32_t local_rank() const override { return rank_; }
  [[nodiscard]] std::uint32_t local_ranks() const override { return ranks(); }
  [[nodiscard]] Result<std::vector<std::string>> all_gather(std::string_view what, std::string_view bytes) override;
  [[nodiscard]] Result<void> barrier(std::string_view what) override;
  [[nodiscard]] Result<std::vector<int>> share_descriptor(std::string_view what, int descriptor) override;

  /// The first rank whose process has ended, or has closed its end. From any thread once connected.
  [[nodiscard]] std::optional<std::uint32_t> gone() const;

 private:
  using Deadline = std::chrono::steady_clock::time_point;
  struct Message {
    std::string bytes;
    OwnedDescriptor descriptor;
  };
  struct Peer {
    OwnedDescriptor socket;
    /// Of its process (pidfd_open): children that it forked hold its sockets open, also when it is dead. None where the
    /// kernel gives none, as between containers with process ids of their own.
    OwnedDescriptor process;
    explicit operator bool() const { return static_cast<bool>(socket); }
  };

  PeerSockets(std::uint32_t rank, std::uint32_t ranks, std::chrono::milliseconds timeout)
      : rank_(rank), timeout_(timeout), peers_(ranks) {}
  [[nodiscard]] Result<void> listen();
  void add(std::uint32_t peer, OwnedDescriptor socket);
  [[nodiscard]] Result<void> connect_to(std::uint32_t peer, const std::string& address);
  [[nodiscard]] Result<void> accept_one(Deadline deadline);
  [[nodiscard]] Result<std::vector<Message>> exchange(std::string_view what, std::string_view bytes, int descriptor);
  [[nodiscard]] Result<Message> receive(std::string_view what, std::uint32_t from, Deadline deadline);

  std::uint32_t rank_;
  std::chrono::milliseconds timeout_;
  std::string address_;
  OwnedDescriptor listener_;
  std::vector<Peer> peers_;  ///< by rank; its own place stays empty
};

}  // namespace foreshard::gpu
