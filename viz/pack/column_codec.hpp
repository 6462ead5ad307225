// How a piece of a data pack is laid out: columns of integers, small when packed, quick to read in a browser.
//
// Used by the rest of viz/pack; viz/page/src/data/column_codec.ts reads it; docs/view.md describes it. Pure; the same
// table gives the same bytes.
//
// Before compression: the number of columns, then each column's length (both as 32-bit little-endian), then column
// after column its values, each as the difference to the one before it (the first to 0), zigzag-coded
// ((d << 1) ^ (d >> 63)) and written as LEB128. After it: one zlib stream (RFC 1950).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace foreshard::viz {

using Column = std::vector<std::int64_t>;

/// The bytes before compression. Columns may be of different lengths; tables.hpp names them.
[[nodiscard]] std::string encode(std::span<const Column> columns);
/// One zlib stream.
[[nodiscard]] std::string compressed(std::string_view bytes);
/// RFC 4648, with padding.
[[nodiscard]] std::string base64(std::string_view bytes);

}  // namespace foreshard::viz
