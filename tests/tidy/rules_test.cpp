#include "tests/catch.hpp"
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

TEST_CASE("source lists are explicit and complete") {
  const SourceFile glob = source_file("core/a/CMakeLists.txt", "file(GLOB sources *.cpp)\n");
  CHECK(explicit_sources(glob, {}).size() == 1);
  const SourceFile list = source_file("core/a/CMakeLists.txt", "foreshard_library(a one.cpp two.cpp)\n");
  CHECK(explicit_sources(list, {"one.cpp", "two.cpp"}).empty());
  CHECK(explicit_sources(list, {"one.cpp", "three.cpp"}).size() == 1);
}
