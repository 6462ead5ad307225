#include "gpu/bootstrap/handshake.hpp"

namespace foreshard::gpu {
namespace {

tl::unexpected<Error> unproven(std::string why) {
  return fail(ErrorKind::rendezvous, std::move(why));
}

}  // namespace

Result<std::optional<Proof>> RankHandshake::hear(const Message& message, const FindKey& find_key) {
  if (std::holds_alternative<Unproven>(message)) return unproven("it does not take this rank's proof of the secret");
  if (const auto* challenge = std::get_if<Challenge>(&message); challenge != nullptr && !key_) {
    const auto key = find_key();
    FORESHARD_TRY(key);
    key_ = *key;
    nonces_.rendezvous = challenge->nonce;
    return Proof{key_->proof(Role::rank, nonces_)};
  }
  const auto* proof = std::get_if<Proof>(&message);
  if (proof == nullptr || !key_ || seals_) return unproven("it sent a message out of turn");
  if (!key_->proven_by(Role::rendezvous, nonces_, proof->mac)) return unproven("it does not know the run's secret");
  seals_ = Seals{key_->seal(Role::rank, nonces_), key_->seal(Role::rendezvous, nonces_)};
  return std::nullopt;
}

Result<Message> RendezvousHandshake::hear(const Message& message, const Key& key) {
  if (const auto* greeting = std::get_if<Greeting>(&message); greeting != nullptr && !nonces_) {
    nonces_ = Nonces{greeting->nonce, random_block()};
    return Challenge{nonces_->rendezvous};
  }
  const auto* proof = std::get_if<Proof>(&message);
  if (proof == nullptr || !nonces_ || seals_) return unproven("it sent something else than its proof");
  if (!key.proven_by(Role::rank, *nonces_, proof->mac)) return unproven("it does not know the run's secret");
  seals_ = Seals{key.seal(Role::rendezvous, *nonces_), key.seal(Role::rank, *nonces_)};
  return Proof{key.proof(Role::rendezvous, *nonces_)};
}

}  // namespace foreshard::gpu
