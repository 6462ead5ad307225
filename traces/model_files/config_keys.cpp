#include "traces/model_files/config_keys.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "core/base/json_io.hpp"
#include "core/base/suggest.hpp"

namespace foreshard::traces {
namespace {

constexpr std::size_t kLongestKey = 64;  // longer ones get no suggestion, whose cost grows with their length
constexpr std::size_t kMaxKeys = 1'000;  // of the file that a suggestion looks at

std::string excerpt(const OrderedJson& value) {
  if (value.is_array() || value.is_object() || value.is_null()) return describe(value);
  constexpr std::size_t kMaxShown = 40;
  std::string text = json_text(value);
  if (text.size() > kMaxShown) text.replace(kMaxShown, std::string::npos, "…");
  return text;
}

}  // namespace

const OrderedJson* ConfigKeys::find(std::string_view key) const {
  const auto it = json_.find(std::string(key));
  return it == json_.end() || it->is_null() ? nullptr : &*it;
}

bool ConfigKeys::is_null(std::string_view key) const {
  const auto it = json_.find(std::string(key));
  return it != json_.end() && it->is_null();
}

void ConfigKeys::refuse(std::string_view key, std::string what, std::string hint, ErrorKind kind) {
  if (!error_) error_ = Error{kind, std::move(what), fmt::format("{}, {}", name_, key), std::move(hint)};
}

std::string ConfigKeys::misspelt(std::string_view key) const {
  std::vector<std::string> names;
  for (const auto& [name, value] : json_.items())
    if (name.size() <= kLongestKey && names.size() < kMaxKeys) names.push_back(name);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto near = nearest(key, known);
  return near ? fmt::format("the file has '{}'", *near) : std::string();
}

std::uint64_t ConfigKeys::size_or(std::initializer_list<std::string_view> spellings, std::uint64_t most,
                                  std::uint64_t otherwise) {
  for (const std::string_view key : spellings) {
    const OrderedJson* value = find(key);
    if (value == nullptr) continue;
    const bool whole = value->is_number_unsigned() && value->get<std::uint64_t>() >= 1;
    if (!whole)
      refuse(key, fmt::format("a whole number of at least 1 is needed, this is {}", excerpt(*value)));
    else if (value->get<std::uint64_t>() > most)
      refuse(key, fmt::format("{} is out of range: at most {}", excerpt(*value), most));
    else
      return value->get<std::uint64_t>();
    return 1;
  }
  return otherwise;
}

std::uint64_t ConfigKeys::size(std::initializer_list<std::string_view> spellings, std::uint64_t most) {
  for (const std::string_view key : spellings)
    if (has(key)) return size_or({key}, most, 1);
  const std::string_view key = *spellings.begin();
  refuse(key, "this key is missing", misspelt(key));
  return 1;
}

std::vector<std::uint32_t> ConfigKeys::places(std::string_view key, std::uint32_t end) {
  const OrderedJson* list = find(key);
  if (list == nullptr) return {};
  std::vector<std::uint32_t> out;
  for (const OrderedJson& item : list->is_array() ? *list : OrderedJson::array({*list})) {
    if (!item.is_number_unsigned() || item.get<std::uint64_t>() >= end) {
      refuse(key, fmt::format("a list of whole numbers below {} is needed, this has {}", end, excerpt(item)));
      return {};
    }
    out.push_back(item.get<std::uint32_t>());
  }
  return out;
}

bool ConfigKeys::flag_or(std::string_view key, bool otherwise) {
  const OrderedJson* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_boolean()) return value->get<bool>();
  refuse(key, fmt::format("true or false is needed, this is {}", excerpt(*value)));
  return otherwise;
}

double ConfigKeys::number_or(std::string_view key, double otherwise) {
  const OrderedJson* value = find(key);
  if (value == nullptr) return otherwise;
  if (value->is_number() && value->get<double>() >= 0) return value->get<double>();
  refuse(key, fmt::format("a number of at least 0 is needed, this is {}", excerpt(*value)));
  return otherwise;
}

std::optional<std::string> ConfigKeys::text(std::string_view key) const {
  const OrderedJson* value = find(key);
  if (value == nullptr || !value->is_string()) return std::nullopt;
  return value->get<std::string>();
}

std::optional<std::string> ConfigKeys::word(std::string_view key) {
  const OrderedJson* value = find(key);
  if (value != nullptr && !value->is_string()) refuse(key, fmt::format("text is needed, this is {}", excerpt(*value)));
  return text(key);
}

}  // namespace foreshard::traces
