#include "tests/tidy/cmake_lists.hpp"

#include <algorithm>
#include <cctype>

namespace foreshard::tidy {
namespace {

constexpr std::string_view kSourceRoot = "${PROJECT_SOURCE_DIR}/";
constexpr std::string_view kNamespace = "foreshard::";

/// A path as a CMakeLists.txt of `folder` writes it, from the repository's root; empty: generated, or an option.
std::string source_path(const std::string& folder, const std::string& token) {
  if (!token.ends_with(".cpp") && !token.ends_with(".cu")) return {};
  if (token.starts_with(kSourceRoot)) return token.substr(kSourceRoot.size());
  return token.find('$') != std::string::npos ? std::string() : folder + "/" + token;
}

FolderTarget library_of(const std::string& folder, const CMakeCommand& command) {
  FolderTarget target{folder, library_name(folder), true, {}, {}, command.line};
  std::string section;
  for (const std::string& word : command.arguments) {
    if (word == "SOURCES" || word == "DEPENDS" || word == "LIBRARIES") {
      section = word;
    } else if (section == "SOURCES") {
      if (std::string path = source_path(folder, word); !path.empty()) target.sources.push_back(std::move(path));
    } else if (section == "DEPENDS") {
      target.depends.push_back(word);
    }
  }
  return target;
}

}  // namespace

std::string library_name(std::string folder) {
  std::replace(folder.begin(), folder.end(), '/', '_');
  return folder;
}

std::vector<CMakeCommand> cmake_commands(const SourceFile& cmake_lists) {
  std::vector<CMakeCommand> commands;
  std::string word;
  int depth = 0;
  bool quoted = false;
  const auto end_word = [&] {
    if (!word.empty() && depth > 0) commands.back().arguments.push_back(word);
    if (depth > 0) word.clear();
  };
  for (std::size_t i = 0; i < cmake_lists.lines.size(); ++i) {
    for (const char c : cmake_lists.lines[i]) {
      if (c == '#' && !quoted) break;
      if (c == '"') {
        quoted = !quoted;
      } else if (!quoted && c == '(' && depth++ == 0) {
        commands.push_back({word, {}, i + 1});
        word.clear();
      } else if (!quoted && c == ')' && depth == 1) {
        end_word();
        depth = 0;
      } else if (!quoted && (c == '(' || c == ')')) {
        end_word();
        if (c == ')') --depth;
      } else if (!quoted && std::isspace(static_cast<unsigned char>(c)) != 0) {
        end_word();
      } else {
        word += c;
      }
    }
    if (!quoted) end_word();
  }
  return commands;
}

std::vector<FolderTarget> folder_targets(const SourceFile& cmake_lists,
                                         const std::map<std::string, std::string>& folder_of) {
  std::vector<FolderTarget> targets;
  const std::string folder = cmake_lists.folder();
  for (const CMakeCommand& command : cmake_commands(cmake_lists)) {
    if (command.name == "foreshard_library") targets.push_back(library_of(folder, command));
    if (command.arguments.empty()) continue;
    const std::string& first = command.arguments.front();
    if (command.name == "add_executable") {
      FolderTarget target{folder, first, false, {}, {}, command.line};
      for (const std::string& word : command.arguments)
        if (std::string path = source_path(folder, word); !path.empty()) target.sources.push_back(std::move(path));
      targets.push_back(std::move(target));
    }
    if (command.name != "target_link_libraries") continue;
    const auto target = std::find_if(targets.begin(), targets.end(),
                                     [&](const FolderTarget& t) { return !t.is_library && t.name == first; });
    if (target == targets.end()) continue;
    for (const std::string& word : command.arguments) {
      if (!word.starts_with(kNamespace)) continue;
      const auto found = folder_of.find(word.substr(kNamespace.size()));
      if (found != folder_of.end()) target->depends.push_back(found->second);
    }
  }
  return targets;
}

}  // namespace foreshard::tidy
