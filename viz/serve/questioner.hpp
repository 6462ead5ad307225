// A question in SQL, answered by a process of its own: whatever SQLite does for it (a function's call that takes
// minutes, a row of gigabytes, a crash), the server goes on, and ends when it is told to.
//
// The process is this program again (/proc/self/exe) with kQuestionVerb as its first argument, which the program's main
// hands to answer_question(); the SQL goes through a file in memory, the answer through a pipe. POSIX, Linux.
#pragma once

#include <chrono>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "traces/store/open_options.hpp"

namespace foreshard::viz {

inline constexpr std::string_view kQuestionVerb = "answer-question";

struct QuestionLimits {
  std::size_t rows = 10'000;
  std::size_t bytes = 16 << 20;            ///< of the answer's text; also of any value on the way to it
  std::chrono::milliseconds time{10'000};  ///< by the clock, and as much of a processor
};

/// Asks the store at `path` and returns {"schema":1,"columns":[…],"rows":[[…]],"truncated":false}. `stopped` is asked
/// all the time; where it is true the process is ended. Errors: those of traces::query(), and usage for a question that
/// took too long, too much memory, or its process with it.
[[nodiscard]] Result<std::string> ask(const std::string& path, std::string_view sql, const QuestionLimits& limits,
                                      const std::function<bool()>& stopped, traces::OpenOptions open = {});

/// What that process does. `arguments`: those behind kQuestionVerb. Limits itself (memory, processor, files, cores),
/// reads the SQL from standard input and writes the answer, or why there is none, to standard output. Returns the
/// process's status: 0, or the number of the error's kind.
[[nodiscard]] int answer_question(std::span<const std::string> arguments);

}  // namespace foreshard::viz
