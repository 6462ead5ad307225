// What every SQLite 3 file begins with (sqlite.org/fileformat2.html, 1.3), a run store among them: readers of other
// files tell one by it.
#pragma once

#include <string_view>

namespace foreshard::traces {

inline constexpr std::string_view kSqliteMagic{"SQLite format 3\0", 16};
/// What to say of a run store, or another SQLite file, that is given where a recording or a text belongs.
inline constexpr std::string_view kIsStore = "is a run store (a SQLite file)";

}  // namespace foreshard::traces
