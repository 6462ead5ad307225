#include "core/base/digest.hpp"

#include <fmt/core.h>
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace foreshard {

struct Digest::State {
  XXH3_state_t hash;
};

Digest::Digest() : state_(std::make_unique<State>()) {
  XXH3_64bits_reset(&state_->hash);
}

Digest::~Digest() = default;

void Digest::add(std::string_view bytes) {
  XXH3_64bits_update(&state_->hash, bytes.data(), bytes.size());
}

void Digest::add_part(std::string_view name, std::string_view bytes) {
  add(fmt::format("{}:{}:", name, bytes.size()));
  add(bytes);
}

std::string Digest::text() const {
  return fmt::format("xxh3:{:016x}", XXH3_64bits_digest(&state_->hash));
}

std::string digest_of(std::string_view bytes) {
  Digest digest;
  digest.add(bytes);
  return digest.text();
}

}  // namespace foreshard
