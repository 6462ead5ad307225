// Reads typed values out of a JSON document (json_document.hpp), remembering where it is.
//
// Private to traces/workload_file. The first failure is kept with its JSON path ("$.steps[0][12]"); what
// comes after it is ignored, so callers need not look after every value. Not thread-safe.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/error.hpp"
#include "core/base/labels.hpp"
#include "core/workload/workload_names.hpp"
#include "traces/workload_file/json_document.hpp"

namespace foreshard::traces {

class JsonReader {
 public:
  /// `labels` gets the labels that are given as text.
  JsonReader(std::string_view where, Labels& labels) : where_(where), labels_(labels) {}

  /// One step down the path for as long as it lives.
  class Place {
   public:
    Place(JsonReader& reader, std::variant<std::string_view, std::size_t> step) : reader_(reader) {
      reader_.path_.push_back(step);
    }
    ~Place() { reader_.path_.pop_back(); }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

   private:
    JsonReader& reader_;
  };
  [[nodiscard]] Place at(std::string_view key) { return Place(*this, key); }
  [[nodiscard]] Place at(std::size_t index) { return Place(*this, index); }

  void fail(std::string what, std::string hint = {});
  [[nodiscard]] bool failed() const { return error_.has_value(); }
  [[nodiscard]] const Error& error() const { return *error_; }

  /// Fails unless `json` is an object whose keys are all `known`, each there once.
  bool object(const Json& json, std::span<const std::string_view> known);
  /// Fails unless `json` is an array.
  bool array(const Json& json);

  void read(const Json& json, std::string& out);
  void read(const Json& json, bool& out);
  void read(const Json& json, double& out);
  void read(const Json& json, Nanoseconds& out) { read(json, out.count); }
  void read(const Json& json, DType& out);
  /// A number that indexes the labels, text that is added to them, or null.
  void read(const Json& json, LabelId& out);

  template <class T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) void read(const Json& json, T& out) {
    if (std::uint64_t value = 0; !json.get_uint64().get(value)) {
      if (value > static_cast<std::uint64_t>(std::numeric_limits<T>::max())) return out_of_range(json);
      out = static_cast<T>(value);
    } else if (std::int64_t negative = 0; !json.get_int64().get(negative)) {
      if (std::is_unsigned_v<T> || negative < static_cast<std::int64_t>(std::numeric_limits<T>::min()))
        return out_of_range(json);
      out = static_cast<T>(negative);
    } else {
      wrong_type(json, "a whole number");
    }
  }

  /// A number, or null for none.
  template <class Tag>
  void read(const Json& json, Id<Tag>& out) {
    out = {};
    if (json.is_null()) return;
    read(json, out.value);
    if (!out.valid()) out_of_range(json);
  }

  template <NamedEnum E>
  void read(const Json& json, E& out) {
    std::string_view word;
    if (json.get_string().get(word)) return wrong_type(json, "a word");
    if (const std::optional<E> value = parse_name<E>(word)) {
      out = *value;
    } else {
      unknown_word(word, EnumNames<E>::kNames);
    }
  }

  template <class T>
  void read(const Json& json, std::vector<T>& out) {
    read_list(json, out, [this](const Json& item, T& value) { read(item, value); });
  }

  /// Calls `read_item(element, record)` for each element of a list.
  template <class T, class ReadItem>
  void read_list(const Json& json, std::vector<T>& out, ReadItem&& read_item) {
    if (!array(json)) return;
    const JsonList list = list_of(json);
    out.reserve(list.size());
    std::size_t i = 0;
    for (const Json item : list) {
      if (failed()) return;
      const Place place = at(i++);
      read_item(item, out.emplace_back());
    }
  }

 private:
  void wrong_type(const Json& json, std::string_view wanted);
  void out_of_range(const Json& json);
  void unknown_word(std::string_view word, std::span<const std::string_view> known);

  std::string where_;
  Labels& labels_;
  std::vector<std::variant<std::string_view, std::size_t>> path_;
  std::optional<Error> error_;
};

}  // namespace foreshard::traces
