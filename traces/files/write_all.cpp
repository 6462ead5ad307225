#include "traces/files/write_all.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "traces/files/uninterrupted.hpp"

namespace foreshard::traces {

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = uninterrupted([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
    if (n < 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

bool put_bytes(const std::string& path, std::string_view bytes, Put put) {
  const int flags = O_WRONLY | O_CLOEXEC | (put == Put::behind ? O_APPEND : O_TRUNC);
  const int file = uninterrupted([&] { return ::open(path.c_str(), flags); });
  if (file < 0) return false;
  const bool written = write_all(file, bytes);
  const int error = errno;
  const bool closed = ::close(file) == 0 || errno == EINTR;  // interrupted, it is closed all the same (Linux)
  if (!written) errno = error;
  return written && closed;
}

}  // namespace foreshard::traces
