// Packs bytes for the tests, and writes pickles by hand.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "traces/pytorch/byte_source.hpp"

namespace foreshard::traces::testing {

[[nodiscard]] std::string gzip(std::string_view bytes);
[[nodiscard]] std::string xz(std::string_view bytes);
[[nodiscard]] ByteSource source_of(std::string bytes);

/// A pickle as bytes, opcode by opcode (CPython, Lib/pickletools.py).
class PickleBytes {
 public:
  explicit PickleBytes(int protocol = 4) : bytes_{'\x80', static_cast<char>(protocol)} {}
  PickleBytes& op(std::string_view raw) {
    bytes_ += raw;
    return *this;
  }
  PickleBytes& text(std::string_view value) {
    bytes_ += '\x8c';
    bytes_ += static_cast<char>(value.size());
    bytes_ += value;
    return *this;
  }
  /// LONG1 with 8 bytes.
  PickleBytes& number(std::int64_t value) {
    bytes_ += "\x8a\x08";
    for (int i = 0; i < 8; ++i) bytes_ += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
    return *this;
  }
  /// An empty dict with its MARK, and the SETITEMS that fills it.
  PickleBytes& dict() { return op("}("); }
  PickleBytes& end_dict() { return op("u"); }
  PickleBytes& list() { return op("]("); }
  PickleBytes& end_list() { return op("e"); }
  [[nodiscard]] std::string stop() const { return bytes_ + "."; }

 private:
  std::string bytes_;
};

}  // namespace foreshard::traces::testing
