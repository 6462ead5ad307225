// Reads the columns of one row into a record, checking type and range of each. Private to traces/store; see
// rows.hpp. The first failure is kept; what follows in that row is left at its default.
#pragma once

#include <bit>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include "core/base/quantity.hpp"
#include "traces/store/sqlite.hpp"
#include "traces/store/store_names.hpp"

namespace foreshard::traces {

class RowReader {
 public:
  template <class T>
  using Record = T;

  explicit RowReader(const Statement& statement) : statement_(statement) {}

  void begin() { at_ = 1; }  // column 0 is the id
  /// What the first wrong column holds; nothing while all is well.
  [[nodiscard]] const std::optional<std::string>& failure() const { return failure_; }

  void value(std::string_view column, std::string& text) {
    if (expect(column, SQLITE_TEXT, "text")) text = statement_.text(at_);
    ++at_;
  }
  void value(std::string_view column, double& number) {
    if (expect(column, SQLITE_FLOAT, "a real number")) number = statement_.real(at_);
    ++at_;
  }
  void value(std::string_view column, Nanoseconds& time) { value(column, time.count); }
  void value(std::string_view column, std::optional<Nanoseconds>& time) {
    if (null()) return;
    value(column, time.emplace().count);
  }
  template <class Tag>
  void value(std::string_view column, Id<Tag>& id) {
    id = {};
    if (null()) return;
    value(column, id.value);
  }
  template <class T>
  requires std::is_integral_v<T>
  void value(std::string_view column, T& number) {
    if (expect(column, SQLITE_INTEGER, "an integer")) {
      const std::int64_t stored = statement_.integer(at_);
      if constexpr (std::is_same_v<T, bool>) {
        if (stored != 0 && stored != 1) fail(column, "is neither 0 nor 1");
        number = stored == 1;
      } else {
        // 64-bit unsigned values are stored by their bits, so only narrower types have a range to check.
        if constexpr (sizeof(T) < sizeof(std::int64_t))
          if (stored < std::int64_t{std::numeric_limits<T>::min()} ||
              stored > std::int64_t{std::numeric_limits<T>::max()})
            fail(column, "is out of range: " + std::to_string(stored));
        number = static_cast<T>(stored);
      }
    }
    ++at_;
  }
  template <class E>
  requires std::is_enum_v<E>
  void value(std::string_view column, E& word) {
    if (expect(column, SQLITE_TEXT, "text")) {
      if (const std::optional<E> parsed = parse_word(statement_.text(at_), E{})) {
        word = *parsed;
      } else {
        fail(column, "has the unknown word '" + std::string(statement_.text(at_)) + "'");
      }
    }
    ++at_;
  }

  void span(Nanoseconds& start, Nanoseconds& end) {
    std::int64_t length = 0;
    value("ts", start);
    value("dur", length);
    end.count =
        std::bit_cast<std::int64_t>(static_cast<std::uint64_t>(start.count) + static_cast<std::uint64_t>(length));
  }

  template <class T>
  void unless(std::string_view column, T& field, T none, bool = false) {
    field = none;
    if (null()) return;
    value(column, field);
  }

 private:
  bool null() {
    if (statement_.type(at_) != SQLITE_NULL) return false;
    ++at_;
    return true;
  }
  bool expect(std::string_view column, int type, std::string_view what) {
    if (statement_.type(at_) == type) return true;
    fail(column, "is not " + std::string(what));
    return false;
  }
  void fail(std::string_view column, std::string_view what) {
    if (!failure_) failure_ = std::string(column) + " " + std::string(what);
  }

  const Statement& statement_;
  int at_ = 0;
  std::optional<std::string> failure_;
};

}  // namespace foreshard::traces
