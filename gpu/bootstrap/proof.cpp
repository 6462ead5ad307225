#include "gpu/bootstrap/proof.hpp"

#include <fmt/core.h>
#include <sodium.h>

#include "core/base/check.hpp"
#include "gpu/bootstrap/bytes.hpp"
#include "gpu/bootstrap/message.hpp"

namespace foreshard::gpu {
namespace {

static_assert(sizeof(Block) == crypto_generichash_BYTES && sizeof(Block) == crypto_generichash_KEYBYTES);

/// Picks the processor's implementations and opens the source of random bytes; once.
void start_sodium() {
  static const int started = ::sodium_init();
  FORESHARD_CHECK(started >= 0, "libsodium does not start");
}

std::string_view text(const Block& block) {
  return {reinterpret_cast<const char*>(block.data()), block.size()};
}

bool equal(const Block& a, const Block& b) {
  return ::sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

/// BLAKE2b of `head` and `body`, one after the other; without a key where that is null.
Block hash(const Block* key, std::string_view head, std::string_view body) {
  start_sodium();
  const auto bytes = [](std::string_view of) { return reinterpret_cast<const unsigned char*>(of.data()); };
  Block out;
  crypto_generichash_state state;
  ::crypto_generichash_init(&state, key == nullptr ? nullptr : key->data(), key == nullptr ? 0 : key->size(),
                            out.size());
  ::crypto_generichash_update(&state, bytes(head), head.size());
  ::crypto_generichash_update(&state, bytes(body), body.size());
  ::crypto_generichash_final(&state, out.data(), out.size());
  return out;
}

/// What a proof and a direction's key are made of. `purpose` keeps the two apart.
std::string statement(std::string_view purpose, Role role, const Nonces& nonces) {
  ByteWriter out;
  out.text(purpose);
  out.number(kProtocolVersion);
  out.number(static_cast<std::uint8_t>(role));
  return out.take() + std::string(text(nonces.rank)) + std::string(text(nonces.rendezvous));
}

Block seal_of(const Block& key, std::uint64_t number, std::string_view message) {
  ByteWriter head;
  head.number(number);
  return hash(&key, head.take(), message);
}

}  // namespace

Block random_block() {
  start_sodium();
  Block out;
  ::randombytes_buf(out.data(), out.size());
  return out;
}

std::string random_secret() {
  const Block bytes = random_block();
  std::string out;
  for (std::size_t i = 0; i < 16; ++i) out += fmt::format("{:02x}", bytes[i]);
  return out;
}

Block Seal::next(std::string_view message) {
  return seal_of(key_, number_++, message);
}

bool Seal::opens(std::string_view message, const Block& seal) {
  return equal(seal_of(key_, number_++, message), seal);
}

Key::Key(std::string_view secret, std::string_view run) {
  ByteWriter head;
  head.text("foreshard secret");
  head.text(secret);
  bytes_ = hash(nullptr, head.take(), run);
}

Block Key::proof(Role prover, const Nonces& nonces) const {
  return hash(&bytes_, statement("foreshard proof", prover, nonces), {});
}

bool Key::proven_by(Role prover, const Nonces& nonces, const Block& proof) const {
  return equal(this->proof(prover, nonces), proof);
}

Seal Key::seal(Role sender, const Nonces& nonces) const {
  return Seal(hash(&bytes_, statement("foreshard messages", sender, nonces), {}));
}

}  // namespace foreshard::gpu
