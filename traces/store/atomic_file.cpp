#include "traces/store/atomic_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

namespace foreshard::traces {
namespace {

std::string reason(int error) {
  return std::generic_category().message(error);
}

tl::unexpected<Error> exists(const std::string& path) {
  return fail(ErrorKind::usage, "the file exists already", path, "give another name, or --force to replace it");
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// fsync of a file or directory; false with errno set.
bool make_durable(const std::string& path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) return false;
  const int code = ::fsync(file);
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

}  // namespace

Result<AtomicFile> AtomicFile::create(const std::string& path, bool replace) {
  struct stat status {};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return fail(ErrorKind::usage, "is a directory", path, "give a file name");
    if (!replace) return exists(path);
  }
  for (int attempt = 0; attempt < 100; ++attempt) {
    std::string temporary = fmt::format("{}.partial-{}-{}", path, ::getpid(), attempt);
    const int file = ::open(temporary.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
    if (file >= 0) {
      ::close(file);
      return AtomicFile(path, std::move(temporary), replace);
    }
    if (errno != EEXIST) break;
  }
  return fail(ErrorKind::input, fmt::format("cannot create a file here: {}", reason(errno)), path,
              "check that the directory exists and can be written to");
}

AtomicFile::AtomicFile(std::string path, std::string temporary_path, bool replace)
    : path_(std::move(path)), temporary_path_(std::move(temporary_path)), replace_(replace) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_path_(std::exchange(other.temporary_path_, {})),
      replace_(other.replace_) {}

AtomicFile::~AtomicFile() {
  if (!temporary_path_.empty()) ::unlink(temporary_path_.c_str());
}

Result<void> AtomicFile::commit() {
  if (!make_durable(temporary_path_, O_RDONLY))
    return fail(ErrorKind::input, fmt::format("cannot be made durable: {}", reason(errno)), path_);
  if (rename_file(temporary_path_, path_, replace_) != 0) {
    if (errno == EEXIST) return exists(path_);
    return fail(ErrorKind::input, fmt::format("cannot be renamed into place: {}", reason(errno)), path_);
  }
  temporary_path_.clear();
  // The rename has happened; that it survives a power cut is as much as the file system offers.
  static_cast<void>(make_durable(directory_of(path_), O_RDONLY | O_DIRECTORY));
  return {};
}

}  // namespace foreshard::traces
