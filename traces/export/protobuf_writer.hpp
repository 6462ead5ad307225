// Writes protobuf messages: varints, fixed64, doubles and length-delimited fields, and nothing else
// (protobuf.dev/programming-guides/encoding). Used by the Perfetto and Chakra writers. Fields come out in the order of
// the calls, so equal calls give equal bytes.
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace foreshard::traces {

class ProtobufWriter {
 public:
  /// uint64, int64 (as two's complement), enum, bool.
  void varint(std::uint32_t field, std::uint64_t value) {
    tag(field, 0);
    raw_varint(value);
  }
  void fixed64(std::uint32_t field, std::uint64_t value) {
    tag(field, 1);
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<char>((value >> shift) & 0xff));
  }
  void real(std::uint32_t field, double value) { fixed64(field, std::bit_cast<std::uint64_t>(value)); }
  /// string, bytes, or a message's bytes.
  void bytes(std::uint32_t field, std::string_view value) {
    tag(field, 2);
    raw_varint(value.size());
    bytes_.append(value);
  }
  void message(std::uint32_t field, const ProtobufWriter& value) { bytes(field, value.bytes_); }
  /// A length without a field before it, as streams of messages have.
  void raw_varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>((value & 0x7f) | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  [[nodiscard]] const std::string& text() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  void tag(std::uint32_t field, std::uint32_t wire_type) { raw_varint((std::uint64_t{field} << 3) | wire_type); }

  std::string bytes_;
};

}  // namespace foreshard::traces
