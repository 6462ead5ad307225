// The house rules held against the whole tree. Runs in the repository's root.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/tidy/tidy_rules.hpp"

using namespace foreshard::tidy;

namespace {

const std::map<std::string, SourceFile>& tree() {
  static const std::map<std::string, SourceFile> kTree = [] {
    std::map<std::string, SourceFile> files;  // ordered: findings come in one order on every file system
    for (const char* room : {"core", "sim", "gpu", "traces", "viz", "cli", "tests", "cmake", "tools"}) {
      if (!std::filesystem::exists(room)) continue;
      for (const auto& entry : std::filesystem::recursive_directory_iterator(room)) {
        const std::string path = entry.path().generic_string();
        const std::string extension = entry.path().extension().string();
        const bool source = extension == ".cpp" || extension == ".hpp" || extension == ".cu" || extension == ".cuh" ||
                            extension == ".cmake" || path.ends_with("CMakeLists.txt");
        if (!source || path.find("node_modules") != std::string::npos) continue;
        std::ostringstream text;
        text << std::ifstream(path).rdbuf();
        files.emplace(path, source_file(path, text.str()));
      }
    }
    return files;
  }();
  return kTree;
}

void expect_none(const Findings& findings) {
  for (const Finding& finding : findings) {
    INFO(text(finding));
    CHECK(false);
  }
}

template <class Rule>
void hold(Rule rule) {
  REQUIRE(tree().size() > 10);
  for (const auto& [path, file] : tree()) expect_none(rule(file));
  SUCCEED();
}

}  // namespace

TEST_CASE("rooms include only rooms to their left, in the tree") {
  hold(include_direction);
}
TEST_CASE("core is pure, in the tree") {
  hold(core_is_pure);
}
TEST_CASE("libraries do not print, in the tree") {
  hold(libraries_do_not_print);
}
TEST_CASE("sizes, in the tree") {
  hold(sizes);
}
TEST_CASE("path names, in the tree") {
  hold(path_names);
}
TEST_CASE("no left-over notes, in the tree") {
  hold(leftovers);
}
TEST_CASE("headers say what they are, in the tree") {
  hold(header_form);
}

TEST_CASE("no iteration over unordered containers, in the tree") {
  for (const auto& [path, file] : tree()) {
    const auto header = tree().find(path.substr(0, path.rfind('.')) + ".hpp");
    const bool own = path.ends_with(".cpp") && header != tree().end();
    expect_none(unordered_iteration(file, own ? &header->second : nullptr));
  }
  SUCCEED();
}

TEST_CASE("every source is listed by name, in the tree") {
  for (const auto& [path, file] : tree()) {
    if (!path.ends_with("CMakeLists.txt")) continue;
    const std::string folder = path.substr(0, path.rfind('/') + 1);
    std::vector<std::string> sources;
    for (const auto& [other, unused] : tree())
      if (other.starts_with(folder) && other.find('/', folder.size()) == std::string::npos &&
          (other.ends_with(".cpp") || other.ends_with(".cu")))
        sources.push_back(other.substr(folder.size()));
    expect_none(explicit_sources(file, sources));
  }
  SUCCEED();
}
