#include "tests/tidy/functions.hpp"

#include <cctype>
#include <regex>

namespace foreshard::tidy {
namespace {

/// Reads the code once, brace by brace. What stands before a brace, since the last `;` or brace, says what it opens.
class FunctionReader {
 public:
  std::vector<FunctionExtent> read(const std::vector<std::string>& code) {
    bool directive = false;
    for (std::size_t i = 0; i < code.size(); ++i) {
      const std::string& line = code[i];
      const std::size_t start = line.find_first_not_of(' ');
      if (directive || (start != std::string::npos && line[start] == '#')) {
        directive = line.ends_with("\\");
        continue;
      }
      for (const char c : line) read(c, i + 1);
      read(' ', i + 1);
    }
    settle();
    return std::move(found_);
  }

 private:
  enum class Kind { scope, function, other };

  struct Open {
    Kind kind;
    std::size_t first;  ///< the line where its head begins
    std::string head;
  };

  [[nodiscard]] bool in_function() const {
    for (const Open& open : open_)
      if (open.kind == Kind::function) return true;
    return false;
  }

  void read(char c, std::size_t line) {
    if (c == '{') {
      if (pending_.first != 0) resume();
      open_.push_back({in_function() ? Kind::other : kind_of(head_), head_.empty() ? line : first_, head_});
      head_.clear();
    } else if (c == '}') {
      close(line);
    } else if (c == ';' && parentheses_ == 0) {
      end_of_head();
    } else {
      word(c, line);
    }
  }

  void word(char c, std::size_t line) {
    if (pending_.first != 0 && std::isspace(static_cast<unsigned char>(c)) == 0) {
      if (c == ',')
        resume();
      else
        settle();
    }
    if (c == '(') ++parentheses_;
    if (c == ')' && parentheses_ > 0) --parentheses_;
    if (head_.empty()) {
      if (std::isspace(static_cast<unsigned char>(c)) != 0) return;
      first_ = line;
    }
    head_ += c;
    if (c == ':' && (head_ == "public:" || head_ == "private:" || head_ == "protected:")) head_.clear();
  }

  void close(std::size_t line) {
    settle();
    if (open_.empty()) return;
    const Open open = open_.back();
    open_.pop_back();
    head_.clear();
    if (open.kind == Kind::other && !in_function() && !open.head.empty()) {
      head_ = open.head + "{}";  // `int a = {}, b`: the statement goes on to its semicolon
      first_ = open.first;
    }
    if (open.kind != Kind::function) return;
    pending_ = {open.first, line};
    pending_head_ = open.head;
  }

  void end_of_head() {
    settle();
    head_.clear();
  }

  /// A brace that a comma or a brace follows was of a member initialiser: the function goes on.
  void resume() {
    head_ = pending_head_;
    first_ = pending_.first;
    pending_ = {};
  }

  /// A function that ended, and that nothing continues.
  void settle() {
    if (pending_.first != 0) found_.push_back(pending_);
    pending_ = {};
  }

  static Kind kind_of(std::string head) {
    static const std::regex kNoise(R"re(\[\[[^\]]*\]\]|alignas\([^)]*\))re");
    static const std::regex kScope(
        R"re(^(template\s*<.*>\s*)?(inline\s+)?(typedef\s+)?(namespace|class|struct|union|enum|extern)\b[^(]*$)re");
    static const std::regex kValue(R"re((^|[^=!<>+*/&|^-])=\s*($|[^=\[\s]))re");
    head = std::regex_replace(head, kNoise, "");
    if (std::regex_match(head, kScope)) return Kind::scope;
    const std::size_t parenthesis = head.find('(');
    const std::size_t lambda = head.find("[]");
    if (parenthesis == std::string::npos) return lambda == std::string::npos ? Kind::other : Kind::function;
    if (head.find("operator") != std::string::npos) return Kind::function;
    // `X x = f({`, `X x = {`: a value. `void f(int a = 1) {` has its `=` in parentheses.
    return std::regex_search(head.substr(0, parenthesis), kValue) ? Kind::other : Kind::function;
  }

  std::vector<FunctionExtent> found_;
  std::vector<Open> open_;
  std::string head_;
  std::size_t first_ = 0;
  int parentheses_ = 0;
  FunctionExtent pending_;
  std::string pending_head_;
};

}  // namespace

std::vector<FunctionExtent> functions_of(const SourceFile& file) {
  return FunctionReader().read(code_of(file));
}

}  // namespace foreshard::tidy
