#include "traces/pytorch/plain_data.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>

#include "core/base/check.hpp"

namespace foreshard::traces {

namespace {

constexpr std::int64_t kInlineLimit = std::int64_t{1} << 55;

}  // namespace

std::string_view describe(PlainKind kind) {
  static constexpr std::array<std::string_view, 11> kNames{
      "None",  "a boolean", "an integer", "an integer", "an integer of more than 64 bits", "a float", "a string",
      "bytes", "a list",    "a tuple",    "a dict"};
  return kNames[static_cast<std::size_t>(kind)];
}

std::optional<std::int64_t> PlainDocument::int64(PlainValue value) const {
  if (value.kind() == PlainKind::integer) return value.payload();
  if (value.kind() != PlainKind::wide_integer) return std::nullopt;
  const WideInteger& wide = wide_[value.index()];
  if (wide.is_unsigned) return std::nullopt;
  return static_cast<std::int64_t>(wide.bits);
}

std::optional<std::uint64_t> PlainDocument::uint64(PlainValue value) const {
  if (value.kind() == PlainKind::integer) return static_cast<std::uint64_t>(value.payload());
  if (value.kind() != PlainKind::wide_integer) return std::nullopt;
  return wide_[value.index()].bits;
}

std::optional<double> PlainDocument::real(PlainValue value) const {
  if (value.kind() == PlainKind::real) return reals_[value.index()];
  if (auto integer = int64(value)) return static_cast<double>(*integer);
  return std::nullopt;
}

std::optional<bool> PlainDocument::boolean(PlainValue value) const {
  if (value.kind() != PlainKind::boolean) return std::nullopt;
  return value.payload() != 0;
}

std::optional<std::string_view> PlainDocument::string(PlainValue value) const {
  if (value.kind() != PlainKind::string) return std::nullopt;
  return strings_[value.index()];
}

std::span<const PlainValue> PlainDocument::contents(PlainValue value) const {
  const Container& container = containers_[value.index()];
  return {container.items, container.size};
}

std::span<const PlainValue> PlainDocument::items(PlainValue value) const {
  if (value.kind() != PlainKind::list && value.kind() != PlainKind::tuple) return {};
  return contents(value);
}

std::span<const PlainValue> PlainDocument::entries(PlainValue value) const {
  if (value.kind() != PlainKind::dict) return {};
  return contents(value);
}

std::optional<PlainValue> PlainDocument::find(PlainValue dict, std::string_view key) const {
  const std::span<const PlainValue> all = entries(dict);
  for (std::size_t i = all.size(); i >= 2; i -= 2) {
    if (string(all[i - 2]) == key) return all[i - 1];
  }
  return std::nullopt;
}

PlainValue PlainDocument::make_integer(std::int64_t value) {
  if (value >= -kInlineLimit && value < kInlineLimit) return {PlainKind::integer, value};
  wide_.push_back({static_cast<std::uint64_t>(value), false});
  value_bytes_ += sizeof(WideInteger);
  return {PlainKind::wide_integer, static_cast<std::int64_t>(wide_.size() - 1)};
}

PlainValue PlainDocument::make_unsigned(std::uint64_t value) {
  if (value <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return make_integer(static_cast<std::int64_t>(value));
  wide_.push_back({value, true});
  value_bytes_ += sizeof(WideInteger);
  return {PlainKind::wide_integer, static_cast<std::int64_t>(wide_.size() - 1)};
}

PlainValue PlainDocument::make_real(double value) {
  reals_.push_back(value);
  value_bytes_ += sizeof(double);
  return {PlainKind::real, static_cast<std::int64_t>(reals_.size() - 1)};
}

PlainValue PlainDocument::make_string(std::string_view text, PlainKind kind) {
  char* copy = static_cast<char*>(arena_->allocate(std::max<std::size_t>(text.size(), 1), 1));
  std::copy(text.begin(), text.end(), copy);
  strings_.emplace_back(copy, text.size());
  value_bytes_ += text.size() + sizeof(std::string_view);
  return {kind, static_cast<std::int64_t>(strings_.size() - 1)};
}

PlainValue PlainDocument::make_container(PlainKind kind) {
  containers_.emplace_back();
  value_bytes_ += sizeof(Container);
  return {kind, static_cast<std::int64_t>(containers_.size() - 1)};
}

void PlainDocument::append(PlainValue container, std::span<const PlainValue> values) {
  if (values.empty()) return;
  Container& target = containers_[container.index()];
  const std::size_t size = target.size + values.size();
  FORESHARD_CHECK(size <= std::numeric_limits<std::uint32_t>::max(), "a container's builder checks its size");
  if (size > target.capacity) {
    // The first fill of a dict or tuple is almost always its last, so it gets exactly its size.
    const std::size_t grown =
        target.capacity == 0 ? size : std::max<std::size_t>(size, 2 * std::size_t{target.capacity});
    const std::size_t capacity = std::min<std::size_t>(grown, std::numeric_limits<std::uint32_t>::max());
    auto* items = static_cast<PlainValue*>(arena_->allocate(capacity * sizeof(PlainValue), alignof(PlainValue)));
    std::copy_n(target.items, target.size, items);
    value_bytes_ += capacity * sizeof(PlainValue);
    target.items = items;
    target.capacity = static_cast<std::uint32_t>(capacity);
  }
  std::copy(values.begin(), values.end(), target.items + target.size);
  target.size = static_cast<std::uint32_t>(size);
}

}  // namespace foreshard::traces
