// Plain data as Python pickles it: None, booleans, numbers, strings, lists, tuples and dicts. No objects.
//
// Who: pickle.hpp and json_data.hpp build a document, snapshot.hpp reads it. A value is 8 bytes and refers to
// its containers, so what a pickle shares stays shared (one stack of frames for a million entries), and a
// list may even contain itself: walk a document with a bound.
// Thread safety: a finished document may be read from several threads. No recursion anywhere, destruction
// included. Strings are views into the document, also after it was moved.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string_view>

#include "core/base/quantity.hpp"

namespace foreshard::traces {

enum class PlainKind : std::uint8_t {
  none = 0,
  boolean = 1,
  integer = 2,       ///< −2^55 to 2^55−1, kept in the value
  wide_integer = 3,  ///< other integers of up to 64 bits, signed or unsigned
  huge_integer = 4,  ///< longer than 64 bits; its value is not kept
  real = 5,
  string = 6,
  bytes = 7,
  list = 8,
  tuple = 9,
  dict = 10,
};

/// "a list", "an integer", …, for messages.
[[nodiscard]] std::string_view describe(PlainKind kind);

/// One value: a kind and 56 bits that are the number itself or an index into the document's tables.
class PlainValue {
 public:
  constexpr PlainValue() = default;
  constexpr PlainValue(PlainKind kind, std::int64_t payload)
      : bits_((static_cast<std::uint64_t>(payload) << 8) | static_cast<std::uint64_t>(kind)) {}
  [[nodiscard]] constexpr PlainKind kind() const { return static_cast<PlainKind>(bits_ & 0xff); }
  [[nodiscard]] constexpr std::int64_t payload() const { return static_cast<std::int64_t>(bits_) >> 8; }
  [[nodiscard]] constexpr std::size_t index() const { return bits_ >> 8; }

 private:
  std::uint64_t bits_ = 0;
};

/// A document: the root and everything it refers to.
class PlainDocument {
 public:
  [[nodiscard]] PlainValue root() const { return root_; }
  /// Bytes that all values take.
  [[nodiscard]] Bytes value_bytes() const { return value_bytes_; }

  // Reading. Each answers nullopt or an empty range for a value of another kind.
  [[nodiscard]] std::optional<std::int64_t> int64(PlainValue value) const;
  /// Also takes negative numbers, as two's complement: PyTorch's C++ pickler writes addresses signed.
  [[nodiscard]] std::optional<std::uint64_t> uint64(PlainValue value) const;
  [[nodiscard]] std::optional<double> real(PlainValue value) const;  ///< integers too
  [[nodiscard]] std::optional<bool> boolean(PlainValue value) const;
  [[nodiscard]] std::optional<std::string_view> string(PlainValue value) const;
  [[nodiscard]] std::span<const PlainValue> items(PlainValue value) const;  ///< of a list or tuple
  /// Keys and values of a dict, alternating, in the order written; of equal keys the last one counts.
  [[nodiscard]] std::span<const PlainValue> entries(PlainValue value) const;
  /// The last value under a string key; none of a dict without it. Linear in the dict's size.
  [[nodiscard]] std::optional<PlainValue> find(PlainValue dict, std::string_view key) const;
  [[nodiscard]] std::size_t string_count() const { return strings_.size(); }

  // Building.
  [[nodiscard]] PlainValue make_integer(std::int64_t value);
  [[nodiscard]] PlainValue make_unsigned(std::uint64_t value);
  [[nodiscard]] PlainValue make_real(double value);
  [[nodiscard]] PlainValue make_string(std::string_view text, PlainKind kind = PlainKind::string);
  [[nodiscard]] PlainValue make_container(PlainKind kind);
  void append(PlainValue container, std::span<const PlainValue> values);
  void set_root(PlainValue root) { root_ = root; }

 private:
  struct Container {
    PlainValue* items = nullptr;
    std::uint32_t size = 0;
    std::uint32_t capacity = 0;
  };
  struct WideInteger {
    std::uint64_t bits = 0;
    bool is_unsigned = false;  // bits ≥ 2^63 that are not negative
  };
  [[nodiscard]] std::span<const PlainValue> contents(PlainValue value) const;

  std::unique_ptr<std::pmr::monotonic_buffer_resource> arena_ = std::make_unique<std::pmr::monotonic_buffer_resource>();
  std::deque<std::string_view> strings_;
  std::deque<Container> containers_;
  std::deque<WideInteger> wide_;
  std::deque<double> reals_;
  PlainValue root_;
  Bytes value_bytes_ = 0;
};

}  // namespace foreshard::traces
