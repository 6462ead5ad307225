// The names of an enumeration's values in files and on the command line: one table an enumeration.
//
// Who: whatever writes or reads an enumeration as text specialises EnumNames beside the enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace foreshard {

/// the names of one enumeration, in the order of its values.
template <class E>
struct EnumNames;

/// Whether E's words are in an EnumNames table.
template <class E>
concept NamedEnum = requires {
  EnumNames<E>::kNames.size();
};

/// The word of a value; "?" for a value outside the enumeration.
template <NamedEnum E>
[[nodiscard]] constexpr std::string_view name(E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < EnumNames<E>::kNames.size() ? EnumNames<E>::kNames[index] : std::string_view("?");
}

/// The value of a word; nothing where the enumeration has no such word.
template <NamedEnum E>
[[nodiscard]] constexpr std::optional<E> parse_name(std::string_view text) {
  for (std::size_t i = 0; i < EnumNames<E>::kNames.size(); ++i)
    if (EnumNames<E>::kNames[i] == text) return static_cast<E>(i);
  return std::nullopt;
}

/// How many values the enumeration has.
template <NamedEnum E>
inline constexpr std::size_t kEnumSize = EnumNames<E>::kNames.size();

/// The enumeration's values, in order.
template <NamedEnum E>
inline constexpr auto kEnumValues = [] {
  std::array<E, kEnumSize<E>> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<E>(i);
  return values;
}();

namespace enum_names_detail {

template <NamedEnum E>
consteval std::size_t characters() {
  std::size_t count = 0;
  for (const std::string_view text : EnumNames<E>::kNames) count += text.size();
  return count;
}

template <NamedEnum E>
inline constexpr auto kDashedText = [] {
  std::array<char, characters<E>()> text{};
  std::size_t at = 0;
  for (const std::string_view one : EnumNames<E>::kNames)
    for (const char c : one) text[at++] = c == '_' ? '-' : c;
  return text;
}();

}  // namespace enum_names_detail

/// The table with '-' in place of '_': the spelling of machine profiles and of text for people.
template <NamedEnum E>
inline constexpr auto kDashedNames = [] {
  std::array<std::string_view, kEnumSize<E>> names;
  std::size_t at = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::size_t size = EnumNames<E>::kNames[i].size();
    names[i] = std::string_view(enum_names_detail::kDashedText<E>.data() + at, size);
    at += size;
  }
  return names;
}();

/// name() in that spelling.
template <NamedEnum E>
[[nodiscard]] constexpr std::string_view dashed_name(E value) {
  const auto index = static_cast<std::size_t>(value);
  return index < kEnumSize<E> ? kDashedNames<E>[index] : std::string_view("?");
}

/// For static_assert: the table ends with the enumeration's last value.
template <NamedEnum E>
[[nodiscard]] consteval bool names_end_with(E last) {
  return static_cast<std::size_t>(last) + 1 == EnumNames<E>::kNames.size();
}

}  // namespace foreshard
