#include "traces/export/byte_sink.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "traces/files/uninterrupted.hpp"
#include "traces/files/write_all.hpp"

namespace foreshard::traces {

namespace {
constexpr std::size_t kBuffer = std::size_t{1} << 16;
}  // namespace

struct ByteSink::State {
  std::string path;
  int file = -1;
  std::ostream* stream = nullptr;
  bool gzip = false;
  z_stream packer{};
  std::string pending;
  std::uint64_t written = 0;
  std::string failure;

  ~State() {
    if (gzip) deflateEnd(&packer);
    if (file >= 0) ::close(file);
  }

  void put(const char* bytes, std::size_t size) {
    if (!failure.empty() || size == 0) return;
    if (stream != nullptr) {
      stream->write(bytes, static_cast<std::streamsize>(size));
      if (!*stream) failure = "the output cannot be written";
    } else {
      put_file(bytes, size);
    }
  }

  void put_file(const char* bytes, std::size_t size) {
    if (!write_all(file, {bytes, size})) failure = fmt::format("cannot be written: {}", std::strerror(errno));
  }

  void drain(bool last) {
    if (!gzip) {
      put(pending.data(), pending.size());
      pending.clear();
      return;
    }
    std::array<char, kBuffer> out;
    packer.next_in = reinterpret_cast<Bytef*>(pending.data());
    packer.avail_in = static_cast<uInt>(pending.size());
    do {
      packer.next_out = reinterpret_cast<Bytef*>(out.data());
      packer.avail_out = static_cast<uInt>(out.size());
      deflate(&packer, last ? Z_FINISH : Z_NO_FLUSH);
      put(out.data(), out.size() - packer.avail_out);
    } while (packer.avail_out == 0);
    pending.clear();
  }
};

ByteSink::ByteSink(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteSink::ByteSink(ByteSink&&) noexcept = default;
ByteSink::~ByteSink() = default;

Result<ByteSink> ByteSink::to_file(const std::string& path, bool gzip) {
  auto state = std::make_unique<State>();
  state->path = path;
  state->file = uninterrupted([&] { return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666); });
  if (state->file < 0) return fail(ErrorKind::input, fmt::format("cannot be written: {}", std::strerror(errno)), path);
  // 16 + 15: a gzip header, whose time zlib leaves at 0.
  if (gzip && deflateInit2(&state->packer, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 16 + 15, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return fail(ErrorKind::input, "zlib cannot be started: out of memory", path);
  state->gzip = gzip;
  return ByteSink(std::move(state));
}

ByteSink ByteSink::to_stream(std::ostream& out) {
  auto state = std::make_unique<State>();
  state->stream = &out;
  return ByteSink(std::move(state));
}

void ByteSink::write(std::string_view bytes) {
  state_->written += bytes.size();
  while (!bytes.empty()) {
    const std::size_t take = std::min(bytes.size(), kBuffer);
    state_->pending.append(bytes.substr(0, take));
    bytes.remove_prefix(take);
    if (state_->pending.size() >= kBuffer) state_->drain(false);
  }
}

std::uint64_t ByteSink::written() const {
  return state_->written;
}

Result<void> ByteSink::finish() {
  state_->drain(true);
  if (state_->stream != nullptr) {
    state_->stream->flush();
    if (!*state_->stream && state_->failure.empty()) state_->failure = "the output cannot be written";
  } else {
    // Interrupted, it is closed all the same (Linux).
    if (::close(std::exchange(state_->file, -1)) != 0 && errno != EINTR && state_->failure.empty())
      state_->failure = fmt::format("cannot be written: {}", std::strerror(errno));
  }
  if (!state_->failure.empty()) return fail(ErrorKind::input, state_->failure, state_->path);
  return {};
}

}  // namespace foreshard::traces
