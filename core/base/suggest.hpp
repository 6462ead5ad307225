// "Did you mean": the nearest known word to one that was not recognised.
//
// Used wherever a word of the user's is looked up: verbs, options, JSON keys, allocator options, preset
// names. Pure; of two equally near words the one that comes first in `known` wins.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace foreshard {

/// Edits that turn `a` into `b`: insertions, deletions, substitutions and swaps of neighbouring bytes
/// (Damerau-Levenshtein distance, optimal string alignment). Cost: |a|·|b|.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

/// The word of `known` nearest to `word`, or nothing where every one is further away than a third of
/// the word's length (at least one edit is always allowed). `-` and `_` count as equal, case does not.
[[nodiscard]] std::optional<std::string> nearest(std::string_view word, std::span<const std::string_view> known);

/// A hint for an Error: "did you mean 'X'?" where something is near, else "known: A, B, C". Empty where
/// `known` is.
[[nodiscard]] std::string suggestion(std::string_view word, std::span<const std::string_view> known);

}  // namespace foreshard
