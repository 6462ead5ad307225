#include "traces/pytorch/json_pieces.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

namespace foreshard::traces {

namespace {

constexpr std::size_t kChunk = 256 * kKiB;

constexpr bool is_blank(char c) {
  return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/// 1 for the bytes that a scan through a container must look at.
constexpr std::array<bool, 256> kStructural = [] {
  std::array<bool, 256> table{};
  for (const char c : {'"', '{', '}', '[', ']'}) table[static_cast<unsigned char>(c)] = true;
  return table;
}();

/// Whose mark the text begins with (Unicode 15, 2.13); null: none.
const char* byte_order_mark(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) return "UTF-8";
  return text.starts_with("\xfe\xff") || text.starts_with("\xff\xfe") ? "UTF-16" : nullptr;
}

}  // namespace

JsonPieces::JsonPieces(ByteSource& source) : source_(source), buffer_(2 * kChunk + kPadding, '\0') {}

tl::unexpected<Error> JsonPieces::bad(std::string what, std::string hint) const {
  return fail(ErrorKind::input, std::move(what), fmt::format("{}, byte {}", source_.name(), buffer_offset_ + cursor_),
              std::move(hint));
}

tl::unexpected<Error> JsonPieces::cut_short() const {
  return bad("the JSON is cut short", "the profiler did not finish writing, or the copy is incomplete");
}

// Reads more behind end_; what lies before keep_ is given up. False at the end of the file.
Result<bool> JsonPieces::fill() {
  if (keep_ > 0) {
    std::memmove(buffer_.data(), buffer_.data() + keep_, end_ - keep_);
    buffer_offset_ += keep_;
    cursor_ -= keep_;
    end_ -= keep_;
    keep_ = 0;
  }
  if (buffer_.size() - kPadding - end_ < kChunk) {
    if (end_ > kMaxPiece) return bad(fmt::format("one value is longer than {} MiB", kMaxPiece / kMiB));
    buffer_.resize(2 * buffer_.size());
  }
  auto count = source_.read(std::span<char>(buffer_.data() + end_, kChunk));
  FORESHARD_TRY(count);
  end_ += *count;
  return *count > 0;
}

Result<int> JsonPieces::peek() {
  for (;;) {
    while (cursor_ < end_ && is_blank(buffer_[cursor_])) ++cursor_;
    if (cursor_ < end_) return static_cast<unsigned char>(buffer_[cursor_]);
    keep_ = cursor_;
    auto more = fill();
    FORESHARD_TRY(more);
    if (!*more) return -1;
  }
}

Result<void> JsonPieces::scan_string() {
  ++cursor_;
  for (;;) {
    while (cursor_ < end_) {
      // Strings are short; memchr finds the quote, and an odd run of backslashes before it escapes it.
      const char* from = buffer_.data() + cursor_;
      const auto* quote = static_cast<const char*>(std::memchr(from, '"', end_ - cursor_));
      const auto* escape = static_cast<const char*>(
          std::memchr(from, '\\', quote != nullptr ? static_cast<std::size_t>(quote - from) : end_ - cursor_));
      if (escape == nullptr) {
        if (quote == nullptr) {
          cursor_ = end_;
          break;
        }
        cursor_ += static_cast<std::size_t>(quote - from) + 1;
        return {};
      }
      cursor_ += static_cast<std::size_t>(escape - from) + 2;  // may end behind end_: then the next byte is skipped
    }
    const std::size_t beyond = cursor_ - end_;
    cursor_ = end_;
    auto more = fill();
    FORESHARD_TRY(more);
    if (!*more) return cut_short();
    cursor_ += beyond;
  }
}

Result<void> JsonPieces::scan_nested() {
  std::size_t depth = 0;
  for (;;) {
    while (cursor_ < end_) {
      const char c = buffer_[cursor_];
      if (!kStructural[static_cast<unsigned char>(c)]) {
        ++cursor_;
      } else if (c == '"') {
        if (auto done = scan_string(); !done) return done;
      } else {
        ++cursor_;
        depth += c == '{' || c == '[' ? 1 : -1;
        if (depth == 0) return {};
      }
    }
    auto more = fill();
    FORESHARD_TRY(more);
    if (!*more) return cut_short();
  }
}

Result<void> JsonPieces::scan_value() {
  const char first = buffer_[cursor_];
  if (first == '{' || first == '[') return scan_nested();
  if (first == '"') return scan_string();
  for (;;) {
    while (cursor_ < end_) {
      const char c = buffer_[cursor_];
      if (is_blank(c) || c == ',' || c == '}' || c == ']') return {};
      ++cursor_;
    }
    auto more = fill();
    FORESHARD_TRY(more);
    if (!*more) return cut_short();
  }
}

JsonPiece JsonPieces::piece(bool is_event) const {
  return {is_event, key_, std::string_view(buffer_).substr(keep_, cursor_ - keep_), buffer_offset_ + keep_};
}

Result<std::optional<JsonPiece>> JsonPieces::member() {
  for (;;) {
    auto c = peek();
    FORESHARD_TRY(c);
    if (*c < 0) return cut_short();
    if (*c == '}') {
      ++cursor_;
      place_ = Place::end;
      return std::nullopt;
    }
    if (*c == ',') {
      ++cursor_;
      continue;
    }
    if (*c != '"') return bad("this is not valid JSON: a key is expected");
    break;
  }
  keep_ = cursor_;
  FORESHARD_TRY(scan_string());
  key_.assign(buffer_, keep_ + 1, cursor_ - keep_ - 2);
  auto colon = peek();
  FORESHARD_TRY(colon);
  if (*colon < 0) return cut_short();
  if (*colon != ':') return bad("this is not valid JSON: a colon is expected");
  ++cursor_;
  auto first = peek();
  FORESHARD_TRY(first);
  if (*first < 0) return cut_short();
  keep_ = cursor_;
  if (key_ == "traceEvents" && *first == '[') {
    ++cursor_;
    saw_events_ = true;
    place_ = Place::events;
    return std::nullopt;
  }
  FORESHARD_TRY(scan_value());
  if (cursor_ == keep_) return bad("this is not valid JSON: a value is expected");
  return piece(false);
}

Result<std::optional<JsonPiece>> JsonPieces::event() {
  for (;;) {
    auto c = peek();
    FORESHARD_TRY(c);
    if (*c < 0) return cut_short();
    if (*c == '{') break;
    if (*c == ']') {
      ++cursor_;
      place_ = bare_array_ ? Place::end : Place::members;
      return std::nullopt;
    }
    if (*c != ',') return bad("this is not valid JSON: 'traceEvents' holds something else than objects");
    ++cursor_;
  }
  keep_ = cursor_;
  FORESHARD_TRY(scan_nested());
  return piece(true);
}

Result<void> JsonPieces::begin() {
  auto c = peek();
  FORESHARD_TRY(c);
  bare_array_ = *c == '[';
  if (const char* mark = byte_order_mark(std::string_view(buffer_).substr(cursor_, end_ - cursor_)))
    return bad(fmt::format("begins with the byte order mark of {}", mark),
               "JSON is UTF-8 without a mark (RFC 8259, 8.1): write it so, or copy the profiler's own file");
  if (*c != '{' && *c != '[')
    return bad("this is not JSON", "a profiler trace is written by torch.profiler's export_chrome_trace()");
  ++cursor_;
  place_ = bare_array_ ? Place::events : Place::members;
  saw_events_ = bare_array_;
  return {};
}

Result<std::optional<JsonPiece>> JsonPieces::next() {
  keep_ = cursor_;
  if (place_ == Place::start) {
    FORESHARD_TRY(begin());
  }
  while (place_ != Place::end) {
    auto found = place_ == Place::members ? member() : event();
    if (!found || *found) return found;
  }
  auto c = peek();
  FORESHARD_TRY(c);
  if (*c >= 0) return bad("this is not valid JSON: something follows its end");
  return std::nullopt;
}

}  // namespace foreshard::traces
