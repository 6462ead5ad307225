// Binds the columns of one record to an INSERT. Private to traces/store; see rows.hpp.
#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/quantity.hpp"
#include "traces/store/sqlite.hpp"
#include "traces/store/store_names.hpp"

namespace foreshard::traces {

class RowWriter {
 public:
  template <class T>
  using Record = const T;

  explicit RowWriter(Statement& statement) : statement_(statement) {}

  /// Begins the row with this id.
  void begin(std::int64_t id) {
    statement_.bind(1, id);
    at_ = 2;
  }

  void value(std::string_view, const std::string& text) { statement_.bind(at_++, std::string_view(text)); }
  void value(std::string_view, double number) { statement_.bind(at_++, number); }
  void value(std::string_view, Nanoseconds time) { statement_.bind(at_++, time.count); }
  void value(std::string_view, const std::optional<Nanoseconds>& time) {
    if (time) {
      statement_.bind(at_++, time->count);
    } else {
      statement_.bind_null(at_++);
    }
  }
  template <class Tag>
  void value(std::string_view, Id<Tag> id) {
    if (id.valid()) {
      statement_.bind(at_++, std::int64_t{id.value});
    } else {
      statement_.bind_null(at_++);
    }
  }
  template <class T>
  requires std::is_integral_v<T>
  void value(std::string_view, T number) {
    statement_.bind(at_++, static_cast<std::int64_t>(number));  // 64-bit unsigned: the same bits
  }
  template <class E>
  requires std::is_enum_v<E>
  void value(std::string_view, E word) { statement_.bind(at_++, word_of(word)); }

  void span(Nanoseconds start, Nanoseconds end) {
    statement_.bind(at_++, start.count);
    // Unsigned, so that no pair of times overflows; the reader adds in the same way.
    statement_.bind(at_++, std::bit_cast<std::int64_t>(static_cast<std::uint64_t>(end.count) -
                                                       static_cast<std::uint64_t>(start.count)));
  }

  template <class T>
  void unless(std::string_view column, T field, T none, bool always = false) {
    if (field == none && !always) {
      statement_.bind_null(at_++);
    } else {
      value(column, field);
    }
  }

 private:
  Statement& statement_;
  int at_ = 1;
};

}  // namespace foreshard::traces
