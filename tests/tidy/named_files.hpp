// Files and folders of this repository that a comment or a document names are there.
//
// Checked are, in the comments of C++, CUDA and TypeScript and in all of a document,
// - paths that begin with a folder of the root, "sim/engine/engine.hpp" or "core/step";
// - names that end as sources and documents of ours do: `engine.hpp`, "step/step_runner.cpp".
// PyTorch's, CUDA's and other projects' files are left alone: those with capitals (ours have none but README.md and
// CONTRIBUTING.md), paths through folders that we have not, and the names in foreign_files.txt. So are placeholders,
// "profiles/NAME.json" or "read_*.cpp".
#pragma once

#include <set>
#include <string>
#include <vector>

#include "tests/tidy/source_file.hpp"

namespace foreshard::tidy {

class NamedFiles {
 public:
  /// `files`: every file's path from the root. `foreign`: a table of NAME  WHOSE, two or more blanks between; lines
  /// that start with # and empty ones are left out.
  NamedFiles(const std::vector<std::string>& files, const SourceFile& foreign);

  /// The lines of `file` that name what is not there.
  [[nodiscard]] Findings missing(const SourceFile& file) const;

 private:
  [[nodiscard]] std::vector<std::string> missing_in(const std::string& prose) const;
  [[nodiscard]] bool has_path(const std::string& path) const;
  [[nodiscard]] bool has_file(const std::string& named) const;

  std::set<std::string> paths_;    // files and folders
  std::set<std::string> roots_;    // folders of the root
  std::set<std::string> folders_;  // names of folders, wherever they stand
  std::set<std::string> names_;    // names of files, wherever they stand
  std::set<std::string> foreign_;
};

}  // namespace foreshard::tidy
