// A text of the tree as the rules see it, and what they find in it. Nothing here reads the disk.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace foreshard::tidy {

struct SourceFile {
  std::string path;  ///< from the repository's root, with slashes
  std::vector<std::string> lines;

  [[nodiscard]] std::string room() const { return path.substr(0, path.find('/')); }
  /// "core/step" of "core/step/step_runner.hpp"; empty for a file of the root.
  [[nodiscard]] std::string folder() const;
  /// "step_runner.hpp" of "core/step/step_runner.hpp".
  [[nodiscard]] std::string name() const { return path.substr(path.rfind('/') + 1); }
  /// .cpp, .hpp, .cu or .cuh
  [[nodiscard]] bool is_cpp() const;
  [[nodiscard]] bool is_header() const { return path.ends_with(".hpp") || path.ends_with(".cuh"); }
  /// core, sim, gpu, traces, accuracy, viz, cli: what is not tests, docs or tools.
  [[nodiscard]] bool is_product() const;
};

/// The tree by path: ordered, so that findings come in one order on every file system.
using Tree = std::map<std::string, SourceFile>;

struct Finding {
  std::string path;
  std::size_t line = 0;  ///< from 1; 0: the whole file
  std::string message;
};

using Findings = std::vector<Finding>;

[[nodiscard]] SourceFile source_file(std::string path, std::string_view text);
/// The same for a whole tree of {path, text}.
[[nodiscard]] Tree tree_of(const std::vector<std::pair<std::string, std::string>>& files);

/// Line by line without comments and without the contents of string literals, raw ones included, so that words in prose
/// and messages are not taken for code. The literals' quotes stay.
[[nodiscard]] std::vector<std::string> code_of(const SourceFile& file);

/// "path:line: message"
[[nodiscard]] std::string text(const Finding& finding);

}  // namespace foreshard::tidy
