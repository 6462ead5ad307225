#include "traces/store/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
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
  if (!make_durable(temporary_path_, O_RDONLY))
    return fail(ErrorKind::input, fmt::format("cannot be made durable: {}", reason(errno)), path_);
  FORESHARD_TRY(take_name());
  // The rename has happened; that it survives a power cut is as much as the file system offers.
  static_cast<void>(make_durable(directory_of(path_), O_RDONLY | O_DIRECTORY));
  return {};
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

namespace {

/// Whether a folder may come to be at `path`: nothing or an empty folder is there, or one to be replaced.
Result<void> may_create_folder(const std::string& path, bool replace, const std::vector<std::string>& names) {
  namespace fs = std::filesystem;
  std::error_code error;
  if (fs::symlink_status(path, error).type() == fs::file_type::not_found) return {};
  if (!fs::is_directory(path, error))
    return fail(ErrorKind::usage, "is no folder and cannot become one", path, "name a folder");
  struct stat here {
  }, above{};
  const bool known = ::stat(path.c_str(), &here) == 0 && ::stat((path + "/..").c_str(), &above) == 0;
  if (fs::equivalent(path, ".", error) || (known && (here.st_dev != above.st_dev || here.st_ino == above.st_ino)))
    return fail(ErrorKind::usage, "is the current folder or a mount point, which cannot be replaced as a whole", path,
                "name a folder in it");
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!replace) return exists(path);
    if (std::find(names.begin(), names.end(), name) == names.end() || !at->is_regular_file(error))
      return fail(ErrorKind::usage, fmt::format("holds {}, which would be lost: it is replaced as a whole", name), path,
                  "name another folder");
  }
  if (error) return fail(ErrorKind::input, "cannot be read: " + error.message(), path);
  return {};
}

/// "a/b/" as "a/b"; a link as what it leads to.
std::string folder_name(const std::string& path) {
  std::string out = path;
  while (out.size() > 1 && out.ends_with('/')) out.pop_back();
  return behind_links(out);
}

}  // namespace

Result<AtomicFolder> AtomicFolder::create(const std::string& path, bool replace, std::vector<std::string> names) {
  const std::string real = folder_name(path);
  if (real.empty()) return fail(ErrorKind::usage, "the output has an empty name", {}, "name a folder");
  FORESHARD_TRY(may_create_folder(real, replace, names));
  auto parent = NewFolder::create(directory_of(real));
  FORESHARD_TRY(parent);
  AtomicFolder folder(real, replace, std::move(names), std::move(*parent));
  if (::mkdir(folder.temporary_path_.c_str(), 0777) == 0) return folder;
  return fail(ErrorKind::input, fmt::format("cannot create a folder here: {}", reason(errno)), path,
              "check that the directory can be written to");
}

AtomicFolder::AtomicFolder(std::string path, bool replace, std::vector<std::string> names, NewFolder parent)
    : path_(std::move(path)),
      temporary_path_(fmt::format("{}.partial-{}", path_, random_letters())),
      replace_(replace),
      names_(std::move(names)),
      parent_(std::move(parent)) {
  slots_.push_back(take_slot(temporary_path_, SlotState::folder));
  for (const std::string& name : names_)
    slots_.push_back(take_slot(fmt::format("{}/{}", temporary_path_, name), SlotState::file));
}

AtomicFolder::AtomicFolder(AtomicFolder&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      replace_(other.replace_),
      names_(std::move(other.names_)),
      slots_(std::exchange(other.slots_, {})),
      parent_(std::move(other.parent_)) {}

AtomicFolder::~AtomicFolder() {
  if (!temporary_path_.empty()) remove();
  for (const std::size_t slot : slots_) leave_slot(slot);
}

void AtomicFolder::remove() const {
  for (const std::string& name : names_) ::unlink(fmt::format("{}/{}", temporary_path_, name).c_str());
  ::rmdir(temporary_path_.c_str());
}

/// Changes places with what is there, which then goes; where the file system cannot do that, one after the other.
Result<void> AtomicFolder::take_name() {
  if (std::rename(temporary_path_.c_str(), path_.c_str()) == 0) {  // nothing was there, or an empty folder
    temporary_path_.clear();
    return {};
  }
  if (errno != ENOTEMPTY && errno != EEXIST)
    return fail(ErrorKind::input, fmt::format("cannot be renamed into place: {}", reason(errno)), path_);
  FORESHARD_TRY(may_create_folder(path_, replace_, names_));
  int code = -1;
#ifdef RENAME_EXCHANGE
  code = ::renameat2(AT_FDCWD, temporary_path_.c_str(), AT_FDCWD, path_.c_str(), RENAME_EXCHANGE);
  if (code != 0 && errno != EINVAL && errno != ENOSYS)
    return fail(ErrorKind::input, fmt::format("cannot be renamed into place: {}", reason(errno)), path_);
#endif
  if (code != 0) {
    const std::string aside = temporary_path_ + "-former";
    if (std::rename(path_.c_str(), aside.c_str()) != 0 || std::rename(temporary_path_.c_str(), path_.c_str()) != 0) {
      const int error = errno;
      static_cast<void>(std::rename(aside.c_str(), path_.c_str()));
      return fail(ErrorKind::input, fmt::format("cannot be renamed into place: {}", reason(error)), path_);
    }
    temporary_path_ = aside;
  }
  remove();
  temporary_path_.clear();
  return {};
}

Result<void> AtomicFolder::commit() {
  for (const std::string& name : names_)
    if (!make_durable(fmt::format("{}/{}", temporary_path_, name), O_RDONLY))
      return fail(ErrorKind::input, fmt::format("{} cannot be made durable: {}", name, reason(errno)), path_);
  if (!make_durable(temporary_path_, O_RDONLY | O_DIRECTORY))
    return fail(ErrorKind::input, fmt::format("cannot be made durable: {}", reason(errno)), path_);
  sigset_t all{}, before{};
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  const Result<void> named = take_name();
  if (named) parent_.keep();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (named) static_cast<void>(make_durable(directory_of(path_), O_RDONLY | O_DIRECTORY));
  return named;
}

/// A folder goes when it is empty: the innermost first.
void remove_partial_files() noexcept {
  for (const Slot& slot : g_slots)
    if (slot.state == SlotState::file) ::unlink(slot.path.data());
  for (std::size_t left = 1; left-- > 0;)  // once more after each folder that went
    for (const Slot& slot : g_slots)
      if (slot.state == SlotState::folder && ::rmdir(slot.path.data()) == 0) left = 1;
}

}  // namespace foreshard::traces
