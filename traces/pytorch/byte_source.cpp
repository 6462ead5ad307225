#include "traces/pytorch/byte_source.hpp"

#include <fmt/format.h>
#include <lzma.h>
#include <sys/stat.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "core/base/out_of_memory.hpp"
#include "traces/files/read_file.hpp"
#include "traces/files/sqlite_head.hpp"

namespace foreshard::traces {

namespace {

constexpr std::size_t kStoredChunk = 256 * kKiB;
/// What one xz decoder may take: the largest preset (-9) needs 65 MiB (xz(1), "Memory usage").
constexpr std::uint64_t kXzMemory = 512 * kMiB;

bool starts_with(std::span<const char> head, std::string_view magic) {
  return head.size() >= magic.size() && std::memcmp(head.data(), magic.data(), magic.size()) == 0;
}

}  // namespace

struct ByteSource::State {
  std::string name;
  std::unique_ptr<ReadFile> file;  // null: all bytes are in `stored` from the start
  Bytes stored_bytes = 0;
  Packing packing = Packing::plain;

  std::string stored;  // bytes of the file not yet unpacked are [begin, end)
  std::size_t begin = 0;
  std::size_t end = 0;
  bool file_ended = false;
  Bytes stored_position = 0;  // place of `begin` in the file
  Bytes position = 0;
  bool finished = false;

  z_stream zlib{};
  lzma_stream lzma = LZMA_STREAM_INIT;
  bool zlib_open = false;
  bool member_ended = false;  // between two members of gzip, or two streams of xz

  ~State() {
    if (zlib_open) inflateEnd(&zlib);
    lzma_end(&lzma);
  }

  [[nodiscard]] std::string place() const { return fmt::format("{}, byte {}", name, stored_position); }
  Result<void> refill();
  Result<void> detect();
  Result<std::size_t> read_plain(std::span<char> out);
  Result<std::size_t> read_gzip(std::span<char> out);
  Result<std::size_t> read_xz(std::span<char> out);
  Result<bool> next_member();
  Result<bool> next_stream();
  [[nodiscard]] tl::unexpected<Error> foreign(const char* packing_name) const {
    return fail(ErrorKind::input, fmt::format("foreign bytes after the end of the {} data", packing_name), place(),
                "the file is damaged");
  }
  void consume(std::size_t count) {
    begin += count;
    stored_position += count;
  }
};

Result<void> ByteSource::State::refill() {
  if (begin < end || file_ended) return {};
  begin = 0;
  const auto read = file->read(stored);
  end = read.value_or(0);
  if (!read) return fail(ErrorKind::input, fmt::format("cannot read: {}", std::strerror(errno)), place());
  file_ended = end < stored.size();
  return {};
}

Result<void> ByteSource::State::detect() {
  if (auto filled = refill(); !filled) return filled;
  const std::span<const char> head(stored.data() + begin, end - begin);
  if (head.empty()) return fail(ErrorKind::input, "the file is empty", name);
  if (starts_with(head, "PK\x03\x04"))
    return fail(ErrorKind::input, "this is a zip archive, not a recording", name,
                "torch.save writes such an archive; a memory snapshot comes from "
                "torch.cuda.memory._dump_snapshot(), a trace from torch.profiler's export_chrome_trace()");
  if (starts_with(head, "\x28\xb5\x2f\xfd"))
    return fail(ErrorKind::input, "the file is packed with zstandard, which is not read", name, "unpack it: zstd -d");
  if (starts_with(head, kSqliteMagic))
    return fail(ErrorKind::input, std::string(kIsStore) + ", not a recording", name,
                "give a file that the training wrote; plan, explain, view, compare and query take run stores");
  if (starts_with(head, "BZh"))
    return fail(ErrorKind::input, "the file is packed with bzip2, which is not read", name, "unpack it: bzip2 -d");
  if (starts_with(head, "\x1f\x8b")) {
    packing = Packing::gzip;
    constexpr int kGzipWindow = 15 + 16;  // zlib.h, inflateInit2: largest window, gzip header only
    if (inflateInit2(&zlib, kGzipWindow) != Z_OK) return fail(ErrorKind::input, "zlib cannot start", name);
    zlib_open = true;
  } else if (starts_with(head, std::string_view("\xfd\x37\x7a\x58\x5a\x00", 6))) {
    packing = Packing::xz;
    if (lzma_stream_decoder(&lzma, kXzMemory, 0) != LZMA_OK)
      return fail(ErrorKind::input, "liblzma cannot start", name);
  }
  return {};
}

Result<std::size_t> ByteSource::State::read_plain(std::span<char> out) {
  std::size_t done = 0;
  while (done < out.size()) {
    FORESHARD_TRY(refill());
    if (begin == end) break;
    const std::size_t count = std::min(end - begin, out.size() - done);
    std::memcpy(out.data() + done, stored.data() + begin, count);
    consume(count);
    done += count;
  }
  return done;
}

// After a gzip member: true when another one follows. Zero bytes pad tapes and are skipped, as gzip(1) does.
Result<bool> ByteSource::State::next_member() {
  bool padded = false;
  for (;;) {
    FORESHARD_TRY(refill());
    if (begin == end) return false;
    if (stored[begin] != 0) break;
    padded = true;
    consume(1);
  }
  if (padded || static_cast<unsigned char>(stored[begin]) != 0x1f) return foreign("gzip");
  inflateReset(&zlib);
  member_ended = false;
  return true;
}

Result<std::size_t> ByteSource::State::read_gzip(std::span<char> out) {
  std::size_t done = 0;
  while (done < out.size() && !finished) {
    if (member_ended) {
      auto more = next_member();
      FORESHARD_TRY(more);
      if (!*more) {
        finished = true;
        break;
      }
    }
    FORESHARD_TRY(refill());
    if (begin == end)
      return fail(ErrorKind::input, "the gzip data is cut short", place(), "copy the file again; it is incomplete");
    const std::size_t room = std::min<std::size_t>(out.size() - done, kGiB);
    zlib.next_in = reinterpret_cast<Bytef*>(stored.data() + begin);
    zlib.avail_in = static_cast<uInt>(std::min<std::size_t>(end - begin, kGiB));
    zlib.next_out = reinterpret_cast<Bytef*>(out.data() + done);
    zlib.avail_out = static_cast<uInt>(room);
    const uInt offered = zlib.avail_in;
    const int status = inflate(&zlib, Z_NO_FLUSH);
    consume(offered - zlib.avail_in);
    done += room - zlib.avail_out;
    if (status == Z_MEM_ERROR) out_of_memory();
    if (status == Z_STREAM_END) {
      member_ended = true;
    } else if (status != Z_OK && status != Z_BUF_ERROR) {
      return fail(ErrorKind::input,
                  fmt::format("the gzip data is corrupt ({})", zlib.msg != nullptr ? zlib.msg : "zlib gives no reason"),
                  place(), "copy the file again; it is damaged");
    }
  }
  return done;
}

// After an xz stream: true when another one follows. Zero bytes, a multiple of four, pad it (the .xz format, 2.2). By
// LZMA_CONCATENATED foreign bytes would be corrupt data.
Result<bool> ByteSource::State::next_stream() {
  std::size_t zeros = 0;
  for (;; ++zeros) {
    FORESHARD_TRY(refill());
    if (begin == end || stored[begin] != 0) break;
    consume(1);
  }
  if (begin == end && zeros % 4 == 0) return false;
  if (begin == end || zeros % 4 != 0 || stored[begin] != '\xfd') return foreign("xz");
  if (lzma_stream_decoder(&lzma, kXzMemory, 0) != LZMA_OK) return fail(ErrorKind::input, "liblzma cannot start", name);
  member_ended = false;
  return true;
}

Result<std::size_t> ByteSource::State::read_xz(std::span<char> out) {
  lzma.next_out = reinterpret_cast<std::uint8_t*>(out.data());
  lzma.avail_out = out.size();
  while (lzma.avail_out > 0 && !finished) {
    if (member_ended) {
      const auto more = next_stream();
      FORESHARD_TRY(more);
      finished = !*more;
      continue;
    }
    FORESHARD_TRY(refill());
    lzma.next_in = reinterpret_cast<const std::uint8_t*>(stored.data() + begin);
    lzma.avail_in = end - begin;
    const std::size_t offered = lzma.avail_in;
    const lzma_ret status = lzma_code(&lzma, file_ended ? LZMA_FINISH : LZMA_RUN);
    consume(offered - lzma.avail_in);
    if (status == LZMA_MEM_ERROR) out_of_memory();
    if (status == LZMA_STREAM_END) {
      member_ended = true;
    } else if (status == LZMA_FORMAT_ERROR) {  // the first stream's magic was seen
      return foreign("xz");
    } else if (status == LZMA_BUF_ERROR && file_ended && begin == end) {
      return fail(ErrorKind::input, "the xz data is cut short", place(), "copy the file again; it is incomplete");
    } else if (status == LZMA_MEMLIMIT_ERROR) {
      return fail(ErrorKind::input, fmt::format("unpacking needs more than {} MiB", kXzMemory / kMiB), place(),
                  "unpack it: xz -d");
    } else if (status != LZMA_OK && status != LZMA_BUF_ERROR) {
      return fail(ErrorKind::input, fmt::format("the xz data is corrupt (liblzma code {})", static_cast<int>(status)),
                  place(), "copy the file again; it is damaged");
    }
  }
  return out.size() - lzma.avail_out;
}

ByteSource::ByteSource(std::unique_ptr<State> state) : state_(std::move(state)) {}
ByteSource::ByteSource(ByteSource&&) noexcept = default;
ByteSource& ByteSource::operator=(ByteSource&&) noexcept = default;
ByteSource::~ByteSource() = default;

Result<ByteSource> ByteSource::open(const std::string& path) {
  auto state = std::make_unique<State>();
  state->name = path;
  state->file = std::make_unique<ReadFile>(path);
  if (!*state->file)
    return fail(ErrorKind::input, fmt::format("cannot be opened: {}", std::strerror(errno)), path,
                "give a file of the recording: its snapshot, trace or about file");
  struct stat info {};
  if (fstat(state->file->descriptor(), &info) == 0) {
    if (S_ISDIR(info.st_mode)) return fail(ErrorKind::input, "this is a folder, a file is needed", path);
    if (S_ISREG(info.st_mode)) state->stored_bytes = static_cast<Bytes>(info.st_size);
  }
  state->stored.resize(kStoredChunk);
  FORESHARD_TRY(state->detect());
  return ByteSource(std::move(state));
}

Result<ByteSource> ByteSource::from_memory(std::string name, std::string bytes) {
  auto state = std::make_unique<State>();
  state->name = std::move(name);
  state->stored = std::move(bytes);
  state->end = state->stored.size();
  state->stored_bytes = state->end;
  state->file_ended = true;
  FORESHARD_TRY(state->detect());
  return ByteSource(std::move(state));
}

Result<std::size_t> ByteSource::read(std::span<char> out) {
  auto count = state_->packing == Packing::plain  ? state_->read_plain(out)
               : state_->packing == Packing::gzip ? state_->read_gzip(out)
                                                  : state_->read_xz(out);
  if (count) state_->position += *count;
  return count;
}

const std::string& ByteSource::name() const {
  return state_->name;
}
Packing ByteSource::packing() const {
  return state_->packing;
}
Bytes ByteSource::stored_bytes() const {
  return state_->stored_bytes;
}
Bytes ByteSource::position() const {
  return state_->position;
}

Result<std::string> read_all(ByteSource& source, Bytes limit) {
  std::string bytes;
  // A plain file's size is known; what a packed one unpacks to is not, so the buffer grows by halves.
  std::size_t room = source.packing() == Packing::plain ? source.stored_bytes() + 1 : 4 * kMiB;
  for (std::size_t done = 0;;) {
    room = std::min<std::size_t>(std::max<std::size_t>(room, done + done / 2 + kStoredChunk), limit + 1);
    bytes.resize(room);
    auto count = source.read(std::span<char>(bytes.data() + done, room - done));
    FORESHARD_TRY(count);
    done += *count;
    if (done > limit)
      return fail(ErrorKind::input, fmt::format("the file holds more than {} bytes", limit), source.name(),
                  "raise the limit if it is meant to be that large");
    if (done < room) {
      bytes.resize(done);
      return bytes;
    }
  }
}

}  // namespace foreshard::traces
