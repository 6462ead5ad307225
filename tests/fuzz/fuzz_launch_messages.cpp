// Any bytes at the port of the rendezvous, in any pieces, give messages or an Error; a message writes the bytes that
// were read. No messages prove anything to either end of a connection without the secret. Once it is sealed other bytes
// give nothing at all, but a message with its seal is read as it was sent.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "gpu/bootstrap/handshake.hpp"
#include "gpu/bootstrap/message.hpp"

using namespace foreshard::gpu;

namespace {

const Key kKey("0123456789abcdef", "");

/// The same bytes at a connection that expects seals.
void give_sealed(std::string_view bytes) {
  FrameReader reader;
  reader.limit(kMaxHelloBytes);
  reader.expect(kKey.seal(Role::rank, {}));
  reader.feed(bytes);
  const auto frame = reader.next();
  FORESHARD_CHECK(!frame || !*frame, "without the key there is no seal");
}

/// As all that either end hears, from its first message on.
void give_unproven(RankHandshake& rank, RendezvousHandshake& rendezvous, const Message& message) {
  (void)rank.hear(message, []() -> foreshard::Result<Key> { return kKey; });
  (void)rendezvous.hear(message, kKey);
  FORESHARD_CHECK(!rank.seals() && !rendezvous.seals(), "without the key there is no proof");
}

/// A message's frame with its seal, `piece` bytes at a time.
void pass_sealed(const std::string& frame, std::size_t piece) {
  Seal out = kKey.seal(Role::rank, {});
  const Block seal = out.next(frame);
  const std::string bytes = frame + std::string(seal.begin(), seal.end());
  FrameReader reader;
  reader.limit(kMaxHelloBytes);
  reader.expect(kKey.seal(Role::rank, {}));
  for (std::size_t begin = 0; begin < bytes.size(); begin += piece) {
    reader.feed(std::string_view(bytes).substr(begin, piece));
    const auto read = reader.next();
    FORESHARD_CHECK(read && read->has_value() == (begin + piece >= bytes.size()), "whole with its last byte");
    if (*read) FORESHARD_CHECK((*read)->payload == frame.substr(kFrameHeaderBytes), "as it was sent");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  const std::size_t piece = 1 + static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(1);
  give_sealed(bytes);
  RankHandshake rank;
  RendezvousHandshake rendezvous;
  FrameReader reader;
  reader.limit(kMaxHelloBytes);
  while (!bytes.empty()) {
    reader.feed(bytes.substr(0, piece));
    bytes.remove_prefix(std::min(piece, bytes.size()));
    for (;;) {
      const auto frame = reader.next();
      if (!frame) return 0;
      if (!*frame) break;
      const auto message = decode(**frame);
      if (!message) return 0;
      const std::string again = encode(*message);
      FORESHARD_CHECK(again.size() == kFrameHeaderBytes + (*frame)->payload.size(), "a message keeps its size");
      FORESHARD_CHECK(encode(*decode({(*frame)->kind, again.substr(kFrameHeaderBytes)})) == again, "and its bytes");
      pass_sealed(again, piece);
      give_unproven(rank, rendezvous, *message);
    }
  }
  return 0;
}
