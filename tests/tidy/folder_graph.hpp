// Which folder includes which, against what the folders' CMakeLists.txt declare. Folders of the product alone.
//
// A target's includes are those of its sources, wherever they lie; the headers of a folder count for its library, or
// where there is none for its program. A program may include its own folder's library.
#pragma once

#include "tests/tidy/source_file.hpp"

namespace foreshard::tidy {

/// A cycle of folders, with an include for each step of it; one finding a cycle.
[[nodiscard]] Findings folder_cycles(const Tree& tree);

/// Includes of folders that the target does not declare, and declared folders that it does not include.
[[nodiscard]] Findings undeclared_folders(const Tree& tree);

/// Every .cpp and .cu is listed, under exactly its name, by the CMakeLists.txt of its folder or of the nearest folder
/// above that has one; and no file(GLOB).
[[nodiscard]] Findings unlisted_sources(const Tree& tree);

/// Every folder with a *.test file among `paths` (a golden case) is listed by name in the CMakeLists.txt of the folder
/// above it: one that is not would not be run.
[[nodiscard]] Findings unlisted_cases(const Tree& tree, const std::vector<std::string>& paths);

/// Headers of the product that have another header's name.
[[nodiscard]] Findings header_names_twice(const Tree& tree);

}  // namespace foreshard::tidy
