// Reads pieces as the page does: inflate, then columns.
#pragma once

#include <zlib.h>

#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "viz/pack/columns.hpp"
#include "viz/pack/pack.hpp"

namespace foreshard::viz {

inline std::string inflated(const std::string& bytes) {
  std::string out(std::size_t{1} << 24, '\0');
  uLongf size = out.size();
  REQUIRE(::uncompress(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
                       bytes.size()) == Z_OK);
  out.resize(size);
  return out;
}

inline std::vector<Column> decoded(const std::string& bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint64_t>(static_cast<unsigned char>(bytes.at(i))); };
  const auto u32 = [&](std::size_t i) { return byte(i) | byte(i + 1) << 8 | byte(i + 2) << 16 | byte(i + 3) << 24; };
  std::vector<Column> columns(u32(0));
  std::size_t at = 4 + 4 * columns.size();
  for (std::size_t c = 0; c < columns.size(); ++c) {
    std::uint64_t value = 0;
    for (std::uint64_t i = 0; i < u32(4 + 4 * c); ++i) {
      std::uint64_t coded = 0;
      for (int shift = 0;; shift += 7) {
        const std::uint64_t part = byte(at++);
        coded |= (part & 0x7f) << shift;
        if (part < 0x80) break;
      }
      value += (coded >> 1) ^ (0 - (coded & 1));
      columns[c].push_back(static_cast<std::int64_t>(value));
    }
  }
  CHECK(at == bytes.size());
  return columns;
}

inline std::vector<Column> table(const Pack& pack, const std::string& name) {
  const auto piece = pack.piece(name);
  INFO(name);
  REQUIRE(piece);
  return decoded(inflated(*piece));
}

}  // namespace foreshard::viz
