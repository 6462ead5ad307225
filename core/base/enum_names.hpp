// The names of an enumeration's values in files and on the command line: one table an enumeration.
//
// Who: whatever writes or reads an enumeration as text specialises EnumNames beside the enumeration.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

namespace foreshard {

/// The words of one enumeration, in the order of its values.
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

/// For static_assert: the table ends with the enumeration's last value.
template <NamedEnum E>
[[nodiscard]] consteval bool names_end_with(E last) {
  return static_cast<std::size_t>(last) + 1 == EnumNames<E>::kNames.size();
}

}  // namespace foreshard
