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
  bool8 = 7
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;  ///< as in `torch.<name>`
  Bytes itemsize;
};

inline constexpr std::array kDTypes{
    DTypeInfo{DType::float32, "float32", 4}, DTypeInfo{DType::bfloat16, "bfloat16", 2},
    DTypeInfo{DType::float16, "float16", 2}, DTypeInfo{DType::float64, "float64", 8},
    DTypeInfo{DType::int64, "int64", 8},     DTypeInfo{DType::int32, "int32", 4},
    DTypeInfo{DType::uint8, "uint8", 1},     DTypeInfo{DType::bool8, "bool", 1},
};

[[nodiscard]] constexpr Bytes itemsize(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].itemsize;
}
[[nodiscard]] constexpr std::string_view name(DType dtype) {
  return kDTypes[static_cast<std::size_t>(dtype)].name;
}
[[nodiscard]] constexpr std::optional<DType> parse_dtype(std::string_view text) {
  for (const DTypeInfo& info : kDTypes)
    if (info.name == text) return info.dtype;
  return std::nullopt;
}

}  // namespace foreshard
