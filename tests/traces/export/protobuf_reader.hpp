// Reads protobuf messages as their encoding says (protobuf.dev/programming-guides/encoding), for tests: any wrong tag,
// length or wire type fails the test.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tests/catch.hpp"

namespace foreshard::test {

struct ProtoField {
  std::uint32_t number = 0;
  std::uint32_t wire_type = 0;
  std::uint64_t value = 0;  ///< of varints and fixed64
  std::string_view bytes;   ///< of strings and messages
};

class ProtoReader {
 public:
  explicit ProtoReader(std::string_view bytes) : bytes_(bytes) {}
  [[nodiscard]] bool done() const { return at_ == bytes_.size(); }

  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      REQUIRE(at_ < bytes_.size());
      const auto byte = static_cast<unsigned char>(bytes_[at_++]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    FAIL("a varint of more than ten bytes");
    return 0;
  }

  std::string_view take(std::uint64_t size) {
    REQUIRE(size <= bytes_.size() - at_);
    const std::string_view out = bytes_.substr(at_, size);
    at_ += size;
    return out;
  }

  ProtoField field() {
    const std::uint64_t tag = varint();
    ProtoField out{static_cast<std::uint32_t>(tag >> 3), static_cast<std::uint32_t>(tag & 7), 0, {}};
    REQUIRE(out.number > 0);
    if (out.wire_type == 0) {
      out.value = varint();
    } else if (out.wire_type == 1) {
      const std::string_view eight = take(8);
      for (std::size_t i = 8; i-- > 0;) out.value = (out.value << 8) | static_cast<unsigned char>(eight[i]);
    } else {
      REQUIRE(out.wire_type == 2);
      out.bytes = take(varint());
    }
    return out;
  }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

/// All fields of a message, in order.
inline std::vector<ProtoField> fields(std::string_view message) {
  std::vector<ProtoField> out;
  for (ProtoReader reader(message); !reader.done();) out.push_back(reader.field());
  return out;
}

}  // namespace foreshard::test
