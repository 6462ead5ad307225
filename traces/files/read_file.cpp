#include "traces/files/read_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include "traces/files/uninterrupted.hpp"

namespace foreshard::traces {

ReadFile::ReadFile(const std::string& path)
    : descriptor_(uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); })) {}

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
