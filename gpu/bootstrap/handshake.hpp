// The two ends' parts in the proof that proof.hpp describes, message by message. Used by session_thread.cpp and
// rendezvous_server.cpp. Pure but for its nonces.
#pragma once

#include <functional>
#include <optional>

#include "core/base/error.hpp"
#include "gpu/bootstrap/message.hpp"
#include "gpu/bootstrap/proof.hpp"

namespace foreshard::gpu {

/// A rank's part on one connection.
class RankHandshake {
 public:
  /// Asked for the key when the rendezvous has answered: on one host rank 0 has left it by then.
  using FindKey = std::function<Result<Key>()>;

  /// What to send first.
  [[nodiscard]] Greeting greeting() const { return {nonces_.rank}; }
  /// What to send next; nothing where the rendezvous has proven itself. Errors: `rendezvous`, why what answers is not
  /// the run's rendezvous; those of `find_key`.
  [[nodiscard]] Result<std::optional<Proof>> hear(const Message& message, const FindKey& find_key);
  /// Of every later message; none until both ends have proven themselves.
  [[nodiscard]] const std::optional<Seals>& seals() const { return seals_; }

 private:
  Nonces nonces_{random_block(), {}};
  std::optional<Key> key_;  ///< once it is challenged
  std::optional<Seals> seals_;
};

/// The rendezvous's part on one connection.
class RendezvousHandshake {
 public:
  /// What to send next. Errors: `rendezvous`, why what came proves nothing.
  [[nodiscard]] Result<Message> hear(const Message& message, const Key& key);
  [[nodiscard]] const std::optional<Seals>& seals() const { return seals_; }

 private:
  std::optional<Nonces> nonces_;  ///< once it is greeted
  std::optional<Seals> seals_;
};

}  // namespace foreshard::gpu
