// A recording's bytes, whatever it was packed with: plain, gzip or xz, told apart by their first bytes
// (never by the file's name, which PyTorch users choose freely).
//
// Who: the readers of this folder. Snapshots are read whole, with a limit; traces as a stream of chunks.
// Thread safety: one source, one thread. Determinism: the same file gives the same bytes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::traces {

enum class Packing : std::uint8_t { plain = 0, gzip = 1, xz = 2 };

/// One open file (or a string, for tests), read from front to back.
class ByteSource {
 public:
  /// Fails with ErrorKind::input when the file cannot be opened, is a folder, is empty or is packed with
  /// something that is not read (zip, zstandard, bzip2).
  [[nodiscard]] static Result<ByteSource> open(const std::string& path);
  /// The same over bytes in memory; `name` stands for the path in messages.
  [[nodiscard]] static Result<ByteSource> from_memory(std::string name, std::string bytes);

  ByteSource(ByteSource&&) noexcept;
  ByteSource& operator=(ByteSource&&) noexcept;
  ~ByteSource();

  /// Fills `out` as far as the data goes and returns how many bytes were written; less than out.size() only
  /// at the end, 0 after it. Fails where the packing is cut short or corrupt; the message names the byte of
  /// the file as it is stored.
  [[nodiscard]] Result<std::size_t> read(std::span<char> out);

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] Packing packing() const;
  /// Bytes of the stored file; 0 where unknown (a pipe).
  [[nodiscard]] Bytes stored_bytes() const;
  /// Unpacked bytes handed out so far.
  [[nodiscard]] Bytes position() const;

 private:
  struct State;
  explicit ByteSource(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The whole rest of a source. Fails when it unpacks to more than `limit` bytes.
[[nodiscard]] Result<std::string> read_all(ByteSource& source, Bytes limit);

}  // namespace foreshard::traces
