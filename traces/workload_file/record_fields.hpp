// Which member of a record stands under which key or at which place of a JSON array: one table a record,
// for reading and writing.
//
// Private to traces/workload_file. A Field is a key with three functions; an ArrayForm is a list of fields by
// position, of which those at the end may be left out while they have their default values.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "traces/workload_file/json_reader.hpp"
#include "traces/workload_file/json_text.hpp"

namespace foreshard::traces {

template <class R>
struct Field {
  std::string_view key;
  bool (*is_default)(const R&);
  void (*write)(std::string& out, const R&);
  void (*read)(JsonReader& reader, const Json& json, R&);
};

/// The field that `Get`, a lambda from record to member, reaches.
template <class R, auto Get>
constexpr Field<R> field(std::string_view key) {
  return {key,
          [](const R& record) {
            static const R kDefault{};
            return Get(record) == Get(kDefault);
          },
          [](std::string& out, const R& record) { write_value(out, Get(record)); },
          [](JsonReader& reader, const Json& json, R& record) { reader.read(json, Get(record)); }};
}

// One member of a record as a Field. A macro, for a lambda that serves const and mutable records alike cannot
// be written shorter.
#define FORESHARD_FIELD(record, key, member) \
  field < record, [](auto& r) -> auto& {     \
    return r.member;                         \
  }                                          \
  > (key)

template <class R>
struct ArrayForm {
  std::span<const Field<R>> fields;
  std::size_t required;
};

/// "[a,b,c]" without the fields at the end that are not required and have their defaults.
template <class R>
void write_array(std::string& out, const ArrayForm<R>& form, const R& record) {
  std::size_t count = form.fields.size();
  while (count > form.required && form.fields[count - 1].is_default(record)) --count;
  out += '[';
  for (std::size_t i = 0; i < count; ++i) {
    if (i > 0) out += ',';
    form.fields[i].write(out, record);
  }
  out += ']';
}

template <class R>
void read_array(JsonReader& reader, const Json& json, const ArrayForm<R>& form, R& record) {
  if (!reader.array(json)) return;
  const JsonList list = list_of(json);
  if (list.size() < form.required || list.size() > form.fields.size())
    return reader.fail(
        fmt::format("{} to {} values are wanted here, not {}", form.required, form.fields.size(), list.size()));
  std::size_t i = 0;
  for (const Json item : list) {
    if (reader.failed()) return;
    const auto place = reader.at(i);
    form.fields[i++].read(reader, item, record);
  }
}

/// `"key":value` of every field that is not at its default, each behind `separator`.
template <class R>
void write_members(std::string& out, std::type_identity_t<std::span<const Field<R>>> fields, const R& record,
                   std::string_view separator) {
  for (const Field<R>& field : fields) {
    if (field.is_default(record)) continue;
    out += separator;
    write_value(out, field.key);
    out += ": ";
    field.write(out, record);
  }
}

/// Reads the fields that an object has; its keys are checked by the caller.
template <class R>
void read_members(JsonReader& reader, const Json& json, std::type_identity_t<std::span<const Field<R>>> fields,
                  R& record) {
  for (const Field<R>& field : fields) {
    const auto found = member_of(json, field.key);
    if (!found || reader.failed()) continue;
    const auto place = reader.at(field.key);
    field.read(reader, *found, record);
  }
}

}  // namespace foreshard::traces
