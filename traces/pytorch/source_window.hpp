// The next bytes of a ByteSource as one piece, for readers that go through it byte by byte: memory holds a window, not
// the file.
//
// Who: pickle.hpp and snapshot_file.hpp. Thread safety: one thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "traces/pytorch/byte_source.hpp"

namespace foreshard::traces {

class SourceWindow {
 public:
  /// `source` must outlive this and be read by nobody else. After `limit` bytes reading fails.
  SourceWindow(ByteSource& source, Bytes limit) : source_(source), limit_(limit) {}

  /// The next `count` bytes, fewer where the source ends; valid until the next call. Does not move on.
  [[nodiscard]] Result<std::string_view> peek(std::size_t count) {
    if (end_ - begin_ < count) FORESHARD_TRY(fill(count));
    return std::string_view(bytes_).substr(begin_, std::min(count, end_ - begin_));
  }
  /// Moves behind bytes that peek() gave.
  void skip(std::size_t count) { begin_ += count; }

  /// Of the next byte, in the unpacked file.
  [[nodiscard]] Bytes place() const { return source_.position() - (end_ - begin_); }
  [[nodiscard]] const std::string& name() const { return source_.name(); }

 private:
  [[nodiscard]] Result<void> fill(std::size_t count);

  ByteSource& source_;
  Bytes limit_;
  std::string bytes_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

}  // namespace foreshard::traces
