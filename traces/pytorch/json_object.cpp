#include "traces/pytorch/json_object.hpp"

#include <fmt/format.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "core/base/strict_json.hpp"

namespace foreshard::traces {

const OrderedJson* JsonObject::find(const std::string& key) const {
  const auto it = value.find(key);
  return it == value.end() ? nullptr : &*it;
}

std::string JsonObject::place_of(std::string_view key) const {
  return place.ends_with(", ") ? place + std::string(key) : fmt::format("{}.{}", place, key);
}

Result<void> JsonObject::check_keys(std::span<const std::string_view> known) const {
  const std::string where = place.ends_with(", ") ? place.substr(0, place.size() - 2) : place;
  if (!value.is_object()) return fail(ErrorKind::input, "an object is needed here, this is " + describe(value), where);
  if (auto unknown = unknown_key(value, known))
    return fail(ErrorKind::input, std::move(unknown->what), where, std::move(unknown->hint));
  return {};
}

Result<std::string> JsonObject::text(const std::string& key) const {
  const OrderedJson* found = find(key);
  if (found == nullptr) return fail(ErrorKind::input, "this key is missing", place_of(key));
  if (!found->is_string())
    return fail(ErrorKind::input, "a string is needed, this is " + describe(*found), place_of(key));
  return found->get<std::string>();
}

Result<std::uint32_t> JsonObject::count(const std::string& key, std::uint32_t at_least) const {
  const OrderedJson* found = find(key);
  if (found == nullptr) return fail(ErrorKind::input, "this key is missing", place_of(key));
  const bool fits = found->is_number_unsigned() && found->get<std::uint64_t>() >= at_least &&
                    found->get<std::uint64_t>() <= std::numeric_limits<std::uint32_t>::max();
  if (!fits)
    return fail(ErrorKind::input,
                fmt::format("a whole number of at least {} is needed, this is {}", at_least,
                            found->is_number() ? found->dump() : describe(*found)),
                place_of(key));
  return found->get<std::uint32_t>();
}

std::string describe(const OrderedJson& value) {
  switch (value.type()) {
    case OrderedJson::value_t::null:
      return "null";
    case OrderedJson::value_t::object:
      return "an object";
    case OrderedJson::value_t::array:
      return "an array";
    case OrderedJson::value_t::string:
      return "a string";
    case OrderedJson::value_t::boolean:
      return "a boolean";
    default:
      return "a number";
  }
}

}  // namespace foreshard::traces
