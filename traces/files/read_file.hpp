// A file that is read in pieces, from its beginning or from any byte of it.
//
// Calls that a signal interrupts are made again, and those that fall short go on. What failed is in errno; the message
// is the caller's. Not thread-safe. POSIX.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace foreshard::traces {

/// `regular`: a pipe or a device is not opened, however it came under the name, and nothing waits for its other end.
enum class FileKind : bool { any, regular };

class ReadFile {
 public:
  /// Open where the file could be opened.
  explicit ReadFile(const std::string& path, FileKind kind = FileKind::any);
  ReadFile(const ReadFile&) = delete;
  ReadFile& operator=(const ReadFile&) = delete;
  ~ReadFile();

  [[nodiscard]] explicit operator bool() const { return descriptor_ >= 0; }
  /// Of a file that is not open: why, as messages have it. Right after it was tried.
  [[nodiscard]] std::string why_not() const;
  [[nodiscard]] int descriptor() const { return descriptor_; }

  /// Fills `out` with what comes next, less only at the end of the file: how many bytes. Nothing where it cannot be
  /// read, or is not open.
  [[nodiscard]] std::optional<std::size_t> read(std::span<char> out);
  /// What comes next is byte `from`. False for a pipe.
  [[nodiscard]] bool seek(std::uint64_t from);

 private:
  int descriptor_;
  bool irregular_ = false;
};

}  // namespace foreshard::traces
