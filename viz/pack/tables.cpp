#include "viz/pack/tables.hpp"

#include "core/base/check.hpp"

namespace foreshard::viz {
namespace {

std::size_t width_of(const ColumnInfo& column, TableShape shape) {
  switch (column.use) {
    case ColumnUse::always:
      return 1;
    case ColumnUse::list:
      return shape.list_length;
    case ColumnUse::optional:
      return shape.optional ? 1 : 0;
  }
  return 0;
}

}  // namespace

std::string marked_name(const ColumnInfo& column) {
  std::string out(column.name);
  if (column.use == ColumnUse::list) out += "[]";
  if (column.use == ColumnUse::optional) out += '?';
  return out;
}

ColumnTable::ColumnTable(const TableLayout& layout, TableShape shape) : layout_(layout), shape_(shape) {
  std::size_t count = 0;
  for (const ColumnInfo& column : layout.columns) count += width_of(column, shape);
  columns_.resize(count);
}

std::size_t ColumnTable::find(std::string_view name) const {
  std::size_t at = 0;
  for (const ColumnInfo& column : layout_.columns) {
    const std::size_t width = width_of(column, shape_);
    if (column.name == name && width > 0) return at;
    at += width;
  }
  FORESHARD_CHECK(false, "a piece's columns are asked for by the names of its table");
  return at;
}

}  // namespace foreshard::viz
