// What a CMakeLists.txt says, command by command, and the targets of product folders that follow from it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tests/tidy/source_file.hpp"

namespace foreshard::tidy {

/// name(arguments...): comments left out, quotes taken off.
struct CMakeCommand {
  std::string name;
  std::vector<std::string> arguments;
  std::size_t line = 0;  ///< from 1
};

[[nodiscard]] std::vector<CMakeCommand> cmake_commands(const SourceFile& cmake_lists);

/// A library or program of a folder.
struct FolderTarget {
  std::string folder;
  std::string name;  ///< "core_step" of a library in core/step, the program's own name of an executable
  bool is_library = false;
  std::vector<std::string> sources;  ///< from the repository's root; generated ones left out
  /// Folders: the DEPENDS of foreshard_library(); for an executable the foreshard:: targets that its
  /// target_link_libraries() names.
  std::vector<std::string> depends;
  std::size_t line = 0;
};

/// foreshard_library() and add_executable() of the file. `folder_of`: the folders by library name ("core_step").
[[nodiscard]] std::vector<FolderTarget> folder_targets(const SourceFile& cmake_lists,
                                                       const std::map<std::string, std::string>& folder_of);

/// "core_step" of "core/step".
[[nodiscard]] std::string library_name(std::string folder);

}  // namespace foreshard::tidy
