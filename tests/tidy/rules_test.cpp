#include "tests/catch.hpp"
#include "tests/tidy/banned_words.hpp"
#include "tests/tidy/folder_graph.hpp"
#include "tests/tidy/named_files.hpp"
#include "tests/tidy/tidy_rules.hpp"

using namespace foreshard::tidy;

TEST_CASE("rooms include only rooms to their left") {
  CHECK(include_direction(source_file("core/a/a.hpp", "#include \"sim/engine/queue.hpp\"\n")).size() == 1);
  CHECK(include_direction(source_file("sim/a/a.cpp", "#include \"gpu/cuda/device.hpp\"\n")).size() == 1);
  CHECK(include_direction(source_file("traces/a/a.cpp", "#include \"cli/verbs/verbs.hpp\"\n")).size() == 1);
  CHECK(include_direction(source_file("core/a/a.cpp", "#include \"core/b/b.hpp\"\n#include <map>\n")).empty());
  CHECK(include_direction(source_file("viz/a/a.cpp", "#include \"traces/store/reader.hpp\"\n")).empty());
  CHECK(include_direction(source_file("tests/a/a.cpp", "#include \"cli/verbs/verbs.hpp\"\n")).empty());
}

TEST_CASE("core stays pure, libraries stay quiet") {
  CHECK(core_is_pure(source_file("core/a/a.cpp", "#include <fstream>\n")).size() == 1);
  CHECK(core_is_pure(source_file("core/a/a.cpp", "auto x = std::getenv(\"HOME\");\n")).size() == 1);
  CHECK(core_is_pure(source_file("core/a/a.cpp", "// no std::cout here\nauto s = \"getenv\";\n")).empty());
  CHECK(core_is_pure(source_file("cli/main.cpp", "#include <fstream>\n")).empty());
  CHECK(core_is_pure(source_file("core/base/check.cpp", "#include <cstdio>\n")).empty());
  CHECK(libraries_do_not_print(source_file("sim/a.cpp", "std::exit(1);\n")).size() == 1);
  CHECK(libraries_do_not_print(source_file("sim/a.cpp", "std::snprintf(buffer);\n")).empty());
}

TEST_CASE("sizes") {
  CHECK(sizes(source_file("core/a.cpp", std::string(121, 'x'))).size() == 1);
  std::string accents;
  for (int i = 0; i < 120; ++i) accents += "\u00e9";
  CHECK(sizes(source_file("core/a.cpp", accents)).empty());
  std::string lines;
  for (int i = 0; i < 801; ++i) lines += "int a;\n";
  CHECK(sizes(source_file("core/a.cpp", lines)).size() == 1);
  std::string body;
  for (int i = 0; i < 69; ++i) body += "  f();\n";
  CHECK(sizes(source_file("core/a.cpp", "void g() {\n" + body + "}\n")).size() == 1);
  CHECK(sizes(source_file("core/a.cpp", "void g() {\n" + body.substr(8) + "}\n")).empty());
  CHECK(sizes(source_file("core/a.cpp", "struct A {\n" + body + "};\n")).empty());
}

TEST_CASE("names, notes and headers") {
  CHECK(path_names(source_file("core/utils/a.hpp", "")).size() == 1);
  CHECK(path_names(source_file("core/a/string_helpers.hpp", "")).size() == 1);
  CHECK(path_names(source_file("core/a/communicator.hpp", "")).empty());
  CHECK(leftovers(source_file("core/a.cpp", std::string("// TO") + "DO: later\n")).size() == 1);
  CHECK(header_form(source_file("core/a.hpp", "#pragma once\n")).size() == 1);
  CHECK(header_form(source_file("core/a.hpp", "// What it is.\n")).size() == 1);
  CHECK(header_form(source_file("core/a.hpp", "// What it is.\n#pragma once\n")).empty());
}

TEST_CASE("ranged for over unordered containers") {
  const SourceFile header = source_file("core/a.hpp", "std::unordered_map<std::string, int> ids_;\n");
  const SourceFile loop = source_file("core/a.cpp", "for (const auto& [k, v] : ids_) use(v);\n");
  CHECK(unordered_iteration(loop, &header).size() == 1);
  CHECK(unordered_iteration(loop, nullptr).empty());
  CHECK(unordered_iteration(source_file("core/a.cpp", "ids_.find(key);\n"), &header).empty());
}

namespace {

/// A library that includes another one, and what its CMakeLists.txt declares.
Tree two_folders(const std::string& declared, const std::string& included = "#include \"core/b/b.hpp\"\n") {
  return tree_of({{"core/a/CMakeLists.txt",
                   "foreshard_library(\n  SOURCES a.cpp\n  DEPENDS " + declared + "\n  LIBRARIES fmt::fmt)\n"},
                  {"core/a/a.hpp", "// A.\n"},
                  {"core/a/a.cpp", "#include \"core/a/a.hpp\"\n" + included},
                  {"core/b/CMakeLists.txt", "foreshard_library()  # headers alone\n"},
                  {"core/b/b.hpp", "// B.\n"}});
}

std::string all(const Findings& findings) {
  std::string out;
  for (const Finding& finding : findings) out += text(finding) + "\n";
  return out;
}

}  // namespace

TEST_CASE("folders in a circle are found with the files that close it") {
  CHECK(folder_cycles(two_folders("core/b")).empty());
  Tree tree = tree_of({{"core/a/a.hpp", "#include \"core/b/b.hpp\"\n"},
                       {"core/b/b.hpp", "// B.\n"},
                       {"core/b/other.cpp", "#include <map>\n#include \"sim/c/c.hpp\"\n"},
                       {"sim/c/c.hpp", "#include \"core/a/other.hpp\"\n#include \"core/b/b.hpp\"\n"}});
  const Findings circles = folder_cycles(tree);
  REQUIRE(circles.size() == 2);
  CHECK(circles[0].message ==
        "folders include one another: core/a -> core/b -> sim/c -> core/a (core/a/a.hpp:1 includes core/b/b.hpp, "
        "core/b/other.cpp:2 includes sim/c/c.hpp, sim/c/c.hpp:1 includes core/a/other.hpp)");
  CHECK(circles[1].message.find("core/b -> sim/c -> core/b") != std::string::npos);
  tree.erase("core/b/other.cpp");
  CHECK(folder_cycles(tree).empty());
}

TEST_CASE("what a folder includes is what it declares") {
  CHECK(undeclared_folders(two_folders("core/b")).empty());
  CHECK(all(undeclared_folders(two_folders(""))) ==
        "core/a/a.cpp:2: includes core/b, which core/a/CMakeLists.txt does not declare\n");
  CHECK(all(undeclared_folders(two_folders("core/b", ""))) ==
        "core/a/CMakeLists.txt:1: core_a declares core/b, which it does not include\n");
  CHECK(undeclared_folders(two_folders("core/b core/bb")).size() == 1);
  // A folder's name is not declared by another that begins so.
  CHECK(undeclared_folders(two_folders("core/bb")).size() == 2);
  // A header counts as a source does.
  CHECK(undeclared_folders(tree_of({{"core/a/CMakeLists.txt", "foreshard_library()\n"},
                                    {"core/a/a.hpp", "#include \"core/b/b.hpp\"\n"}}))
            .size() == 1);
  CHECK(all(undeclared_folders(tree_of({{"core/a/a.cpp", "int a;\n"}}))).find("no target") != std::string::npos);
}

TEST_CASE("a program links the folders that its own sources include") {
  const auto program = [](const std::string& linked) {
    return undeclared_folders(
        tree_of({{"cli/CMakeLists.txt",
                  "foreshard_library(SOURCES door.cpp DEPENDS core/b)\nadd_executable(door main.cpp)\n"
                  "target_link_libraries(door PRIVATE " +
                      linked + " CLI11::CLI11)\n"},
                 {"cli/door.cpp", "#include \"cli/door.hpp\"\n"},
                 {"cli/door.hpp", "#include \"core/b/b.hpp\"\n"},
                 {"cli/main.cpp", "#include \"cli/door.hpp\"\n"},
                 {"core/b/CMakeLists.txt", "foreshard_library()\n"},
                 {"core/b/b.hpp", "// B.\n"}}));
  };
  CHECK(all(program("foreshard::cli")).empty());
  CHECK(program("").size() == 1);
  CHECK(program("foreshard::cli foreshard::core_b").size() == 1);
}

TEST_CASE("source lists are explicit, complete and exact") {
  const auto listed = [](const std::string& cmake, const std::string& path) {
    return unlisted_sources(tree_of({{"core/a/CMakeLists.txt", cmake}, {path, "int a;\n"}})).size();
  };
  CHECK(listed("file(GLOB sources *.cpp)\nfoo(one.cpp)\n", "core/a/one.cpp") == 1);
  CHECK(listed("foreshard_library(SOURCES one.cpp)\n", "core/a/one.cpp") == 0);
  CHECK(listed("foreshard_library(SOURCES one.cpp)\n", "core/a/two.cpp") == 1);
  CHECK(listed("foreshard_library(SOURCES gpu_run.cpp)\n", "core/a/run.cpp") == 1);
  CHECK(listed("foreshard_library(SOURCES run.cpp)\n", "core/a/inner/run.cpp") == 1);
  CHECK(listed("foreshard_library(SOURCES inner/run.cpp)\n", "core/a/inner/run.cpp") == 0);
  CHECK(listed("foreshard_library(SOURCES # run.cpp\n)\n", "core/a/run.cpp") == 1);
  CHECK(listed("foreshard_library(SOURCES run.cpp)\n", "core/b/run.cpp") == 1);
  CHECK(listed("foreshard_library(SOURCES run.cpp)\n", "core/a/run.hpp") == 0);
}

TEST_CASE("folders of golden cases are listed") {
  const Tree tree = tree_of({{"tests/golden/CMakeLists.txt", "foreach(verb plan # sweep\n)\nendforeach()\n"}});
  CHECK(unlisted_cases(tree, {"tests/golden/plan/a.test", "tests/golden/inputs/a.json"}).empty());
  CHECK(all(unlisted_cases(tree, {"tests/golden/sweep/a.test", "tests/golden/sweep/b.test"})) ==
        "tests/golden/sweep: tests/golden/CMakeLists.txt does not list it: its cases are not run\n");
  CHECK(unlisted_cases({}, {"tests/golden/plan/a.test"}).size() == 1);
}

TEST_CASE("header names are there once") {
  CHECK(header_names_twice(tree_of({{"core/a/a.hpp", ""}, {"sim/b/a.hpp", ""}})).size() == 1);
  CHECK(header_names_twice(tree_of({{"core/a/a.hpp", ""}, {"tests/core/a.hpp", ""}, {"sim/b/aa.hpp", ""}})).empty());
}

TEST_CASE("functions are measured wherever they stand") {
  std::string body;
  for (int i = 0; i < 69; ++i) body += "    f({i}, \"}\");\n";
  const auto findings = [&](const std::string& before, const std::string& after) {
    return sizes(source_file("core/a.cpp", before + body + after)).size();
  };
  CHECK(findings("void g() {\n", "}\n") == 1);
  CHECK(findings("class A {\n public:\n  void g() const override {\n", "  }\n};\n") == 1);
  CHECK(findings("namespace a {\nstruct A {\n  struct B {\n    int g(int a = 1) {\n", "    }\n  };\n};\n}\n") == 1);
  CHECK(findings("A::A(int a)\n    : a_{a}, b_(1) {\n", "}\n") == 1);
  CHECK(findings("template <class T>\nauto g(T t) -> std::vector<T> {\n", "}\n") == 1);
  CHECK(findings("bool operator==(const A& a, const A& b) {\n", "}\n") == 1);
  CHECK(findings("const int kA = [] {\n", "}();\n") == 1);
  CHECK(findings("extern \"C\" {\nvoid g() {\n", "}\n}\n") == 1);
  // Of 70 lines each; tables and classes are none.
  CHECK(sizes(source_file("core/a.cpp", "void g() {\n" + body.substr(0, body.size() / 69 * 68) + "}\n")).empty());
  CHECK(findings("struct A {\n", "};\n") == 0);
  CHECK(findings("const std::vector<A> kAll = {\n", "};\n") == 0);
  CHECK(findings("// void g() {\n", "// }\n") == 0);
  CHECK(findings("#define A(x) void g(x) {\n", "\n") == 0);
  CHECK(findings("const char* kText = R\"(void g() {\n", "})\";\n") == 0);
}

TEST_CASE("banned words are found whole, by place and with what to say") {
  Findings unreadable;
  const auto words = banned_words(source_file("words.txt",
                                              "# a comment\n\nwaldo  everywhere  fred\nkMost\\w*  identifier  kMax\n"
                                              "(\\w+_)?plugh(_\\w+)?  identifier  a name\nxyzzy of  everywhere  y\n"),
                                  unreadable);
  CHECK(unreadable.empty());
  REQUIRE(words.size() == 4);
  const auto found = [&](const std::string& path, const std::string& text) {
    return banned_words_of(source_file(path, text), words).size();
  };
  CHECK(found("core/a.cpp", "int waldo = 1;\n") == 1);
  CHECK(found("core/a.cpp", "// Waldo is here.\n") == 1);
  CHECK(found("core/a.cpp", "auto s = \"--waldo\";\n") == 1);
  CHECK(found("viz/a.md", "see waldo, waldo\n") == 1);
  CHECK(found("core/a.cpp", "int waldos, my_waldo;\n") == 0);
  CHECK(found("core/a.cpp", "int kMostLines = kMost;\n") == 1);
  CHECK(found("core/a.cpp", "// kMostLines\nauto s = \"kMostLines\"; int kmost;\n") == 0);
  CHECK(found("viz/a.md", "`kMostLines`\n") == 0);
  CHECK(found("core/a.cpp", "int plugh_buffers;\nint unit_plugh;\nint plughs;\n") == 2);
  CHECK(found("viz/a.md", "the xyzzy of it\nxyzzy offers\n") == 1);
  CHECK(banned_words_of(source_file("core/a.cpp", "int waldo;\n"), words)[0].message == "'waldo': say fred");
  for (const char* row :
       {"waldo\n", "waldo somewhere fred\n", "waldo  somewhere  fred\n", "(waldo  everywhere  fred\n"}) {
    unreadable.clear();
    CHECK(banned_words(source_file("words.txt", row), unreadable).empty());
    CHECK(unreadable.size() == 1);
  }
}

TEST_CASE("files that a comment or a document names are there") {
  const NamedFiles named({"README.md", "core/step/step_runner.hpp", "core/step/step_runner.cpp", "viz/page/app.ts"},
                         source_file("foreign.txt", "# a comment\n\nengine.cpp  PyTorch\n"));
  const auto missing = [&](const std::string& path, const std::string& text) {
    return all(named.missing(source_file(path, text)));
  };
  CHECK(missing("core/a.cpp", "// as step.hpp says\n") == "core/a.cpp:1: names step.hpp, which is not there\n");
  CHECK(missing("core/a.cpp", "int a;  ///< of core/steps\n") ==
        "core/a.cpp:1: names core/steps, which is not there\n");
  CHECK(missing("core/a.cpp", "// (core/step/runner.cpp)\n").find("core/step/runner.cpp") != std::string::npos);
  CHECK(missing("core/a.cpp", "// step/runner.cpp's\n").find("step/runner.cpp") != std::string::npos);
  CHECK(missing("viz/a.md", "see `core/step/old.txt`.\n").find("core/step/old.txt") != std::string::npos);
  CHECK(missing("viz/a.md", "see [old](old.md)\n").find("old.md") != std::string::npos);
  CHECK(missing("viz/page/b.ts", "/**\n * As page.ts.\n */\n").find(":2: names page.ts") != std::string::npos);
  // What is there, by name, by path or by folder.
  CHECK(missing("core/a.cpp", "// step_runner.cpp, core/step, core/step/step_runner.hpp's, step/step_runner.hpp.\n") ==
        "");
  CHECK(missing("viz/a.md", "[app](../viz/page/app.ts), README.md and core/step/.\n") == "");
  // Code, addresses, other projects' files and placeholders.
  CHECK(missing("core/a.cpp", "auto a = \"old.hpp\"; auto b = \"https://a.org/b.md\";\n") == "");
  CHECK(missing("core/a.cpp", "// https://example.org/core/old.hpp\n") == "");
  CHECK(missing("core/a.cpp", "// c10/cuda/CUDACachingAllocator.cpp, torch/csrc/run.cpp, engine.cpp\n") == "");
  CHECK(missing("viz/a.md", "core/step/NAME.json, core/step/read_*.cpp, core/<folder>, old.cpp.in\n") == "");
}
