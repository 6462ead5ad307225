// the names of an enumeration as a store holds them, whichever table they come from.
// Private to traces/store.
#pragma once

#include <optional>
#include <string_view>

#include "core/base/dtype.hpp"
#include "core/run/run_names.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::traces {

template <NamedEnum E>
[[nodiscard]] inline std::string_view word_of(E value) {
  return name(value);
}
[[nodiscard]] inline std::string_view word_of(DType value) {
  return name(value);
}

template <NamedEnum E>
[[nodiscard]] inline std::optional<E> parse_word(std::string_view text, E) {
  return parse_name<E>(text);
}
[[nodiscard]] inline std::optional<DType> parse_word(std::string_view text, DType) {
  return parse_dtype(text);
}

}  // namespace foreshard::traces
