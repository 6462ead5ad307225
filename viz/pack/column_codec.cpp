#include "viz/pack/column_codec.hpp"

#include <zlib.h>

#include "core/base/check.hpp"

namespace foreshard::viz {
namespace {

void put_u32(std::string& out, std::size_t value) {
  for (int shift = 0; shift < 32; shift += 8) out += static_cast<char>((value >> shift) & 0xff);
}

void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 0x80) {
    out += static_cast<char>(value | 0x80);
    value >>= 7;
  }
  out += static_cast<char>(value);
}

std::uint64_t zigzag(std::uint64_t difference) {
  return (difference << 1) ^ (0 - (difference >> 63));
}

}  // namespace

std::string encode(std::span<const Column> columns) {
  std::string out;
  put_u32(out, columns.size());
  for (const Column& column : columns) put_u32(out, column.size());
  for (const Column& column : columns) {
    std::uint64_t before = 0;
    for (const std::int64_t value : column) {
      const auto now = static_cast<std::uint64_t>(value);
      put_varint(out, zigzag(now - before));
      before = now;
    }
  }
  return out;
}

std::string compressed(std::string_view bytes) {
  uLongf size = ::compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  const int status = ::compress2(reinterpret_cast<Bytef*>(out.data()), &size,
                                 reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uLong>(bytes.size()), 6);
  FORESHARD_CHECK(status == Z_OK, "compressBound() bytes hold every stream, and memory is to be had");
  out.resize(size);
  return out;
}

std::string base64(std::string_view bytes) {
  static constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    for (std::size_t k = 0; k < 3; ++k)
      three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k) out += k <= bytes.size() - i ? kLetters[three >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

}  // namespace foreshard::viz
