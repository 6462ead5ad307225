#include "core/base/check.hpp"

#include <cstdio>
#include <cstdlib>

#include "core/base/check_context.hpp"

namespace foreshard {
namespace {

thread_local const CheckContext* innermost = nullptr;
thread_local bool is_failing = false;  // a check that fails while a context is described

std::string& command() {
  static std::string text;
  return text;
}

std::string quoted(const std::string& word) {
  constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+%@";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string out = "'";
  for (const char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

CheckContext::CheckContext(Describe describe, const void* object)
    : describe_(describe), object_(object), outer_(innermost) {
  innermost = this;
}

CheckContext::~CheckContext() {
  innermost = outer_;
}

std::string CheckContext::text() {
  std::string out;
  for (const CheckContext* scope = innermost; scope != nullptr; scope = scope->outer_)
    out += "  at: " + scope->describe_(scope->object_) + '\n';
  return out;
}

CheckContext reading(const std::string& path) {
  return {[](const void* of) { return "reading " + *static_cast<const std::string*>(of); }, &path};
}

void set_replay_command(int argc, const char* const* argv) {
  command().clear();
  for (int i = 0; i < argc; ++i) command() += (i == 0 ? "" : " ") + quoted(argv[i]);
}

const std::string& replay_command() {
  return command();
}

void check_failed(const char* condition, const char* file, int line, const std::string& message) {
  std::fprintf(stderr, "foreshard: internal error at %s:%d: %s\n  failed: %s\n", file, line, message.c_str(),
               condition);
  if (!is_failing) {
    is_failing = true;
    std::fputs(CheckContext::text().c_str(), stderr);
    if (!replay_command().empty())
      std::fprintf(stderr, "  again: %s\n  hint: please report it with this command and its input\n",
                   replay_command().c_str());
  }
  std::abort();
}

}  // namespace foreshard
