#include "traces/files/read_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "traces/files/uninterrupted.hpp"

namespace foreshard::traces {

ReadFile::ReadFile(const std::string& path, FileKind kind)
    : descriptor_(uninterrupted(
          [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | (kind == FileKind::regular ? O_NONBLOCK : 0)); })) {
  struct stat at {};
  if (descriptor_ < 0 || kind == FileKind::any) return;
  if (::fstat(descriptor_, &at) == 0 && (S_ISREG(at.st_mode) || S_ISDIR(at.st_mode)))
    return;  // read() says of a folder
  ::close(descriptor_);
  descriptor_ = -1;
  irregular_ = true;
  errno = EINVAL;
}

std::string ReadFile::why_not() const {
  return irregular_ ? "is a pipe or a device, a file is needed"
                    : "cannot be opened: " + std::generic_category().message(errno);
}

ReadFile::~ReadFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::optional<std::size_t> ReadFile::read(std::span<char> out) {
  std::size_t size = 0;
  while (size < out.size()) {
    const ssize_t n = uninterrupted([&] { return ::read(descriptor_, out.data() + size, out.size() - size); });
    if (n < 0) return std::nullopt;
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  return size;
}

bool ReadFile::seek(std::uint64_t from) {
  return ::lseek(descriptor_, static_cast<off_t>(from), SEEK_SET) >= 0;
}

}  // namespace foreshard::traces
