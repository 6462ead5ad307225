#include "gpu/launch/process.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <linux/close_range.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace foreshard::gpu {
namespace {

tl::unexpected<Error> refuse(std::string_view what, std::string_view where, int error) {
  return fail(ErrorKind::input, fmt::format("{}: {}", what, std::generic_category().message(error)),
              std::string(where));
}

struct Pipe {
  OwnedDescriptor read, write;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return refuse("no pipe can be had", "launcher", errno);
  return Pipe{OwnedDescriptor(ends[0]), OwnedDescriptor(ends[1])};
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

struct Child {
  char* const* arguments;
  char* const* variables;
  int nothing;  ///< /dev/null
  int words;
  int report;  ///< where errno goes if there is no program to run
  int parent;
  bool keep_output;
};

/// Between fork and exec: only calls that signal-safety(7) lists.
[[noreturn]] void become(const Child& child) {
  for (int signal = 1; signal < NSIG; ++signal)
    if (signal != SIGKILL && signal != SIGSTOP) ::signal(signal, SIG_DFL);
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != child.parent) ::_exit(1);  // it died before the line above
  ::dup2(child.nothing, STDIN_FILENO);
  ::dup2(child.words, STDERR_FILENO);
  if (!child.keep_output) ::dup2(child.words, STDOUT_FILENO);
  ::close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);  // sockets and files of the launcher's; ENOSYS: they are mostly so anyway
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(child.arguments[0], child.arguments, child.variables);
  const int error = errno;
  [[maybe_unused]] const auto written = ::write(child.report, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Result<Process> start_process(const std::vector<std::string>& command, const Variables& variables, bool keep_output) {
  std::vector<std::string> arguments = command, settings;
  for (const auto& [name, value] : variables) settings.push_back(name + "=" + value);
  const std::vector<char*> argument_pointers = pointers(arguments), setting_pointers = pointers(settings);
  auto words = make_pipe(), report = make_pipe();
  FORESHARD_TRY(words);
  FORESHARD_TRY(report);
  const OwnedDescriptor nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing) return refuse("cannot be opened", "/dev/null", errno);
  const Child child{argument_pointers.data(),
                    setting_pointers.data(),
                    nothing.get(),
                    words->write.get(),
                    report->write.get(),
                    ::getpid(),
                    keep_output};
  // A signal in the child before exec would run this process's handlers there.
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  const pid_t id = ::fork();
  const int error = errno;
  if (id == 0) become(child);
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (id < 0) return refuse("cannot be started", command[0], error);
  ::setpgid(id, id);  // whichever of the two comes first
  report->write.reset();
  int reason = 0;
  ssize_t got;
  do got = ::read(report->read.get(), &reason, sizeof reason);
  while (got < 0 && errno == EINTR);
  if (got > 0) {
    ::waitpid(id, nullptr, 0);
    return refuse("cannot be started", command[0], reason);
  }
  return Process{id, std::move(words->read)};
}

std::optional<RankEnd> ended(int process) {
  siginfo_t info{};
  // Looks before it reaps: as long as the process is not reaped, its group's number is nobody else's.
  if (::waitid(P_PID, static_cast<id_t>(process), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  ::kill(-process, SIGKILL);
  int status = 0;
  if (::waitpid(process, &status, 0) != process) return std::nullopt;
  if (WIFSIGNALED(status)) return RankEnd{128 + WTERMSIG(status), WTERMSIG(status)};
  return RankEnd{WEXITSTATUS(status), 0};
}

void signal_group(int process, int signal) {
  ::kill(-process, signal);
}

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("signal {} (SIG{})", signal, name);
}

}  // namespace foreshard::gpu
