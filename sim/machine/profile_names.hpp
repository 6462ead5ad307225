// The words of profile JSON for kinds of kernels and collectives.
//
// Used by the readers and writers of profiles. Order is that of the enumerations.
#pragma once

#include <array>
#include <string_view>

#include "core/device/device.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::sim {

inline constexpr std::array<std::string_view, 7> kKernelClassWords{
    "gemm", "gemm-single-wave", "gemm-streaming", "attention", "memory-bound", "gather-copy", "memset"};
inline constexpr std::array<std::string_view, 3> kCollectiveKindWords{"all-gather", "reduce-scatter", "all-reduce"};

[[nodiscard]] inline std::array<std::string_view, 5> transport_words() {
  std::array<std::string_view, 5> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = name(static_cast<Transport>(i));
  return words;
}
[[nodiscard]] constexpr std::string_view word(KernelClass kernel) {
  return kKernelClassWords[static_cast<std::size_t>(kernel)];
}
[[nodiscard]] constexpr std::string_view word(CollectiveKind kind) {
  return kCollectiveKindWords[static_cast<std::size_t>(kind)];
}

}  // namespace foreshard::sim
