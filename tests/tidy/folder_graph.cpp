#include "tests/tidy/folder_graph.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include "tests/tidy/cmake_lists.hpp"

namespace foreshard::tidy {
namespace {

struct Include {
  const SourceFile* file;
  std::size_t line;  ///< from 1
  std::string path;  ///< as written: from the repository's root
};

/// The `#include "a/b.hpp"` lines of a file whose path begins with a room.
std::vector<Include> includes_of(const SourceFile& file) {
  constexpr std::string_view kInclude = "#include \"";
  std::vector<Include> out;
  if (!file.is_cpp()) return out;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    if (!line.starts_with(kInclude)) continue;
    const std::string path = line.substr(kInclude.size(), line.find('"', kInclude.size()) - kInclude.size());
    if (SourceFile{path, {}}.is_product()) out.push_back({&file, i + 1, path});
  }
  return out;
}

/// Folder -> folder -> an include that makes the edge.
using Graph = std::map<std::string, std::map<std::string, Include>>;

Graph graph_of(const Tree& tree) {
  Graph graph;
  for (const auto& [path, file] : tree) {
    if (!file.is_product()) continue;
    for (const Include& include : includes_of(file)) {
      const std::string to = SourceFile{include.path, {}}.folder();
      if (to != file.folder()) graph[file.folder()].emplace(to, include);
    }
  }
  return graph;
}

Finding cycle_finding(const Graph& graph, const std::vector<std::string>& cycle) {
  std::string names, files;
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    const Include& include = graph.at(cycle[i]).at(cycle[(i + 1) % cycle.size()]);
    names += cycle[i] + " -> ";
    files +=
        (i == 0 ? "" : ", ") + include.file->path + ":" + std::to_string(include.line) + " includes " + include.path;
  }
  const Include& first = graph.at(cycle[0]).at(cycle[1 % cycle.size()]);
  return {first.file->path, first.line, "folders include one another: " + names + cycle[0] + " (" + files + ")"};
}

std::map<std::string, std::string> library_folders(const Tree& tree) {
  std::map<std::string, std::string> out;
  for (const auto& [path, file] : tree)
    if (file.is_product() && file.name() == "CMakeLists.txt") out.emplace(library_name(file.folder()), file.folder());
  return out;
}

/// The files whose includes are the target's: its sources, and headers of its folder where they are its own.
std::vector<const SourceFile*> files_of(const FolderTarget& target, bool own_headers, const Tree& tree) {
  std::vector<const SourceFile*> out;
  for (const std::string& source : target.sources)
    if (const auto it = tree.find(source); it != tree.end()) out.push_back(&it->second);
  if (!own_headers) return out;
  for (const auto& [path, file] : tree)
    if (file.is_header() && file.folder() == target.folder) out.push_back(&file);
  return out;
}

Findings undeclared(const FolderTarget& target, bool folder_has_library, const std::string& cmake_path,
                    const Tree& tree) {
  Findings out;
  std::set<std::string> included;
  const std::set<std::string> declared(target.depends.begin(), target.depends.end());
  for (const SourceFile* file : files_of(target, target.is_library || !folder_has_library, tree))
    for (const Include& include : includes_of(*file)) {
      const std::string folder = SourceFile{include.path, {}}.folder();
      if (folder == target.folder && (target.is_library || !folder_has_library)) continue;
      if (included.insert(folder).second && !declared.contains(folder))
        out.push_back({file->path, include.line, "includes " + folder + ", which " + cmake_path + " does not declare"});
    }
  for (const std::string& folder : declared)
    if (!included.contains(folder))
      out.push_back({cmake_path, target.line, target.name + " declares " + folder + ", which it does not include"});
  return out;
}

}  // namespace

Findings folder_cycles(const Tree& tree) {
  const Graph graph = graph_of(tree);
  Findings out;
  std::set<std::string> done;
  std::vector<std::string> path;
  const std::function<void(const std::string&)> visit = [&](const std::string& folder) {
    if (const auto at = std::find(path.begin(), path.end(), folder); at != path.end()) {
      out.push_back(cycle_finding(graph, {at, path.end()}));
      return;
    }
    if (done.contains(folder)) return;
    path.push_back(folder);
    if (const auto edges = graph.find(folder); edges != graph.end())
      for (const auto& [to, include] : edges->second) visit(to);
    path.pop_back();
    done.insert(folder);
  };
  for (const auto& [folder, edges] : graph) visit(folder);
  return out;
}

Findings undeclared_folders(const Tree& tree) {
  const auto folders = library_folders(tree);
  Findings out;
  std::set<std::string> with_target;
  for (const auto& [path, file] : tree) {
    if (!file.is_product() || file.name() != "CMakeLists.txt") continue;
    const auto targets = folder_targets(file, folders);
    const bool has_library =
        std::any_of(targets.begin(), targets.end(), [](const FolderTarget& target) { return target.is_library; });
    for (const FolderTarget& target : targets) {
      with_target.insert(target.folder);
      const Findings more = undeclared(target, has_library, path, tree);
      out.insert(out.end(), more.begin(), more.end());
    }
  }
  for (const auto& [path, file] : tree)
    if (file.is_product() && file.is_cpp() && !with_target.contains(file.folder()))
      out.push_back({path, 0, "no target is declared in its folder"});
  return out;
}

Findings unlisted_sources(const Tree& tree) {
  std::map<std::string, std::set<std::string>> listed;  // by folder: every word of its CMakeLists.txt
  Findings out;
  for (const auto& [path, file] : tree) {
    if (file.name() != "CMakeLists.txt") continue;
    for (const CMakeCommand& command : cmake_commands(file)) {
      listed[file.folder()].insert(command.arguments.begin(), command.arguments.end());
      if (command.name == "file" && !command.arguments.empty() && command.arguments[0].starts_with("GLOB"))
        out.push_back({path, command.line, "sources are listed by name"});
    }
    listed.try_emplace(file.folder());
  }
  for (const auto& [path, file] : tree) {
    if (!file.is_cpp() || file.is_header()) continue;
    if (file.folder() == "cmake") continue;  // sources of the build itself, named by the root's lists
    std::string folder = file.folder();
    while (!folder.empty() && !listed.contains(folder)) folder = SourceFile{folder, {}}.folder();
    const std::string name = folder.empty() ? path : path.substr(folder.size() + 1);
    if (!listed.contains(folder) || !listed.at(folder).contains(name))
      out.push_back({path, 0, folder + "/CMakeLists.txt does not list " + name});
  }
  return out;
}

Findings unlisted_cases(const Tree& tree, const std::vector<std::string>& paths) {
  std::set<std::string> folders;
  for (const std::string& path : paths)
    if (path.ends_with(".test")) folders.insert(SourceFile{path, {}}.folder());
  Findings out;
  for (const std::string& folder : folders) {
    const std::string list = SourceFile{folder, {}}.folder() + "/CMakeLists.txt";
    const auto file = tree.find(list);
    bool listed = false;
    if (file != tree.end())
      for (const CMakeCommand& command : cmake_commands(file->second))
        listed |= std::find(command.arguments.begin(), command.arguments.end(), SourceFile{folder, {}}.name()) !=
                  command.arguments.end();
    if (!listed) out.push_back({folder, 0, list + " does not list it: its cases are not run"});
  }
  return out;
}

Findings header_names_twice(const Tree& tree) {
  std::map<std::string, std::string> first;
  Findings out;
  for (const auto& [path, file] : tree) {
    if (!file.is_product() || !file.is_header()) continue;
    const auto [it, fresh] = first.emplace(file.name(), path);
    if (!fresh) out.push_back({path, 0, "has the name of " + it->second});
  }
  return out;
}

}  // namespace foreshard::tidy
