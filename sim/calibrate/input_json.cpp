#include "sim/calibrate/input_json.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/calibrate/nccl_size.hpp"

namespace foreshard::sim {
namespace {

double as_number(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  double number = std::nan("");
  if (value.is_string()) {
    const auto& text = value.get_ref<const std::string&>();
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc() || end != text.data() + text.size()) return std::nan("");
  }
  return number;
}

}  // namespace

InputObject::InputObject(const nlohmann::json& object, std::string place) : object_(object), place_(std::move(place)) {
  if (!object_.is_object()) fail("an object is expected here");
}

bool InputObject::has(const char* key) const {
  return object_.is_object() && object_.contains(key) && !object_[key].is_null();
}

const nlohmann::json* InputObject::find(const char* key) {
  if (has(key)) return &object_[key];
  fail(fmt::format("'{}' is missing", key));
  return nullptr;
}

double InputObject::positive(const char* key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return 1;
  const double number = as_number(*value);
  if (std::isfinite(number) && number > 0 && number < 1e15) return number;
  fail(fmt::format("'{}' is no number above 0", key), "is the file damaged?");
  return 1;
}

std::uint64_t InputObject::whole(const char* key, std::uint64_t least, std::uint64_t most) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return least;
  if (value->is_number_unsigned() && value->get<std::uint64_t>() >= least && value->get<std::uint64_t>() <= most)
    return value->get<std::uint64_t>();
  fail(fmt::format("'{}' is no whole number from {} to {}", key, least, most));
  return least;
}

std::uint64_t InputObject::size(const char* key, std::uint64_t least) {
  constexpr std::uint64_t kMax = std::uint64_t{1} << 50;
  const nlohmann::json* value = find(key);
  if (value == nullptr || !value->is_string()) return value == nullptr ? least : whole(key, least, kMax);
  const auto bytes = parse_nccl_size(value->get_ref<const std::string&>());
  if (bytes && *bytes >= least && *bytes <= kMax) return *bytes;
  fail(fmt::format("'{}' is no size from {} to {} bytes", key, least, kMax),
       bytes ? std::string{} : bytes.error().hint);
  return least;
}

std::string InputObject::text(const char* key) {
  const nlohmann::json* value = find(key);
  if (value == nullptr) return {};
  if (value->is_string()) return value->get<std::string>();
  fail(fmt::format("'{}' is no text", key));
  return {};
}

bool InputObject::flag(const char* key) {
  if (!has(key)) return false;
  const nlohmann::json& value = object_[key];
  if (value.is_boolean()) return value.get<bool>();
  fail(fmt::format("'{}' is neither true nor false", key));
  return false;
}

void InputObject::fail(std::string what, std::string hint) {
  if (failed_) return;
  failed_ = true;
  error_ = {ErrorKind::input, std::move(what), place_, std::move(hint)};
}

}  // namespace foreshard::sim
