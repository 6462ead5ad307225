#include "tests/tidy/source_file.hpp"

#include <algorithm>
#include <array>
#include <cctype>

namespace foreshard::tidy {
namespace {

/// Takes comments and the contents of literals out of C++, over line ends.
class Stripper {
 public:
  std::string line(const std::string& text) {
    std::string out;
    for (std::size_t i = 0; i < text.size();) i = step(text, i, out);
    if (state_ == State::text) state_ = State::code;  // a literal ends with its line, unless it is raw
    return out;
  }

 private:
  enum class State { code, block_comment, text, raw_text };

  std::size_t step(const std::string& line, std::size_t i, std::string& out) {
    switch (state_) {
      case State::block_comment:
        return leave_at(line, i, "*/", State::code);
      case State::raw_text: {
        const std::size_t end = line.find(raw_end_, i);
        if (end == std::string::npos) return line.size();
        state_ = State::code;
        out += '"';
        return end + raw_end_.size();
      }
      case State::text:
        if (line[i] == '\\') return i + 2;
        if (line[i] != quote_) return i + 1;
        state_ = State::code;
        out += quote_;
        return i + 1;
      case State::code:
        break;
    }
    return code(line, i, out);
  }

  std::size_t leave_at(const std::string& line, std::size_t i, std::string_view end, State next) {
    const std::size_t at = line.find(end, i);
    if (at == std::string::npos) return line.size();
    state_ = next;
    return at + end.size();
  }

  std::size_t code(const std::string& line, std::size_t i, std::string& out) {
    const char c = line[i];
    if (line.compare(i, 2, "//") == 0) return line.size();
    if (line.compare(i, 2, "/*") == 0) {
      state_ = State::block_comment;
      return i + 2;
    }
    out += c;
    const bool after_word = i > 0 && (std::isalnum(static_cast<unsigned char>(line[i - 1])) != 0);
    if (c == '"' && i > 0 && line[i - 1] == 'R') {
      const std::size_t open = line.find('(', i);
      raw_end_ = ")" + line.substr(i + 1, open - i - 1) + "\"";
      state_ = State::raw_text;
      return open + 1;
    }
    // A quote after a digit is a separator (1'000), not a character.
    if (c == '"' || (c == '\'' && !after_word)) {
      quote_ = c;
      state_ = State::text;
    }
    return i + 1;
  }

  State state_ = State::code;
  char quote_ = 0;
  std::string raw_end_;
};

}  // namespace

std::string SourceFile::folder() const {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}

bool SourceFile::is_cpp() const {
  return path.ends_with(".cpp") || path.ends_with(".hpp") || path.ends_with(".cu") || path.ends_with(".cuh");
}

bool SourceFile::is_product() const {
  constexpr std::array<std::string_view, 7> kRooms{"core", "sim", "gpu", "traces", "accuracy", "viz", "cli"};
  const std::string own = room();
  return std::find(kRooms.begin(), kRooms.end(), own) != kRooms.end();
}

SourceFile source_file(std::string path, std::string_view text) {
  SourceFile file{std::move(path), {}};
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    file.lines.emplace_back(text.substr(0, end));
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return file;
}

Tree tree_of(const std::vector<std::pair<std::string, std::string>>& files) {
  Tree tree;
  for (const auto& [path, text] : files) tree.emplace(path, source_file(path, text));
  return tree;
}

std::vector<std::string> code_of(const SourceFile& file) {
  std::vector<std::string> out;
  Stripper stripper;
  for (const std::string& line : file.lines) out.push_back(stripper.line(line));
  return out;
}

std::string text(const Finding& finding) {
  return finding.path + (finding.line == 0 ? "" : ":" + std::to_string(finding.line)) + ": " + finding.message;
}

}  // namespace foreshard::tidy
