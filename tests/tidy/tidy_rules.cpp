#include "tests/tidy/tidy_rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>
#include <span>

#include "tests/tidy/functions.hpp"

namespace foreshard::tidy {
namespace {

constexpr std::size_t kMaxLines = 800;
constexpr std::size_t kMaxColumns = 120;
constexpr std::size_t kMaxFunctionLines = 70;

/// Columns as people count them: one for each UTF-8 character.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

/// Whether the text is in the line with no letter, digit or underscore beside its ends, where those are such.
bool has_word(const std::string& line, std::string_view word) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  for (std::size_t at = line.find(word); at != std::string::npos; at = line.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    const bool starts = !is_word(word.front()) || at == 0 || !is_word(line[at - 1]);
    const bool ends = !is_word(word.back()) || end == line.size() || !is_word(line[end]);
    if (starts && ends) return true;
  }
  return false;
}

/// A finding for each line of code that has one of the words.
void find_words(const SourceFile& file, std::span<const std::string_view> words, const char* message, Findings& out) {
  const std::vector<std::string> code = code_of(file);
  for (std::size_t i = 0; i < code.size(); ++i)
    if (std::any_of(words.begin(), words.end(), [&](std::string_view word) { return has_word(code[i], word); }))
      out.push_back({file.path, i + 1, message});
}

}  // namespace

Findings include_direction(const SourceFile& file) {
  static const std::map<std::string, std::set<std::string>> kMay{
      {"core", {"core"}},
      {"sim", {"core", "sim"}},
      {"gpu", {"core", "gpu"}},
      {"traces", {"core", "sim", "gpu", "traces"}},
      {"accuracy", {"core", "sim", "traces", "accuracy"}},
      {"viz", {"core", "sim", "gpu", "traces", "viz"}},
      {"cli", {"core", "sim", "gpu", "traces", "accuracy", "viz", "cli"}},
  };
  const auto may = kMay.find(file.room());
  if (may == kMay.end() || !file.is_cpp()) return {};
  static const std::regex kInclude(R"re(^\s*#\s*include\s*"([^"/]+)/)re");
  Findings out;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    std::smatch match;
    if (file.lines[i].find("include") == std::string::npos) continue;
    if (!std::regex_search(file.lines[i], match, kInclude)) continue;
    if (!may->second.contains(match[1]))
      out.push_back({file.path, i + 1, file.room() + " may not include " + match[1].str()});
  }
  return out;
}

Findings core_is_pure(const SourceFile& file) {
  if (file.room() != "core" || file.path == "core/base/check.cpp" || !file.is_cpp()) return {};
  static constexpr std::array<std::string_view, 11> kHeaders{"<fstream>", "<thread>",   "<mutex>",      "<chrono>",
                                                             "<ctime>",   "<iostream>", "<filesystem>", "<cstdio>",
                                                             "<random>",  "<unistd.h>", "<fcntl.h>"};
  static constexpr std::array<std::string_view, 9> kCalls{"getenv",     "fopen",   "std::cout", "std::cerr",  "printf",
                                                          "fmt::print", "fprintf", "std::exit", "std::system"};
  Findings out;
  find_words(file, kHeaders, "core is pure: no files, clocks, threads, printing or random devices", out);
  find_words(file, kCalls, "core is pure: no environment, files, printing or leaving", out);
  return out;
}

Findings libraries_do_not_print(const SourceFile& file) {
  static const std::set<std::string> kLibraries{"sim", "gpu", "traces", "accuracy", "viz"};
  if (!kLibraries.contains(file.room()) || !file.is_cpp()) return {};
  static constexpr std::array<std::string_view, 6> kCalls{"std::cout",  "std::cerr", "printf",
                                                          "fmt::print", "std::exit", "std::quick_exit"};
  Findings out;
  find_words(file, kCalls, "library code never prints and never exits: return a Result, count an ImportStat", out);
  return out;
}

Findings sizes(const SourceFile& file) {
  Findings out;
  if (!file.is_cpp()) return out;
  if (file.lines.size() > kMaxLines)
    out.push_back({file.path, 0, std::to_string(file.lines.size()) + " lines; at most 800"});
  for (std::size_t i = 0; i < file.lines.size(); ++i)
    if (columns(file.lines[i]) > kMaxColumns && file.lines[i].find("R\"") == std::string::npos)
      out.push_back({file.path, i + 1, std::to_string(columns(file.lines[i])) + " columns; at most 120"});
  if (file.room() == "tests") return out;
  for (const FunctionExtent& function : functions_of(file))
    if (function.lines() > kMaxFunctionLines)
      out.push_back(
          {file.path, function.first, "a function of " + std::to_string(function.lines()) + " lines; at most 70"});
  return out;
}

Findings path_names(const SourceFile& file) {
  static const std::regex kVague(R"re((^|[/_])(utils?|common|helpers?|misc)([/_.]|$))re");
  if (std::regex_search(file.path, kVague))
    return {{file.path, 0, "a path names a concept, not utils, common, helpers or misc"}};
  return {};
}

Findings leftovers(const SourceFile& file) {
  // In two pieces each, so that this file passes.
  static constexpr std::array<std::string_view, 3> kLeftovers{
      "TO"
      "DO",
      "FIX"
      "ME",
      "XX"
      "X"};
  Findings out;
  for (std::size_t i = 0; i < file.lines.size(); ++i)
    if (std::any_of(kLeftovers.begin(), kLeftovers.end(),
                    [&](std::string_view word) { return has_word(file.lines[i], word); }))
      out.push_back({file.path, i + 1, "a left-over note"});
  return out;
}

Findings header_form(const SourceFile& file) {
  if (!file.path.ends_with(".hpp")) return {};
  Findings out;
  if (file.lines.empty() || !file.lines[0].starts_with("// "))
    out.push_back({file.path, 1, "a header starts with a comment that says what it is and who uses it"});
  if (std::find(file.lines.begin(), file.lines.end(), "#pragma once") == file.lines.end())
    out.push_back({file.path, 0, "a header has #pragma once"});
  return out;
}

Findings unordered_iteration(const SourceFile& file, const SourceFile* header) {
  if (!file.is_cpp()) return {};
  static const std::regex kDeclaration(R"re(\bunordered_(?:flat_)?(?:map|set)<.*>&?\s+(\w+)\s*[;={(,)])re");
  static const std::regex kLoop(R"re(\bfor \([^;]*[^:]:\s*(?:\w+(?:\.|->))*(\w+)\))re");
  std::set<std::string> unordered;
  for (const SourceFile* source : {&file, header}) {
    if (source == nullptr) continue;
    for (const std::string& code : code_of(*source)) {
      std::smatch match;
      if (code.find("unordered_") != std::string::npos && std::regex_search(code, match, kDeclaration))
        unordered.insert(match[1]);
    }
  }
  Findings out;
  const std::vector<std::string> code = code_of(file);
  for (std::size_t i = 0; i < code.size() && !unordered.empty(); ++i) {
    std::smatch match;
    if (std::regex_search(code[i], match, kLoop) && unordered.contains(match[1]))
      out.push_back({file.path, i + 1, "iterates over the unordered " + match[1].str() + ": the order is not defined"});
  }
  return out;
}

}  // namespace foreshard::tidy
