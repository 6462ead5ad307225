#include "traces/store/seal.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/digest.hpp"

namespace foreshard::traces {
namespace {

constexpr std::string_view kMark = "foreshard contents ";
constexpr std::size_t kPiece = 1 << 20;
constexpr const char* kAnyway = "write it again, or read it as it is with --unverified";

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

tl::unexpected<Error> unreadable(const std::string& path) {
  return fail(ErrorKind::input, "cannot be read: " + std::generic_category().message(errno), path);
}

/// Of the first `size` bytes.
Result<std::string> digest(std::FILE* file, std::uint64_t size, const std::string& path) {
  Digest digest;
  std::vector<char> piece(kPiece);
  while (size > 0) {
    const std::size_t wanted = std::min<std::uint64_t>(size, piece.size());
    if (std::fread(piece.data(), 1, wanted, file) != wanted) return unreadable(path);
    digest.add({piece.data(), wanted});
    size -= wanted;
  }
  return digest.text();
}

std::string line_of(const std::string& digest) {
  std::string line = fmt::format("{}{}", kMark, digest);
  line.resize(kSealBytes - 1, ' ');
  return line + '\n';
}

}  // namespace

Result<void> seal(const std::string& path) {
  const File file(std::fopen(path.c_str(), "r+b"), &std::fclose);
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (!file || error) return unreadable(path);
  const auto contents = digest(file.get(), size, path);
  FORESHARD_TRY(contents);
  const std::string line = line_of(*contents);
  // Between reading and writing C wants a seek.
  if (std::fseek(file.get(), 0, SEEK_END) == 0 && std::fwrite(line.data(), 1, line.size(), file.get()) == line.size() &&
      std::fflush(file.get()) == 0)
    return {};
  return fail(ErrorKind::input, "cannot be written: " + std::generic_category().message(errno), path,
              "the disk is full, or a size limit was reached");
}

Result<void> check_seal(const std::string& path) {
  const File file(std::fopen(path.c_str(), "rb"), &std::fclose);
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(path, error);
  if (!file || error) return unreadable(path);
  const auto contents = digest(file.get(), size - std::min<std::uint64_t>(size, kSealBytes), path);
  FORESHARD_TRY(contents);
  std::string line(kSealBytes, '\0');
  line.resize(std::fread(line.data(), 1, line.size(), file.get()));
  if (!line.starts_with(kMark))
    return fail(ErrorKind::input, "has no checksum of its contents at its end: another program has changed it", path,
                kAnyway);
  if (line != line_of(*contents))
    return fail(ErrorKind::input,
                "its contents are not those that were written: the file is damaged, or another program has changed it",
                path, kAnyway);
  return {};
}

/// What SQLite would put back or take over when it opens the file (sqlite.org/fileformat2.html, 3 and 4): a journal is
/// one while its first byte is not 0.
Result<void> check_beside(const std::string& path) {
  std::error_code error;
  const std::filesystem::path real = std::filesystem::canonical(path, error);
  const std::string stem = error ? path : real.string();
  for (const char* suffix : {"-journal", "-wal"}) {
    const File file(std::fopen((stem + suffix).c_str(), "rb"), &std::fclose);
    const int first = file ? std::fgetc(file.get()) : EOF;
    if (first != EOF && first != 0)
      return fail(ErrorKind::input,
                  fmt::format("another program has begun to change it: {} lies beside it", stem + suffix), path,
                  kAnyway);
  }
  return {};
}

}  // namespace foreshard::traces
