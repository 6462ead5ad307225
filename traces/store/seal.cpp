#include "traces/store/seal.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <vector>

#include "core/base/digest.hpp"
#include "traces/files/read_file.hpp"
#include "traces/files/write_all.hpp"

namespace foreshard::traces {
namespace {

constexpr std::string_view kMark = "foreshard contents ";
constexpr std::size_t kPiece = 1 << 20;
constexpr const char* kAnyway = "write it again, or read it as it is with --unverified";

tl::unexpected<Error> unreadable(const std::string& path) {
  return fail(ErrorKind::input, "cannot be read: " + std::generic_category().message(errno), path);
}

struct Digested {
  std::string digest;
  std::string rest;  ///< the bytes behind those that it is of
};

/// Of all bytes but the last `rest`, or as many as there are.
Result<Digested> digest(const std::string& path, std::size_t rest) {
  ReadFile file(path, FileKind::regular);
  std::error_code error;
  std::uint64_t size = std::filesystem::file_size(path, error);
  if (!file || error) return unreadable(path);
  size -= std::min<std::uint64_t>(size, rest);
  Digest digest;
  std::vector<char> piece(kPiece);
  while (size > 0) {
    const std::span<char> wanted = std::span(piece).first(std::min<std::uint64_t>(size, piece.size()));
    const auto read = file.read(wanted);
    if (!read) return unreadable(path);
    if (*read < wanted.size()) return fail(ErrorKind::input, "became shorter while it was read", path, kAnyway);
    digest.add({wanted.data(), wanted.size()});
    size -= wanted.size();
  }
  Digested out{digest.text(), std::string(rest, '\0')};
  const auto read = file.read(out.rest);
  if (!read) return unreadable(path);
  out.rest.resize(*read);
  return out;
}

std::string line_of(const std::string& digest) {
  std::string line = fmt::format("{}{}", kMark, digest);
  line.resize(kSealBytes - 1, ' ');
  return line + '\n';
}

}  // namespace

Result<void> seal(const std::string& path) {
  const auto contents = digest(path, 0);
  FORESHARD_TRY(contents);
  if (put_bytes(path, line_of(contents->digest), Put::behind)) return {};
  return fail(ErrorKind::input, "cannot be written: " + std::generic_category().message(errno), path,
              "the disk is full, or a size limit was reached");
}

Result<void> check_seal(const std::string& path) {
  const auto contents = digest(path, kSealBytes);
  FORESHARD_TRY(contents);
  const std::string& line = contents->rest;
  if (!line.starts_with(kMark))
    return fail(ErrorKind::input, "has no checksum of its contents at its end: another program has changed it", path,
                kAnyway);
  if (line != line_of(contents->digest))
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
    const std::string beside = stem + suffix;
    ReadFile file(beside, FileKind::regular);
    if (!file && errno != ENOENT) return unreadable(beside);
    std::array<char, 1> first{};
    if (file && file.read(first) == 1 && first.front() != 0)
      return fail(ErrorKind::input,
                  fmt::format("another program has begun to change it: {} lies beside it", stem + suffix), path,
                  kAnyway);
  }
  return {};
}

}  // namespace foreshard::traces
