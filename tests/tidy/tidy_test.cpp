// The house rules held against the whole tree. Runs in the repository's root.

#include <algorithm>
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/tidy/banned_words.hpp"
#include "tests/tidy/folder_graph.hpp"
#include "tests/tidy/named_files.hpp"
#include "tests/tidy/tidy_rules.hpp"

using namespace foreshard::tidy;

namespace {

/// All files of the folder with one of these endings, added to the tree. What npm made is left out.
void read_into(Tree& tree, const std::filesystem::path& folder, const std::vector<std::string>& endings) {
  if (!std::filesystem::exists(folder)) return;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string path = entry.path().generic_string();
    if (path.find("node_modules") != std::string::npos) continue;
    if (std::any_of(endings.begin(), endings.end(), [&](const std::string& end) { return path.ends_with(end); }))
      tree.emplace(path, source_file(path, foreshard::test::file_bytes(entry.path())));
  }
}

const Tree& sources() {
  static const Tree kTree = [] {
    Tree tree;
    for (const char* room : {"core", "sim", "gpu", "traces", "accuracy", "viz", "cli", "tests", "cmake", "tools"})
      read_into(tree, room, {".cpp", ".hpp", ".cu", ".cuh", ".cmake", "CMakeLists.txt"});
    return tree;
  }();
  return kTree;
}

Tree documents() {
  Tree tree;
  for (const char* path : {"README.md", "CONTRIBUTING.md"})
    tree.emplace(path, source_file(path, foreshard::test::file_bytes(path)));
  for (const char* folder : {"docs", "core", "sim", "gpu", "traces", "accuracy", "viz", "cli", "tests", "tools"})
    read_into(tree, folder, {".md"});
  return tree;
}

/// The paths of all files of the repository's folders and of its root.
std::vector<std::string> all_paths() {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator("."))
    if (entry.is_regular_file()) paths.push_back(entry.path().filename().generic_string());
  for (const char* folder :
       {"core", "sim", "gpu", "traces", "accuracy", "viz", "cli", "tests", "cmake", "tools", "docs"})
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      if (entry.is_regular_file()) paths.push_back(entry.path().generic_string());
  return paths;
}

void expect_none(const Findings& findings) {
  for (const Finding& finding : findings) {
    INFO(text(finding));
    CHECK(false);
  }
}

template <class Rule>
void hold(Rule rule) {
  REQUIRE(sources().size() > 10);
  for (const auto& [path, file] : sources()) expect_none(rule(file));
  SUCCEED();
}

}  // namespace

TEST_CASE("rooms include only rooms to their left, in the tree") {
  hold(include_direction);
}
TEST_CASE("folders do not include one another in a circle, in the tree") {
  expect_none(folder_cycles(sources()));
}
TEST_CASE("folders declare what they include, in the tree") {
  expect_none(undeclared_folders(sources()));
}
TEST_CASE("every source is listed by name, in the tree") {
  expect_none(unlisted_sources(sources()));
}
TEST_CASE("every folder of golden cases is run, in the tree") {
  expect_none(unlisted_cases(sources(), all_paths()));
}
TEST_CASE("a header's name is there once, in the tree") {
  expect_none(header_names_twice(sources()));
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

TEST_CASE("no banned words, in the tree") {
  const std::string path = "tests/tidy/banned_words.txt";
  Findings unreadable;
  const auto words = banned_words(source_file(path, foreshard::test::file_bytes(path)), unreadable);
  expect_none(unreadable);
  for (const auto& [name, file] : sources()) expect_none(banned_words_of(file, words));
  for (const auto& [name, file] : documents()) expect_none(banned_words_of(file, words));
  CHECK(documents().size() > 10);
}

TEST_CASE("files that comments and documents name are there, in the tree") {
  const std::string foreign = "tests/tidy/foreign_files.txt";
  const NamedFiles named(all_paths(), source_file(foreign, foreshard::test::file_bytes(foreign)));
  Tree scripts;
  for (const char* folder : {"viz/page/src", "tests/browser"}) read_into(scripts, folder, {".ts"});
  REQUIRE(scripts.size() > 10);
  for (const Tree& tree : {sources(), documents(), scripts})
    for (const auto& [path, file] : tree) expect_none(named.missing(file));
}

TEST_CASE("no iteration over unordered containers, in the tree") {
  for (const auto& [path, file] : sources()) {
    const auto header = sources().find(path.substr(0, path.rfind('.')) + ".hpp");
    const bool own = path.ends_with(".cpp") && header != sources().end();
    expect_none(unordered_iteration(file, own ? &header->second : nullptr));
  }
  SUCCEED();
}
