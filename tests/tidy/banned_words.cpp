#include "tests/tidy/banned_words.hpp"

#include <algorithm>
#include <cctype>
#include <regex>

namespace foreshard::tidy {
namespace {

bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

std::regex compiled(const BannedWord& word) {
  const bool phrase = word.pattern.find(' ') != std::string::npos;
  const bool any_case = std::none_of(word.pattern.begin(), word.pattern.end(),
                                     [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; });
  const auto flags = any_case ? std::regex::ECMAScript | std::regex::icase : std::regex::ECMAScript;
  return std::regex(phrase ? "\\b(" + word.pattern + ")\\b" : word.pattern, flags);
}

/// The first match in the line; empty without one. `whole_words`: the pattern has to match a word from end to end.
std::string match_in(const std::string& line, const std::regex& pattern, bool whole_words) {
  if (!whole_words) {
    std::smatch match;
    return std::regex_search(line, match, pattern) ? match.str() : std::string();
  }
  for (auto it = line.begin(); it != line.end();) {
    it = std::find_if(it, line.end(), is_word);
    const auto end = std::find_if_not(it, line.end(), is_word);
    if (it != end && std::regex_match(it, end, pattern)) return {it, end};
    it = end;
  }
  return {};
}

std::vector<std::string> columns_of(const std::string& row) {
  std::vector<std::string> columns;
  for (std::size_t at = 0; at < row.size();) {
    const std::size_t end = std::min(row.find("  ", at), row.size());
    columns.push_back(row.substr(at, end - at));
    at = std::min(row.find_first_not_of(' ', end), row.size());
  }
  return columns;
}

}  // namespace

std::vector<BannedWord> banned_words(const SourceFile& table, Findings& findings) {
  std::vector<BannedWord> words;
  for (std::size_t i = 0; i < table.lines.size(); ++i) {
    const std::string& row = table.lines[i];
    if (row.empty() || row.starts_with('#')) continue;
    const std::vector<std::string> columns = columns_of(row);
    if (columns.size() != 3 || (columns[1] != "identifier" && columns[1] != "everywhere")) {
      findings.push_back({table.path, i + 1, "a row is WORD, identifier or everywhere, and what to say instead"});
      continue;
    }
    BannedWord word{columns[0], columns[1] == "everywhere", columns[2]};
    try {
      (void)compiled(word);
      words.push_back(std::move(word));
    } catch (const std::regex_error&) {
      findings.push_back({table.path, i + 1, "not a regular expression: " + columns[0]});
    }
  }
  return words;
}

Findings banned_words_of(const SourceFile& file, const std::vector<BannedWord>& words) {
  Findings out;
  if (words.empty()) return out;
  const std::vector<std::string> code = file.is_cpp() ? code_of(file) : std::vector<std::string>();
  for (const BannedWord& word : words) {
    if (!word.everywhere && !file.is_cpp()) continue;
    const std::regex pattern = compiled(word);
    const bool whole_words = word.pattern.find(' ') == std::string::npos;
    const std::vector<std::string>& lines = word.everywhere ? file.lines : code;
    for (std::size_t i = 0; i < lines.size(); ++i)
      if (const std::string found = match_in(lines[i], pattern, whole_words); !found.empty())
        out.push_back({file.path, i + 1, "'" + found + "': say " + word.instead});
  }
  return out;
}

}  // namespace foreshard::tidy
