// Cuts a Chrome trace into pieces while it streams by: the top-level members and, one at a time, the objects of
// `traceEvents`. Memory holds one piece and one chunk, however large the file is.
//
// Only brackets and strings are followed here; each piece still has to be parsed, and commas between pieces are
// not checked. Thread safety: one thread.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "traces/pytorch/byte_source.hpp"

namespace foreshard::traces {

struct JsonPiece {
  bool is_event = false;  ///< an object of traceEvents; otherwise a top-level member
  std::string_view key;   ///< of a member, escapes as written; valid until the next call
  std::string_view text;  ///< the value; valid until the next call; kPadding more bytes may be read behind it
  Bytes offset = 0;       ///< of the value in the unpacked file
};

class JsonPieces {
 public:
  static constexpr std::size_t kPadding = 64;  ///< simdjson 3.0's SIMDJSON_PADDING
  /// Kineto's events are some 300 bytes, with stacks and shapes up to some 10 kB.
  static constexpr std::size_t kMaxPiece = 64 * kMiB;

  /// `source` must outlive this.
  explicit JsonPieces(ByteSource& source);

  /// The next piece; none after the last. Fails where the file is not JSON, is cut short or damaged.
  [[nodiscard]] Result<std::optional<JsonPiece>> next();
  /// Whether a `traceEvents` array (or a bare array, the Chrome format's short form) has begun.
  [[nodiscard]] bool saw_events() const { return saw_events_; }

 private:
  enum class Place : std::uint8_t { start, members, events, end };

  [[nodiscard]] Result<bool> fill();
  [[nodiscard]] Result<int> peek();          // the next byte that is no blank; −1 at the end
  [[nodiscard]] Result<void> scan_string();  // cursor_ on the opening quote; ends behind the closing one
  [[nodiscard]] Result<void> scan_value();   // cursor_ on the first byte; ends behind the last
  [[nodiscard]] Result<void> scan_nested();
  [[nodiscard]] Result<void> begin();
  // A piece, or none when the place has moved on.
  [[nodiscard]] Result<std::optional<JsonPiece>> member();
  [[nodiscard]] Result<std::optional<JsonPiece>> event();
  [[nodiscard]] tl::unexpected<Error> bad(std::string what, std::string hint = {}) const;
  [[nodiscard]] tl::unexpected<Error> cut_short() const;
  [[nodiscard]] JsonPiece piece(bool is_event) const;

  ByteSource& source_;
  std::string buffer_;
  std::size_t keep_ = 0;  // bytes from here on are still needed
  std::size_t cursor_ = 0;
  std::size_t end_ = 0;
  Bytes buffer_offset_ = 0;  // of buffer_[0] in the unpacked file
  std::string key_;
  Place place_ = Place::start;
  bool bare_array_ = false;
  bool saw_events_ = false;
};

}  // namespace foreshard::traces
