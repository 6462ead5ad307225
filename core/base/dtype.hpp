// Element types, with PyTorch's names.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/quantity.hpp"

namespace foreshard {

/// Values are stored in files; never renumber.
enum class DType : std::uint8_t {
  float32 = 0,
  bfloat16 = 1,
  float16 = 2,
  float64 = 3,
  int64 = 4,
  int32 = 5,
  uint8 = 6,
  bool8 = 7,
  float8_e4m3fn = 8,  ///< 4 exponent and 3 fraction bits, up to 448, no infinities
  float8_e5m2 = 9     ///< 5 exponent and 2 fraction bits, up to 57,344
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  ///< as in `torch.<name>`
  Bytes itemsize;
};

inline constexpr std::array kDTypes{
    DTypeInfo{DType::float32, "float32", 4},
    DTypeInfo{DType::bfloat16, "bfloat16", 2},
    DTypeInfo{DType::float16, "float16", 2},
    DTypeInfo{DType::float64, "float64", 8},
    DTypeInfo{DType::int64, "int64", 8},
    DTypeInfo{DType::int32, "int32", 4},
    DTypeInfo{DType::uint8, "uint8", 1},
    DTypeInfo{DType::bool8, "bool", 1},
    DTypeInfo{DType::float8_e4m3fn, "float8_e4m3fn", 1},
    DTypeInfo{DType::float8_e5m2, "float8_e5m2", 1},
};

/// By value.
inline constexpr auto kAllDTypeNames = [] {
  std::array<std::string_view, kDTypes.size()> names{};
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kDTypes[i].name;
  return names;
}();

[[nodiscard]] constexpr Bytes itemsize(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].itemsize;
}
[[nodiscard]] constexpr std::string_view name(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].name;
}
/// Of a kernel's operands alone: nothing is stored, gathered or reduced in it.
[[nodiscard]] constexpr bool is_float8(DType dtype) {
  return dtype == DType::float8_e4m3fn || dtype == DType::float8_e5m2;
}
[[nodiscard]] constexpr std::optional<DType> parse_dtype(std::string_view text) {
  for (const DTypeInfo& info : kDTypes)
    if (info.name == text) return info.dtype;
  return std::nullopt;
}

}  // namespace foreshard
