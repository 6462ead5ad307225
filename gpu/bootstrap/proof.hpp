// How a rank and the rendezvous prove to each other that they know the run's secret, and how every later message is
// tied to that proof. Used by both ends of a connection (rendezvous_server.cpp, session_thread.cpp).
//
//   rank -> rendezvous   Greeting: 32 random bytes
//   rendezvous -> rank   Challenge: 32 random bytes
//   rank -> rendezvous   Proof: a MAC of the rank's role and both nonces
//   rendezvous -> rank   Proof: the same of its own role; only for a rank that has proven itself
//   from here on         every message carries a seal: a MAC of its direction's key, its number and its bytes
//
// The secret never crosses the network. Nonces make what was recorded useless, roles what is sent back; a seal finds
// out a message that was changed, left out, repeated or put in. Nothing is encrypted. Whoever can guess a secret can
// check the guess against what they heard, which is why secrets have kMinSecretBytes.
//
// Keyed BLAKE2b (RFC 7693) of libsodium; comparisons take the same time wherever they differ.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace foreshard::gpu {

inline constexpr std::size_t kMinSecretBytes = 16;
inline constexpr std::size_t kMaxSecretBytes = 4096;

/// A nonce, a proof, a seal, a key.
using Block = std::array<std::uint8_t, 32>;

enum class Role : std::uint8_t { rank = 1, rendezvous = 2 };

struct Nonces {
  Block rank{}, rendezvous{};
};

/// Fresh random bytes of the system's.
[[nodiscard]] Block random_block();
/// A secret of 128 random bits as 32 hexadecimal digits.
[[nodiscard]] std::string random_secret();

/// Seals the messages of one direction of a connection, in order.
class Seal {
 public:
  explicit Seal(const Block& key) : key_(key) {}

  /// The next message's seal.
  [[nodiscard]] Block next(std::string_view message);
  /// Whether `seal` is the next message's.
  [[nodiscard]] bool opens(std::string_view message, const Block& seal);

 private:
  Block key_;
  std::uint64_t number_ = 0;
};

/// One end's of a connection.
struct Seals {
  Seal outgoing, incoming;
};

/// What a run's ranks know: made of its secret and its name, so that runs of one secret stay apart too.
class Key {
 public:
  Key(std::string_view secret, std::string_view run);

  [[nodiscard]] Block proof(Role prover, const Nonces& nonces) const;
  [[nodiscard]] bool proven_by(Role prover, const Nonces& nonces, const Block& proof) const;
  /// Of the messages that `sender` sends on the connection with these nonces.
  [[nodiscard]] Seal seal(Role sender, const Nonces& nonces) const;

 private:
  Block bytes_{};
};

}  // namespace foreshard::gpu
