// inject: runs a command and makes one of its system calls fail, fall short, or be its last.
//
//   inject [--calls write|read|open] [--under FOLDER] [--at K] [--do ACTION] [--lasting] --report FILE -- COMMAND
//   [ARG...]
//
// Counted are the calls that write (or read, or open to read) files below FOLDER, of the command and of the programs
// that it starts, in the order in which they come. The K-th (from 1; 0: none, they are only counted) is acted upon
// before it happens:
//   kill      SIGKILL to the process that calls          short     half of its bytes are written or read
//   int, term, hup   that signal, and the call goes on   enospc, eio, eintr, edquot, emfile, eacces   it fails so
// --lasting: every later call that can fail so does as well, as on a disk that stays full. An error that a call
// cannot have (EINTR of rename) is not made up: the call goes on, and the report says `acted 0`.
//
// FILE has lines `calls N`, `acted N` (how many), `call NAME PATH` (the first one acted upon) and `orphans N` (programs
// that the command left running; they are killed after two seconds). inject ends as the command did.
//
// It stands on the kernel's user notifications of seccomp (Linux 5.6 and later), so it needs no root, sees calls that
// libc makes for itself, and does not care how the program was linked or which sanitizer is in it. Exit 77: the kernel
// (or a container's rules) does not let it.
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr int kSkipped = 77;

/// What a call's arguments are, and which errors it may have.
struct Call {
  int number;
  const char* name;
  enum class Kind { descriptor, path, open } kind;
  int path_argument = 0;       ///< of Kind::path and open: which one
  int folder_argument = -1;    ///< the descriptor that a relative path is below, or -1: the working directory
  bool moves_bytes = false;    ///< (descriptor, buffer, count[, offset])
  bool may_interrupt = false;  ///< EINTR
  bool may_fill = true;        ///< ENOSPC, EDQUOT
};

using Kind = Call::Kind;

const std::vector<Call>& write_calls() {
  static const std::vector<Call> kCalls = {
      {SYS_write, "write", Kind::descriptor, 0, -1, true, true},
      {SYS_pwrite64, "pwrite64", Kind::descriptor, 0, -1, true, true},
      {SYS_writev, "writev", Kind::descriptor, 0, -1, false, true},
      {SYS_fsync, "fsync", Kind::descriptor, 0, -1, false, true},
      {SYS_fdatasync, "fdatasync", Kind::descriptor, 0, -1, false, true},
      {SYS_ftruncate, "ftruncate", Kind::descriptor, 0, -1, false, true},
      {SYS_fallocate, "fallocate", Kind::descriptor, 0, -1, false, true},
      {SYS_openat, "openat", Kind::open, 1, 0, false, true},
      {SYS_mkdirat, "mkdirat", Kind::path, 1, 0},
      {SYS_unlinkat, "unlinkat", Kind::path, 1, 0, false, false, false},
      {SYS_renameat, "renameat", Kind::path, 1, 0},
      {SYS_renameat2, "renameat2", Kind::path, 1, 0},
#ifdef SYS_open  // not on aarch64
      {SYS_open, "open", Kind::open, 0, -1, false, true},
      {SYS_creat, "creat", Kind::path, 0, -1, false, true},
      {SYS_mkdir, "mkdir", Kind::path, 0},
      {SYS_rename, "rename", Kind::path, 0},
      {SYS_unlink, "unlink", Kind::path, 0, -1, false, false, false},
      {SYS_rmdir, "rmdir", Kind::path, 0, -1, false, false, false},
#endif
  };
  return kCalls;
}

const std::vector<Call>& read_calls() {
  static const std::vector<Call> kCalls = {
      {SYS_read, "read", Kind::descriptor, 0, -1, true, true, false},
      {SYS_pread64, "pread64", Kind::descriptor, 0, -1, true, true, false},
      {SYS_readv, "readv", Kind::descriptor, 0, -1, false, true, false},
  };
  return kCalls;
}

const std::vector<Call>& open_calls() {
  static const std::vector<Call> kCalls = {
      {SYS_openat, "openat", Kind::open, 1, 0, false, true, false},
#ifdef SYS_open
      {SYS_open, "open", Kind::open, 0, -1, false, true, false},
#endif
  };
  return kCalls;
}

struct Options {
  std::string calls = "write";
  std::string under = "/";
  long at = 0;
  std::string action = "kill";
  bool lasting = false;
  std::string report;
  std::vector<char*> command;  ///< ends with nullptr
};

const std::map<std::string, int> kErrors = {{"enospc", ENOSPC}, {"eio", EIO},       {"eintr", EINTR},
                                            {"edquot", EDQUOT}, {"emfile", EMFILE}, {"eacces", EACCES}};
const std::map<std::string, int> kSignals = {{"kill", SIGKILL}, {"int", SIGINT}, {"term", SIGTERM}, {"hup", SIGHUP}};

[[noreturn]] void give_up(const char* what, int status) {
  std::fprintf(stderr, "inject: %s: %s\n", what, std::strerror(errno));
  _exit(status);
}

std::optional<Options> read_options(int count, char** words) {
  Options out;
  for (int i = 1; i < count; ++i) {
    const std::string word = words[i];
    if (word == "--") {
      out.command.assign(words + i + 1, words + count);
      out.command.push_back(nullptr);
      break;
    }
    if (word == "--lasting") {
      out.lasting = true;
      continue;
    }
    if (++i >= count) return std::nullopt;
    const std::string value = words[i];
    if (word == "--calls")
      out.calls = value;
    else if (word == "--under")
      out.under = value;
    else if (word == "--at")
      out.at = std::atol(value.c_str());
    else if (word == "--do")
      out.action = value;
    else if (word == "--report")
      out.report = value;
    else
      return std::nullopt;
  }
  const bool known = out.action == "short" || kErrors.count(out.action) > 0 || kSignals.count(out.action) > 0;
  const bool counted = out.calls == "write" || out.calls == "read" || out.calls == "open";
  if (!counted || out.command.size() < 2 || out.report.empty() || !known) return std::nullopt;
  return out;
}

/// The filter: the calls listed ask the listener, all others go on.
int install_filter(const std::vector<Call>& calls) {
  std::vector<sock_filter> program;
  program.push_back(BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)));
  for (const Call& call : calls) {
    program.push_back(BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<unsigned>(call.number), 0, 1));
    program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
  }
  program.push_back(BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
  const sock_fprog filter{static_cast<unsigned short>(program.size()), program.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return -1;
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &filter));
}

/// One descriptor through a socket, with sendmsg and recvmsg: the filter does not look at them. A byte goes with it.
/// Stays where it is: the message points into it.
class Envelope {
 public:
  Envelope() {
    message_.msg_iov = &piece_;
    message_.msg_iovlen = 1;
    message_.msg_control = control_.data();
    message_.msg_controllen = control_.size();
  }
  Envelope(const Envelope&) = delete;
  Envelope& operator=(const Envelope&) = delete;

  [[nodiscard]] bool send(int socket, int descriptor) {
    cmsghdr& header = *CMSG_FIRSTHDR(&message_);
    header.cmsg_level = SOL_SOCKET;
    header.cmsg_type = SCM_RIGHTS;
    header.cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(&header), &descriptor, sizeof descriptor);
    return ::sendmsg(socket, &message_, 0) == 1;
  }

  /// -1: none came.
  [[nodiscard]] int receive(int socket) {
    if (::recvmsg(socket, &message_, MSG_CMSG_CLOEXEC) != 1) return -1;
    int descriptor = -1;
    std::memcpy(&descriptor, CMSG_DATA(CMSG_FIRSTHDR(&message_)), sizeof descriptor);
    return descriptor;
  }

 private:
  char byte_ = 0;
  iovec piece_{&byte_, 1};
  msghdr message_{};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control_{};
};

std::string link_target(const std::string& link) {
  std::array<char, PATH_MAX> target;
  const ssize_t size = ::readlink(link.c_str(), target.data(), target.size());
  return size > 0 ? std::string(target.data(), static_cast<std::size_t>(size)) : std::string();
}

std::string text_of(pid_t process, std::uint64_t address) {
  std::string out;
  std::array<char, 256> piece;
  while (out.size() < PATH_MAX) {
    iovec here{piece.data(), piece.size() - (address + out.size()) % piece.size()};  // never over the end of a page
    iovec there{reinterpret_cast<void*>(address + out.size()), here.iov_len};
    const ssize_t got = ::process_vm_readv(process, &here, 1, &there, 1, 0);
    if (got <= 0) break;
    char* const end = std::find(piece.data(), piece.data() + got, '\0');
    out.append(piece.data(), end);
    if (end != piece.data() + got) break;
  }
  return out;
}

class Supervisor {
 public:
  Supervisor(const Options& options, const std::vector<Call>& calls, int listener)
      : options_(options), calls_(calls), listener_(listener) {}

  void answer();
  void report(int orphans) const;

 private:
  [[nodiscard]] const Call* counted(const seccomp_notif& asked, std::string& path) const;
  [[nodiscard]] std::string path_of(const seccomp_notif& asked, const Call& call) const;
  [[nodiscard]] bool act(const seccomp_notif& asked, const Call& call, seccomp_notif_resp& response) const;
  [[nodiscard]] bool fall_short(const seccomp_notif& asked, const Call& call, seccomp_notif_resp& response) const;

  const Options& options_;
  const std::vector<Call>& calls_;
  int listener_;
  long seen_ = 0, acted_ = 0;
  std::string first_;
};

std::string Supervisor::path_of(const seccomp_notif& asked, const Call& call) const {
  const std::string process = "/proc/" + std::to_string(asked.pid);
  if (call.kind == Kind::descriptor) return link_target(process + "/fd/" + std::to_string(asked.data.args[0]));
  std::string path = text_of(static_cast<pid_t>(asked.pid), asked.data.args[call.path_argument]);
  if (!path.empty() && path[0] == '/') return path;
  const int folder = call.folder_argument < 0 ? AT_FDCWD : static_cast<int>(asked.data.args[call.folder_argument]);
  return link_target(process + (folder == AT_FDCWD ? "/cwd" : "/fd/" + std::to_string(folder))) + "/" + path;
}

const Call* Supervisor::counted(const seccomp_notif& asked, std::string& path) const {
  const auto call =
      std::find_if(calls_.begin(), calls_.end(), [&](const Call& each) { return each.number == asked.data.nr; });
  if (call == calls_.end()) return nullptr;
  if (call->kind == Kind::open) {
    const auto flags = static_cast<int>(asked.data.args[call->path_argument + 1]);
    const bool writes = (flags & (O_WRONLY | O_RDWR | O_CREAT | O_TRUNC)) != 0;
    if (writes != (options_.calls == "write")) return nullptr;
  }
  path = path_of(asked, *call);
  return path.starts_with(options_.under) ? &*call : nullptr;
}

/// Does half of the call in the caller's place, through its own descriptor.
bool Supervisor::fall_short(const seccomp_notif& asked, const Call& call, seccomp_notif_resp& response) const {
  const std::uint64_t count = asked.data.args[2];
  if (!call.moves_bytes || count < 2) return false;
  std::ifstream facts("/proc/" + std::to_string(asked.pid) + "/status");
  pid_t process = 0;
  for (std::string word; facts >> word;)
    if (word == "Tgid:") facts >> process;
  const int handle = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
  const int file = static_cast<int>(::syscall(SYS_pidfd_getfd, handle, static_cast<int>(asked.data.args[0]), 0));
  if (file < 0) give_up("pidfd_getfd", kSkipped);
  std::vector<char> bytes(count / 2);
  const iovec here{bytes.data(), bytes.size()}, there{reinterpret_cast<void*>(asked.data.args[1]), bytes.size()};
  const auto offset = static_cast<off_t>(asked.data.args[3]);
  ssize_t done = 0;
  if (options_.calls == "read") {
    done = call.number == SYS_pread64 ? ::pread(file, bytes.data(), bytes.size(), offset)
                                      : ::read(file, bytes.data(), bytes.size());
    if (done > 0) ::process_vm_writev(process, &here, 1, &there, 1, 0);
  } else {
    ::process_vm_readv(process, &here, 1, &there, 1, 0);
    done = call.number == SYS_pwrite64 ? ::pwrite(file, bytes.data(), bytes.size(), offset)
                                       : ::write(file, bytes.data(), bytes.size());
  }
  ::close(file);
  ::close(handle);
  if (done <= 0) return false;
  response.flags = 0;
  response.val = done;
  return true;
}

bool Supervisor::act(const seccomp_notif& asked, const Call& call, seccomp_notif_resp& response) const {
  if (options_.action == "short") return fall_short(asked, call, response);
  if (const auto signal = kSignals.find(options_.action); signal != kSignals.end())
    return ::kill(static_cast<pid_t>(asked.pid), signal->second) == 0;
  const int error = kErrors.at(options_.action);
  if (error == EINTR && !call.may_interrupt) return false;
  if ((error == ENOSPC || error == EDQUOT) && !call.may_fill) return false;
  if ((error == EMFILE || error == EACCES) && call.kind == Kind::descriptor) return false;
  if (options_.lasting && acted_ > 0 && error == EIO && call.kind == Kind::path) return false;  // it may be cleared up
  response.flags = 0;
  response.error = -error;
  return true;
}

void Supervisor::answer() {
  seccomp_notif asked{};
  if (::ioctl(listener_, SECCOMP_IOCTL_NOTIF_RECV, &asked) != 0) return;  // the caller is gone
  seccomp_notif_resp response{};
  response.id = asked.id;
  response.flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE;
  std::string path;
  if (const Call* const call = counted(asked, path)) {
    ++seen_;
    const bool now = options_.at > 0 && (seen_ == options_.at || (options_.lasting && seen_ > options_.at));
    if (now && act(asked, *call, response)) {
      if (acted_++ == 0) first_ = std::string(call->name) + " " + path;
    }
  }
  ::ioctl(listener_, SECCOMP_IOCTL_NOTIF_SEND, &response);
}

void Supervisor::report(int orphans) const {
  std::ofstream out(options_.report);
  out << "calls " << seen_ << "\nacted " << acted_ << "\ncall " << first_ << "\norphans " << orphans << "\n";
}

/// Until the command and all that it started are gone; the command's wait status. What it leaves running has two
/// seconds.
int supervise(Supervisor& supervisor, int listener, pid_t command) {
  using Clock = std::chrono::steady_clock;
  int status = 0, orphans = 0;
  std::optional<Clock::time_point> ended;
  while (true) {
    pollfd ready{listener, POLLIN, 0};
    ::poll(&ready, 1, 5);
    if ((ready.revents & POLLIN) != 0) supervisor.answer();
    int code = 0;
    pid_t gone = 0;
    while ((gone = ::waitpid(-1, &code, WNOHANG)) > 0)
      if (gone == command) {
        status = code;
        ended = Clock::now();
      }
    if (gone < 0 && errno == ECHILD) break;
    if (!ended || Clock::now() - *ended < std::chrono::seconds(2)) continue;
    std::ifstream children("/proc/self/task/" + std::to_string(::getpid()) + "/children");
    for (pid_t child = 0; children >> child;) {
      ++orphans;
      ::kill(child, SIGKILL);
    }
    ended = Clock::now();
  }
  supervisor.report(orphans);
  return status;
}

}  // namespace

int main(int count, char** words) {
  const std::optional<Options> options = read_options(count, words);
  if (!options) {
    std::fprintf(stderr, "usage: the head of inject.cpp\n");
    return 2;
  }
  const std::vector<Call>& calls = options->calls == "write"  ? write_calls()
                                   : options->calls == "read" ? read_calls()
                                                              : open_calls();
  std::array<int, 2> sockets{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) != 0) give_up("socketpair", kSkipped);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
  const pid_t command = ::fork();
  if (command < 0) give_up("fork", kSkipped);
  if (command == 0) {
    const int listener = install_filter(calls);
    if (listener < 0) _exit(kSkipped);
    if (!Envelope().send(sockets[1], listener)) give_up("sendmsg", kSkipped);
    ::close(listener);
    ::execvp(options->command[0], options->command.data());
    _exit(127);
  }
  ::close(sockets[1]);
  const int listener = Envelope().receive(sockets[0]);
  if (listener < 0) {
    std::fprintf(stderr, "inject: no user notifications of seccomp here\n");
    return kSkipped;
  }
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) ::signal(each, SIG_IGN);  // meant for the command
  Supervisor supervisor(*options, calls, listener);
  const int status = supervise(supervisor, listener, command);
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  ::signal(WTERMSIG(status), SIG_DFL);
  ::raise(WTERMSIG(status));
  return 128 + WTERMSIG(status);
}
