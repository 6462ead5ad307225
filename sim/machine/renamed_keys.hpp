// What earlier schemas of machine profiles called some keys.
//
// Until schema 3 a few keys of a profile were other words than those of the code, PyTorch and NCCL. Such a profile is
// read as if it had today's words. Used by profile.cpp and by sim/calibrate, which changes profiles. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/base/error.hpp"

namespace foreshard::sim {

inline constexpr int kProfileSchema = 4;
inline constexpr int kOldestProfileSchema = 2;  ///< whose constants need not say what they were fitted on

/// Gives a profile of schema 2 or 3 today's keys, and one of schema 3 today's schema. Other documents stay as they are.
/// Errors (input): an object has a key under both of its names.
[[nodiscard]] Result<void> rename_keys(nlohmann::json& profile, std::string_view where);

/// Renames one member, which may be absent. Errors (input), at `place`: the object has both.
[[nodiscard]] Result<void> rename_key(nlohmann::json& object, std::string_view before, std::string_view now,
                                      std::string_view place);

}  // namespace foreshard::sim
