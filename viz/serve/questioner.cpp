#include "viz/serve/questioner.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/json_io.hpp"
#include "core/base/json_schema.hpp"
#include "traces/files/uninterrupted.hpp"
#include "traces/files/write_all.hpp"
#include "traces/store/query.hpp"

extern char** environ;

namespace foreshard::viz {
namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks{50};  // at `stopped` and the clock
/// Of SQLite beside the values at hand: the views need 6 MiB of it for a store of a million allocator events ("a
/// snapshot" of tests/fault/sizes.py).
constexpr std::size_t kOwnHeap = 32 << 20;
constexpr std::size_t kOwnAddresses = 64 << 20;  // the program with its libraries and stack has 21 MiB before it asks
constexpr rlim_t kTemporaryFile = rlim_t{1} << 30;  // that SQLite sorts in
constexpr std::size_t kLongestQuestion = 1 << 20;

/// A descriptor that is closed at the end, and never one of the standard three.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {
    if (number_ < 0 || number_ > STDERR_FILENO) return;
    const int higher = ::fcntl(number_, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    ::close(number_);
    number_ = higher;
  }
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

tl::unexpected<Error> failed(const std::string& path, const char* call) {
  return fail(ErrorKind::input, fmt::format("the question cannot be asked: {}: {}", call, std::strerror(errno)), path);
}

tl::unexpected<Error> took_too_long(const std::string& path) {
  return fail(ErrorKind::usage, "the query took too long and was ended", path,
              "narrow the query, or use foreshard query");
}

/// A child that is gone, and waited for, when this is.
class Child {
 public:
  explicit Child(pid_t process) : process_(process) {}
  ~Child() {
    if (process_ > 0) ::kill(process_, SIGKILL);
    static_cast<void>(wait());
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  /// As waitpid() has it; once.
  int wait() {
    int status = 0;
    if (process_ > 0) static_cast<void>(traces::uninterrupted([&] { return ::waitpid(process_, &status, 0); }));
    process_ = 0;
    return status;
  }

 private:
  pid_t process_;
};

/// `in` and `out` become its standard input and output; it has no other descriptor of ours.
std::optional<pid_t> start(std::vector<std::string> arguments, int in, int out) {
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, STDERR_FILENO + 1);
  pid_t process = 0;
  const int error = ::posix_spawn(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  errno = error;
  return error == 0 ? std::optional(process) : std::nullopt;
}

/// Until the process closes it. Errors: usage, when it is late or `stopped` says so.
Result<std::string> read_answer(int pipe, const std::string& path, const QuestionLimits& limits,
                                const std::function<bool()>& stopped) {
  const Clock::time_point deadline = Clock::now() + limits.time + kBetweenLooks;  // the process looks at its own clock
  std::string text;
  std::array<char, 64 << 10> part{};
  for (;;) {
    if (stopped() || Clock::now() > deadline) return took_too_long(path);
    pollfd waiting{pipe, POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(kBetweenLooks.count())) <= 0) continue;
    const ssize_t n = traces::uninterrupted([&] { return ::read(pipe, part.data(), part.size()); });
    if (n <= 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
    if (text.size() > 2 * limits.bytes + part.size()) return fail(ErrorKind::usage, "the answer is too long", path);
  }
}

/// Beyond the first a signal comes where there is one, beyond the second the end.
void limit(int resource, rlim_t soft, rlim_t hard) {
  const rlimit both{soft, hard};
  static_cast<void>(::setrlimit(static_cast<__rlimit_resource>(resource), &both));
}

/// Of SQLite, which then says what lacks: a value and the arguments of a function, each as long as a value may be.
std::size_t heap_of(const QuestionLimits& limits) {
  constexpr std::size_t kValues = 16;
  return kOwnHeap + kValues * limits.bytes;
}

/// Of the process: beside SQLite's, the row at hand as values and as JSON, and its text, in which each byte may stand
/// as six, in a string that has grown by doubling (the old one, and up to twice as much).
[[maybe_unused]] std::size_t addresses_of(const QuestionLimits& limits) {
  return heap_of(limits) + kOwnAddresses + (1 + 1 + 3 * 6) * limits.bytes;
}

void limit_this_process(const QuestionLimits& limits) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::signal(SIGXFSZ, SIG_IGN);  // a write beyond the limit is an error
  limit(RLIMIT_CORE, 0, 0);
  limit(RLIMIT_FSIZE, kTemporaryFile, kTemporaryFile);
  const auto seconds = static_cast<rlim_t>(limits.time.count() / 1000 + 1);
  limit(RLIMIT_CPU, seconds, seconds + 1);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // those take terabytes of addresses
  limit(RLIMIT_AS, addresses_of(limits), addresses_of(limits));
#endif
}

Json as_json(const traces::QueryValue& value) {
  return std::visit(
      []<class T>(const T& of) {
        if constexpr (std::is_same_v<T, std::monostate>)
          return Json();
        else
          return Json(of);
      },
      value);
}

Result<std::string> answer(const std::string& path, std::string_view sql, const QuestionLimits& limits,
                           traces::OpenOptions open) {
  std::string text;
  bool full = false;
  const traces::RowSink sink{[&](const std::vector<std::string>& names) {
                               text = fmt::format("{{\"schema\":{},\"columns\":{},\"rows\":[", kJsonSchema,
                                                  json_text(Json(names)));
                             },
                             [&, first = true](const std::vector<traces::QueryValue>& values) mutable {
                               Json cells = Json::array();
                               for (const traces::QueryValue& value : values) cells.push_back(as_json(value));
                               const std::string row = json_text(cells);
                               full = text.size() + row.size() > limits.bytes;
                               if (full) return false;
                               if (!first) text += ',';
                               first = false;
                               text += row;
                               return true;
                             }};
  const Clock::time_point deadline = Clock::now() + limits.time;
  const auto truncated = traces::query_rows(
      path, sql,
      {limits.rows, limits.bytes, static_cast<std::int64_t>(heap_of(limits)), [&] { return Clock::now() > deadline; }},
      sink, open);
  FORESHARD_TRY(truncated);
  return text + (*truncated ? "],\"truncated\":true}" : "],\"truncated\":false}");
}

std::string read_question() {
  std::string sql;
  std::array<char, 16 << 10> part{};
  while (sql.size() < kLongestQuestion) {
    const ssize_t n = traces::uninterrupted([&] { return ::read(STDIN_FILENO, part.data(), part.size()); });
    if (n <= 0) break;
    sql.append(part.data(), static_cast<std::size_t>(n));
  }
  return sql;
}

}  // namespace

Result<std::string> ask(const std::string& path, std::string_view sql, const QuestionLimits& limits,
                        const std::function<bool()>& stopped, traces::OpenOptions open) {
  Descriptor question(::memfd_create("question", MFD_CLOEXEC));
  if (question.number() < 0 || !traces::write_all(question.number(), sql) ||
      ::lseek(question.number(), 0, SEEK_SET) != 0)
    return failed(path, "memfd_create");
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed(path, "pipe2");
  Descriptor reading(ends[0]), writing(ends[1]);
  const auto process = start(
      {"/proc/self/exe", std::string(kQuestionVerb), path, std::to_string(limits.rows), std::to_string(limits.bytes),
       std::to_string(limits.time.count()), std::to_string(open.unverified ? 1 : 0)},
      question.number(), writing.number());
  if (!process) return failed(path, "posix_spawn");
  Child child(*process);
  writing.close();
  auto text = read_answer(reading.number(), path, limits, stopped);
  FORESHARD_TRY(text);
  const int status = child.wait();
  if (WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU) return took_too_long(path);
  if (WIFSIGNALED(status))
    return fail(ErrorKind::usage,
                fmt::format("the question ended the process that answered it: signal {} ({})", WTERMSIG(status),
                            ::strsignal(WTERMSIG(status))),
                path, "please report it with the question");
  if (WEXITSTATUS(status) != 0) return fail(static_cast<ErrorKind>(WEXITSTATUS(status)), std::move(*text));
  return text;
}

int answer_question(std::span<const std::string> arguments) {
  std::array<std::uint32_t, 4> numbers{};
  if (arguments.size() != 1 + numbers.size()) return static_cast<int>(ErrorKind::usage);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::string& text = arguments[i + 1];
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), numbers[i]);
    if (error != std::errc() || end != text.data() + text.size()) return static_cast<int>(ErrorKind::usage);
  }
  const QuestionLimits limits{numbers[0], numbers[1], std::chrono::milliseconds(numbers[2])};
  limit_this_process(limits);
  std::set_new_handler(nullptr);  // what does not fit is an answer here
  Result<std::string> text = std::string();
  try {
    text = answer(arguments[0], read_question(), limits, {numbers[3] != 0});
  } catch (const std::bad_alloc&) {
    text = fail(ErrorKind::usage, "the question needs more memory than it may have", arguments[0], "narrow the query");
  }
  if (!traces::write_all(STDOUT_FILENO, text ? *text : text.error().text())) return static_cast<int>(ErrorKind::input);
  return text ? 0 : static_cast<int>(text.error().kind);
}

}  // namespace foreshard::viz
