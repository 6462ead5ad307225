// Any bytes at the port of the rendezvous, in any pieces, give messages or an Error; a message writes the bytes that
// were read.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "gpu/bootstrap/message.hpp"

using namespace foreshard::gpu;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view bytes(reinterpret_cast<const char*>(data), size);
  if (bytes.empty()) return 0;
  const std::size_t piece = 1 + static_cast<unsigned char>(bytes[0]);
  bytes.remove_prefix(1);
  FrameReader reader;
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
    }
  }
  return 0;
}
