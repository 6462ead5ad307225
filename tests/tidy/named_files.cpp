#include "tests/tidy/named_files.hpp"

#include <algorithm>
#include <cctype>
#include <regex>

namespace foreshard::tidy {
namespace {

std::string last_of(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}
std::string first_of(const std::string& path) {
  return path.substr(0, path.find('/'));
}

bool has_capitals(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) { return std::isupper(static_cast<unsigned char>(c)) != 0; });
}

/// The part of a line that is prose: all of a document's, the comment of a source's.
std::string prose_of(const SourceFile& file, const std::string& line) {
  if (file.path.ends_with(".md")) return line;
  const std::size_t start = line.find_first_not_of(' ');
  if (start == std::string::npos) return {};
  if (line.compare(start, 1, "*") == 0 || line.compare(start, 2, "/*") == 0) return line;
  for (std::size_t at = line.find("//"); at != std::string::npos; at = line.find("//", at + 2)) {
    const bool in_literal = std::count(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(at), '"') % 2 != 0;
    const bool in_address = at > 0 && line[at - 1] == ':';
    if (!in_literal && !in_address) return line.substr(at);
  }
  return {};
}

}  // namespace

NamedFiles::NamedFiles(const std::vector<std::string>& files, const SourceFile& foreign) {
  for (const std::string& file : files) {
    paths_.insert(file);
    names_.insert(last_of(file));
    for (std::size_t at = file.rfind('/'); at != std::string::npos && at > 0; at = file.rfind('/', at - 1)) {
      const std::string folder = file.substr(0, at);
      paths_.insert(folder);
      folders_.insert(last_of(folder));
      if (folder.find('/') == std::string::npos) roots_.insert(folder);
    }
  }
  for (const std::string& row : foreign.lines)
    if (!row.empty() && !row.starts_with('#')) foreign_.insert(row.substr(0, row.find(' ')));
}

bool NamedFiles::has_path(const std::string& path) const {
  return paths_.contains(path) || has_capitals(last_of(path));
}

bool NamedFiles::has_file(const std::string& named) const {
  const std::string name = last_of(named);
  if (names_.contains(name) || foreign_.contains(name) || has_capitals(name)) return true;
  return named != name && !folders_.contains(first_of(named)) && !named.starts_with('.');
}

std::vector<std::string> NamedFiles::missing_in(const std::string& prose) const {
  static const std::regex kAddress(R"re(https?://\S+)re");
  static const std::regex kPath(R"re((^|[^\w./<>{}$*-])([a-z]+/[\w./-]*[\w]))re");
  static const std::regex kFile(R"re((^|[^\w./<>{}$*-])([\w./-]*[\w-]\.(hpp|cpp|cuh|cu|ts|md))(?![\w*-]|\.\w))re");
  const std::string text = std::regex_replace(prose, kAddress, "");
  std::vector<std::string> out;
  const auto add = [&](const std::string& named) {
    if (std::find(out.begin(), out.end(), named) == out.end()) out.push_back(named);
  };
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kPath); at != std::sregex_iterator(); ++at) {
    const std::string path = (*at)[2];
    const auto after = static_cast<std::size_t>(at->position(0) + at->length(0));
    const bool pattern = after < text.size() && std::string("*<{$/").find(text[after]) != std::string::npos &&
                         text.compare(after, 2, "/ ") != 0;
    if (!pattern && roots_.contains(first_of(path)) && !has_path(path)) add(path);
  }
  for (auto at = std::sregex_iterator(text.begin(), text.end(), kFile); at != std::sregex_iterator(); ++at)
    if (!has_file((*at)[2])) add((*at)[2]);
  return out;
}

Findings NamedFiles::missing(const SourceFile& file) const {
  Findings out;
  for (std::size_t i = 0; i < file.lines.size(); ++i)
    for (const std::string& named : missing_in(prose_of(file, file.lines[i])))
      out.push_back({file.path, i + 1, "names " + named + ", which is not there"});
  return out;
}

}  // namespace foreshard::tidy
