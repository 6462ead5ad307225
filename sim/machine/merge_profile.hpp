// A profile that changes single numbers of another: how its JSON is laid over the other's.
//
// Used by profile.cpp for "extends" and by sim/calibrate, which writes profiles. Pure.
//   * An object is laid over an object key by key; a constant ({"value", "unit", "source"}) and a cell with a source
//     replace the whole constant, so that no number keeps the source of another.
//   * A table of /collectives replaces that of the same kind, transport, ranks, ranks_per_node, dtype and upcasts,
//     or is added.
//   * null takes a key away (a contention cell, /collectives).
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "core/base/error.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

void lay_over(nlohmann::json& base, const nlohmann::json& changes);

/// The profile that `json` is after "extends", without that key; its sections are not checked. Errors as
/// parse_profile().
[[nodiscard]] Result<nlohmann::json> complete_profile(std::string_view json, std::string_view where);

/// The same of a built-in profile, made once for all who ask, from any thread; null where none is called so.
[[nodiscard]] const nlohmann::json* find_builtin_document(std::string_view name);

/// The profile that `document`, a text's JSON, is after "extends". Errors as parse_profile().
[[nodiscard]] Result<MachineProfile> profile_from_json(nlohmann::json document, std::string_view where);

}  // namespace foreshard::sim
