#include "tests/tidy/tidy_rules.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <regex>
#include <set>

namespace foreshard::tidy {
namespace {

constexpr std::size_t kMostLines = 800;
constexpr std::size_t kMostColumns = 120;
constexpr std::size_t kMostFunctionLines = 70;

bool is_cpp(const SourceFile& file) {
  return file.path.ends_with(".cpp") || file.path.ends_with(".hpp") || file.path.ends_with(".cu") ||
         file.path.ends_with(".cuh");
}

/// The line without its // comment and without the contents of string literals, so that words in prose
/// and messages are not taken for code.
std::string code_of(const std::string& line) {
  std::string out;
  char quote = 0;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (quote != 0) {
      if (c == '\\') ++i;
      if (c == quote) {
        quote = 0;
        out += c;
      }
      continue;
    }
    if (c == '/' && i + 1 < line.size() && line[i + 1] == '/') break;
    // A quote between digits is a separator (1'000), not a character.
    if (c == '"' || (c == '\'' && (i == 0 || std::isalnum(static_cast<unsigned char>(line[i - 1])) == 0))) quote = c;
    out += c;
  }
  return out;
}

/// Columns as people count them: one for each UTF-8 character.
std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(
      std::count_if(line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

struct Banned {
  std::regex pattern;
  const char* message;
};

void find_banned(const SourceFile& file, const std::vector<Banned>& banned, Findings& out) {
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string code = code_of(file.lines[i]);
    for (const Banned& entry : banned)
      if (std::regex_search(code, entry.pattern)) out.push_back({file.path, i + 1, entry.message});
  }
}

/// Lines of a function that starts and ends in column 0, as clang-format lays them out.
void long_functions(const SourceFile& file, Findings& out) {
  constexpr std::array<std::string_view, 9> kNotFunctions{
      "namespace", "struct", "class", "enum", "union", "extern", "constexpr", "inline constexpr", "}"};
  std::size_t start = 0;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    const std::string& line = file.lines[i];
    if (line == "}" && start != 0) {
      if (const std::size_t length = i + 2 - start; length > kMostFunctionLines)
        out.push_back({file.path, start, "a function of " + std::to_string(length) + " lines; at most 70"});
      start = 0;
    }
    const bool at_left = !line.empty() && line[0] != ' ' && line[0] != '/' && line[0] != '#';
    const bool other = std::any_of(kNotFunctions.begin(), kNotFunctions.end(),
                                   [&](std::string_view word) { return line.starts_with(word); });
    if (at_left && !other && line.find('(') != std::string::npos) start = i + 1;
    if (at_left && line.ends_with(";")) start = 0;
  }
}

}  // namespace

SourceFile source_file(std::string path, std::string_view text) {
  SourceFile file{std::move(path), {}};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    file.lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return file;
}

Findings include_direction(const SourceFile& file) {
  static const std::map<std::string, std::set<std::string>> kMay{
      {"core", {"core"}},
      {"sim", {"core", "sim"}},
      {"gpu", {"core", "gpu"}},
      {"traces", {"core", "sim", "gpu", "traces"}},
      {"viz", {"core", "sim", "gpu", "traces", "viz"}},
      {"cli", {"core", "sim", "gpu", "traces", "viz", "cli"}},
  };
  const auto may = kMay.find(file.room());
  if (may == kMay.end() || !is_cpp(file)) return {};
  static const std::regex kInclude(R"re(^\s*#\s*include\s*"([^"/]+)/)re");
  Findings out;
  for (std::size_t i = 0; i < file.lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_search(file.lines[i], match, kInclude)) continue;
    if (!may->second.contains(match[1]))
      out.push_back({file.path, i + 1, file.room() + " may not include " + match[1].str()});
  }
  return out;
}

Findings core_is_pure(const SourceFile& file) {
  if (file.room() != "core" || file.path == "core/base/check.cpp" || !is_cpp(file)) return {};
  static const std::vector<Banned> kBanned{
      {std::regex(
           R"re(^\s*#\s*include\s*<(fstream|thread|mutex|chrono|ctime|iostream|filesystem|cstdio|random|unistd\.h|fcntl\.h)>)re"),
       "core is pure: no files, clocks, threads, printing or random devices"},
      {std::regex(R"re(\b(getenv|fopen|std::cout|std::cerr|printf|fmt::print|fprintf|std::exit|std::system)\b)re"),
       "core is pure: no environment, files, printing or leaving"},
  };
  Findings out;
  find_banned(file, kBanned, out);
  return out;
}

Findings libraries_do_not_print(const SourceFile& file) {
  static const std::set<std::string> kLibraries{"sim", "gpu", "traces", "viz"};
  if (!kLibraries.contains(file.room()) || !is_cpp(file)) return {};
  static const std::vector<Banned> kBanned{
      {std::regex(R"re(\b(std::cout|std::cerr|printf|fmt::print|std::exit|std::quick_exit)\b)re"),
       "library code never prints and never exits: return a Result, count an ImportStat"},
  };
  Findings out;
  find_banned(file, kBanned, out);
  return out;
}

Findings sizes(const SourceFile& file) {
  Findings out;
  if (!is_cpp(file)) return out;
  if (file.lines.size() > kMostLines)
    out.push_back({file.path, 0, std::to_string(file.lines.size()) + " lines; at most 800"});
  for (std::size_t i = 0; i < file.lines.size(); ++i)
    if (columns(file.lines[i]) > kMostColumns && file.lines[i].find("R\"") == std::string::npos)
      out.push_back({file.path, i + 1, std::to_string(columns(file.lines[i])) + " columns; at most 120"});
  if (file.room() != "tests") long_functions(file, out);
  return out;
}

Findings path_names(const SourceFile& file) {
  static const std::regex kVague(R"re((^|[/_])(utils?|common|helpers?|misc)([/_.]|$))re");
  if (std::regex_search(file.path, kVague))
    return {{file.path, 0, "a path names a concept, not utils, common, helpers or misc"}};
  return {};
}

Findings leftovers(const SourceFile& file) {
  static const std::regex kLeftover(
      "\\b(TO"
      "DO|FIX"
      "ME|XX"
      "X)\\b");
  Findings out;
  for (std::size_t i = 0; i < file.lines.size(); ++i)
    if (std::regex_search(file.lines[i], kLeftover)) out.push_back({file.path, i + 1, "a left-over note"});
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
  if (!is_cpp(file)) return {};
  static const std::regex kDeclaration(R"re(\bunordered_(?:flat_)?(?:map|set)<.*>&?\s+(\w+)\s*[;={(,)])re");
  static const std::regex kLoop(R"re(\bfor \([^;]*[^:]:\s*(?:\w+(?:\.|->))*(\w+)\))re");
  std::set<std::string> unordered;
  for (const SourceFile* source : {&file, header}) {
    if (source == nullptr) continue;
    for (const std::string& line : source->lines) {
      std::smatch match;
      const std::string code = code_of(line);
      if (std::regex_search(code, match, kDeclaration)) unordered.insert(match[1]);
    }
  }
  Findings out;
  for (std::size_t i = 0; i < file.lines.size() && !unordered.empty(); ++i) {
    std::smatch match;
    const std::string code = code_of(file.lines[i]);
    if (std::regex_search(code, match, kLoop) && unordered.contains(match[1]))
      out.push_back({file.path, i + 1, "iterates over the unordered " + match[1].str() + ": the order is not defined"});
  }
  return out;
}

Findings explicit_sources(const SourceFile& cmake_lists, const std::vector<std::string>& sources) {
  Findings out;
  std::string all;
  for (std::size_t i = 0; i < cmake_lists.lines.size(); ++i) {
    const std::string line = cmake_lists.lines[i].substr(0, cmake_lists.lines[i].find('#'));
    if (line.find("GLOB") != std::string::npos) out.push_back({cmake_lists.path, i + 1, "sources are listed by name"});
    all += line + "\n";
  }
  for (const std::string& source : sources)
    if (all.find(source) == std::string::npos) out.push_back({cmake_lists.path, 0, source + " is not listed"});
  return out;
}

std::string text(const Finding& finding) {
  return finding.path + (finding.line == 0 ? "" : ":" + std::to_string(finding.line)) + ": " + finding.message;
}

}  // namespace foreshard::tidy
