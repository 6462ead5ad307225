// Numbers and texts as bytes and back: little-endian, texts with their length in front. Used by messages.
//
// The reader never reads past its end and never allocates for a length that is not there: the first thing that does
// not fit makes it bad, and everything read after that is empty.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace foreshard::gpu {

class ByteWriter {
 public:
  template <std::unsigned_integral T>
  void number(T value) {
    for (std::size_t i = 0; i < sizeof(T); ++i) out_ += static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i));
  }
  void text(std::string_view text) {
    number(static_cast<std::uint64_t>(text.size()));
    out_ += text;
  }
  [[nodiscard]] std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <std::unsigned_integral T>
  [[nodiscard]] T number() {
    if (bytes_.size() < sizeof(T)) return static_cast<T>(fail());
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < sizeof(T); ++i)
      value |= std::uint64_t{static_cast<unsigned char>(bytes_[i])} << (8 * i);
    bytes_.remove_prefix(sizeof(T));
    return static_cast<T>(value);
  }
  [[nodiscard]] std::string text() {
    const std::uint64_t size = number<std::uint64_t>();
    if (bytes_.size() < size) {
      fail();
      return {};
    }
    std::string out(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return out;
  }
  /// Everything fitted so far.
  [[nodiscard]] bool good() const { return good_; }
  /// Everything fitted, and nothing is left.
  [[nodiscard]] bool done() const { return good_ && bytes_.empty(); }

 private:
  std::uint8_t fail() {
    good_ = false;
    bytes_ = {};
    return 0;
  }

  std::string_view bytes_;
  bool good_ = true;
};

}  // namespace foreshard::gpu
