// Reads pieces as the page does: inflate, then columns, then their names.
#pragma once

#include <zlib.h>

#include <map>
#include <string>
#include <vector>

#include "tests/catch.hpp"
#include "viz/pack/column_codec.hpp"
#include "viz/pack/memory_levels.hpp"
#include "viz/pack/pack.hpp"
#include "viz/pack/tables.hpp"

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

/// The table of a piece: the one whose name the piece's begins with; stacks of memory are of one table.
inline TableLayout layout_of(std::string_view piece) {
  for (const std::string_view stacking : EnumNames<Stacking>::kNames)
    if (piece.starts_with("memory/" + std::string(stacking) + "/")) return kMemoryStack;
  for (const TableLayout& table : kTables)
    if (piece == table.name || piece.starts_with(std::string(table.name) + "/")) return table;
  FAIL("no table has the piece " << piece);
  return {};
}

/// The columns of a piece by their names, as the page finds them; a list's as "name 0", "name 1", …
using NamedColumns = std::map<std::string, Column>;
inline NamedColumns named(const TableLayout& layout, std::vector<Column> columns) {
  std::size_t lists = 0, single = 0;
  for (const ColumnInfo& column : layout.columns) {
    lists += column.use == ColumnUse::list ? 1U : 0U;
    single += column.use == ColumnUse::always ? 1U : 0U;
  }
  REQUIRE(columns.size() >= single);
  const std::size_t length = lists > 0 ? (columns.size() - single) / lists : 0;
  NamedColumns out;
  std::size_t at = 0;
  for (const ColumnInfo& column : layout.columns) {
    const std::string name(column.name);
    if (column.use == ColumnUse::list)
      for (std::size_t i = 0; i < length; ++i) out[name + ' ' + std::to_string(i)] = std::move(columns.at(at++));
    else if (column.use == ColumnUse::always || at < columns.size())
      out[name] = std::move(columns.at(at++));
  }
  CHECK(at == columns.size());
  return out;
}

inline NamedColumns table(const Pack& pack, const std::string& name) {
  const auto piece = pack.piece(name);
  INFO(name);
  REQUIRE(piece);
  return named(layout_of(name), decoded(inflated(*piece)));
}

}  // namespace foreshard::viz
