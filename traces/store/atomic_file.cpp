#include "traces/store/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "traces/files/uninterrupted.hpp"

namespace foreshard::traces {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

tl::unexpected<Error> exists(const std::string& path) {
  return fail(ErrorKind::usage, "is there already", path, "give another name, or --force to write over it");
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// fsync of a file or directory; false with errno set.
bool make_durable(const std::string& path, int flags) {
  const int file = uninterrupted([&] { return ::open(path.c_str(), flags | O_CLOEXEC); });
  if (file < 0) return false;
  const int code = uninterrupted([&] { return ::fsync(file); });
  const int error = errno;
  ::close(file);
  errno = error;
  return code == 0;
}

/// Renames; unless `replace`, only onto a free name. Some file systems cannot do that in one step: there
/// the look before the rename has to do.
int rename_file(const std::string& from, const std::string& to, bool replace) {
  if (replace) return std::rename(from.c_str(), to.c_str());
#ifdef RENAME_NOREPLACE
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return -1;
#endif
  struct stat status {};
  if (::lstat(to.c_str(), &status) == 0) {
    errno = EEXIST;
    return -1;
  }
  return std::rename(from.c_str(), to.c_str());
}

// What remove_partial_files() finds: no lock and no memory of its own, because a signal may come at any instruction. A
// path too long or beyond the last slot is not found.
enum class SlotState : int { free, being_written, file, folder };
struct Slot {
  std::atomic<SlotState> state{SlotState::free};
  std::array<char, PATH_MAX> path{};
};
constexpr std::size_t kSlots = 64;
static_assert(std::atomic<SlotState>::is_always_lock_free);
std::array<Slot, kSlots> g_slots;

std::size_t take_slot(const std::string& path, SlotState state) {
  for (std::size_t i = 0; i < kSlots && path.size() < PATH_MAX; ++i) {
    SlotState expected = SlotState::free;
    if (!g_slots[i].state.compare_exchange_strong(expected, SlotState::being_written)) continue;
    std::memcpy(g_slots[i].path.data(), path.c_str(), path.size() + 1);
    g_slots[i].state = state;
    return i;
  }
  return kSlots;
}

void leave_slot(std::size_t slot) {
  if (slot < kSlots) g_slots[slot].state = SlotState::free;
}

/// Twelve letters that nobody can foresee: who may write to the folder could have made links of the names to come.
std::string random_letters() {
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz234567";
  std::random_device source;
  std::string out;
  for (int i = 0; i < 12; ++i) out += kLetters[source() % kLetters.size()];
  return out;
}

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  return S_ISSOCK(mode) ? "a socket" : "a device";
}

/// Of a link the file that it leads to, so that the link stays.
std::string behind_links(const std::string& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0 || !S_ISLNK(status.st_mode)) return path;
  char* const real = ::realpath(path.c_str(), nullptr);
  if (real == nullptr) return path;
  std::string out = real;
  std::free(real);
  return out;
}

}  // namespace

Result<void> may_create(const std::string& path, bool replace) {
  struct stat status {};
  if (path.empty()) return fail(ErrorKind::usage, "the output has an empty name", {}, "name a file");
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISREG(status.st_mode) && !replace) return exists(path);
    if (!S_ISREG(status.st_mode))
      return fail(ErrorKind::usage, fmt::format("is {}, and no file", kind_of(status.st_mode)), path,
                  S_ISDIR(status.st_mode) ? "name a file in it" : "name a file");
  } else if (::lstat(path.c_str(), &status) == 0) {
    return fail(ErrorKind::usage, "is a link to a file that is not there", path, "name the file");
  }
  const std::string directory = directory_of(behind_links(path));
  int error = 0;
  if (::stat(directory.c_str(), &status) != 0)
    error = errno;
  else if (!S_ISDIR(status.st_mode))
    error = ENOTDIR;
  else if (::access(directory.c_str(), W_OK | X_OK) != 0)
    error = errno;
  if (error == 0) return {};
  return fail(ErrorKind::input, fmt::format("cannot create a file here: {}", reason(error)), path,
              "check that the directory exists and can be written to");
}

Result<AtomicFile> AtomicFile::create(const std::string& path, bool replace) {
  FORESHARD_TRY(may_create(path, replace));
  std::string real = behind_links(path);
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary = fmt::format("{}.partial-{}", real, random_letters());
    const std::size_t slot = take_slot(temporary, SlotState::file);
    constexpr int kNew = O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC;
    const int file = uninterrupted([&] { return ::open(temporary.c_str(), kNew, 0666); });
    if (file >= 0) {
      ::close(file);
      return AtomicFile(std::move(real), std::move(temporary), replace, slot);
    }
    const int error = errno;
    leave_slot(slot);
    errno = error;
    if (errno != EEXIST) break;
  }
  return fail(ErrorKind::input, fmt::format("cannot create a file here: {}", reason(errno)), path,
              "check that the directory exists and can be written to");
}

AtomicFile::AtomicFile(std::string path, std::string temporary_path, bool replace, std::size_t slot)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), replace_(replace), slot_(slot) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      replace_(other.replace_),
      slot_(std::exchange(other.slot_, kSlots)) {}

AtomicFile::~AtomicFile() {
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
  leave_slot(slot_);
}

Result<void> AtomicFile::take_name() {
  if (rename_file(temporary_path_, path_, replace_) != 0) {
    if (errno == EEXIST) return exists(path_);
    return fail(ErrorKind::input, fmt::format("cannot be renamed into place: {}", reason(errno)), path_);
  }
  temporary_path_.clear();
  leave_slot(std::exchange(slot_, kSlots));
  return {};
}

Result<void> AtomicFile::commit() {
  return commit_all({this, 1});
}

Result<void> AtomicFile::commit_all(std::span<AtomicFile> files) {
  for (const AtomicFile& file : files)
    if (!make_durable(file.temporary_path_, O_RDONLY))
      return fail(ErrorKind::input, fmt::format("cannot be made durable: {}", reason(errno)), file.path_);
  sigset_t all{}, before{};
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  Result<void> named;
  for (std::size_t i = 0; i < files.size() && named; ++i) {
    named = files[i].take_name();
    if (named) continue;
    for (const AtomicFile& named_file : files.first(i))  // what was replaced is gone, what is new goes again
      if (!named_file.replace_) ::unlink(named_file.path_.c_str());
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // The renames have happened; that they survive a power cut is as much as the file system offers.
  if (!files.empty()) static_cast<void>(make_durable(directory_of(files.front().path_), O_RDONLY | O_DIRECTORY));
  return named;
}

Result<NewFolder> NewFolder::create(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::vector<std::string> missing;  // the innermost first
  for (fs::path at = fs::path(path).lexically_normal(); !at.empty() && !fs::exists(at, error); at = at.parent_path())
    if (at.has_filename()) missing.push_back(at.string());
  fs::create_directories(path, error);
  NewFolder folder;
  for (const std::string& made : missing)
    if (fs::is_directory(made, error)) folder.made_.push_back({made, take_slot(made, SlotState::folder)});
  if (!fs::is_directory(path, error))
    return fail(ErrorKind::usage, "is no folder and cannot become one", path, "name a folder");
  return folder;
}

NewFolder::~NewFolder() {
  for (const Made& folder : made_) {
    ::rmdir(folder.path.c_str());
    leave_slot(folder.slot);
  }
}

void NewFolder::keep() {
  for (const Made& folder : made_) leave_slot(folder.slot);
  made_.clear();
}

void remove_partial_files() noexcept {
  for (const SlotState kind : {SlotState::file, SlotState::folder})  // a folder goes when it is empty
    for (const Slot& slot : g_slots)
      if (slot.state == kind) kind == SlotState::file ? ::unlink(slot.path.data()) : ::rmdir(slot.path.data());
}

}  // namespace foreshard::traces
