// How a room says that its caller's input is wrong.
//
// Three kinds of trouble have three mechanisms (docs/architecture.md): wrong input is an Error in a
// Result; odd but usable data is counted (core/run); our own bugs end in FORESHARD_CHECK (check.hpp).
// Library code never prints and never exits.
#pragma once

#include <string>
#include <tl/expected.hpp>
#include <utility>

namespace foreshard {

/// The class of a failure. Each has one exit code, listed in docs/exit_codes.md; never renumber.
enum class ErrorKind : int {
  usage = 2,           ///< a wrong word, option or configuration value
  input = 3,           ///< a file that cannot be read, is cut short, foreign or hostile
  mismatch = 4,        ///< readable inputs that do not belong together, or do not follow FSDP2's rules
  out_of_memory = 10,  ///< the prediction does not fit
  deadlock = 11,       ///< a schedule in which nothing can ever run again
  rank_lost = 14,      ///< a rank of a run died or left before the end
  rank_hung = 15,      ///< a rank of a run makes no progress, or is not heard of
  rendezvous = 16,     ///< the ranks of a run cannot be brought or kept together
  skipped = 77,        ///< no GPU, or no NCCL, where one is needed
  interrupted = 130,   ///< Ctrl-C
};

/// One failure, made for a person: what went wrong, where, and what to do about it.
struct Error {
  ErrorKind kind = ErrorKind::input;
  std::string what;   ///< one sentence without a full stop
  std::string where;  ///< file, and the place in it (byte, line, event index); may be empty
  std::string hint;   ///< what to do; may be empty

  /// "where: what\n  hint: hint", with the empty parts left out.
  [[nodiscard]] std::string text() const {
    std::string out = where.empty() ? what : where + ": " + what;
    if (!hint.empty()) out += "\n  hint: " + hint;
    return out;
  }
};

template <class T>
using Result = tl::expected<T, Error>;

[[nodiscard]] inline tl::unexpected<Error> fail(ErrorKind kind, std::string what, std::string where = {},
                                                std::string hint = {}) {
  return tl::unexpected<Error>(Error{kind, std::move(what), std::move(where), std::move(hint)});
}

}  // namespace foreshard

/// Returns the error of an expression, a Result, from the function around it; the expression is evaluated once. A named
/// Result keeps its value: `const auto file = read(path); FORESHARD_TRY(file); use(*file);`
#define FORESHARD_TRY(...)                                                              \
  do {                                                                                  \
    if (auto&& foreshard_result = (__VA_ARGS__); !foreshard_result)                     \
      return ::tl::unexpected<::foreshard::Error>(std::move(foreshard_result).error()); \
  } while (false)
