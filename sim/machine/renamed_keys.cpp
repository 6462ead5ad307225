#include "sim/machine/renamed_keys.hpp"

#include <fmt/format.h>

#include <array>
#include <nlohmann/json.hpp>
#include <string>

namespace foreshard::sim {
namespace {

using Json = nlohmann::json;

/// A key of the object at `place`, or of each of its members where that ends in "/*".
struct RenamedKey {
  std::string_view place;
  std::string_view before;
  std::string_view now;
};
constexpr std::array kRenamed{
    RenamedKey{"", "covers", "valid_range"},
    RenamedKey{"/collectives/*", "widens", "upcasts"},
    RenamedKey{"/compute", "products", "gemms"},
    RenamedKey{"/contention", "late_tile", "tail_tile"},
    RenamedKey{"/contention", "beside_side", "with_side_kernel"},
    RenamedKey{"/contention", "resident_side", "persistent_side"},
    RenamedKey{"/contention/ring", "resident_pressure", "persistent_pressure"},
    RenamedKey{"/contention/symmetric", "resident_pressure", "persistent_pressure"},
    RenamedKey{"/contention/copy_engine", "resident_pressure", "persistent_pressure"},
    RenamedKey{"/contention/classes/*", "resident", "persistent"},
};

}  // namespace

Result<void> rename_key(Json& object, std::string_view before, std::string_view now, std::string_view place) {
  if (!object.is_object()) return {};
  const auto old = object.find(before);
  if (old == object.end()) return {};
  if (object.contains(now))
    return fail(ErrorKind::input, fmt::format("'{}' is what '{}' was called before, and both are here", now, before),
                std::string(place), fmt::format("keep '{}'", now));
  Json value = std::move(*old);
  object.erase(old);
  object[std::string(now)] = std::move(value);
  return {};
}

Result<void> rename_keys(Json& profile, std::string_view where) {
  static constexpr std::string_view kEach = "/*";
  if (!profile.is_object()) return {};
  const Json schema = profile.value("schema", Json());
  if (schema != kOldestProfileSchema && schema != kProfileSchema - 1) return {};
  for (const RenamedKey& key : kRenamed) {
    const bool each = key.place.ends_with(kEach);
    const std::string place(key.place.substr(0, key.place.size() - (each ? kEach.size() : 0)));
    const Json::json_pointer at(place);
    if (!profile.contains(at)) continue;
    if (!each) {
      FORESHARD_TRY(rename_key(profile[at], key.before, key.now, fmt::format("{} {}", where, place)));
    } else if (profile[at].is_structured()) {
      for (auto&& [name, member] : profile[at].items())
        FORESHARD_TRY(rename_key(member, key.before, key.now, fmt::format("{} {}/{}", where, place, name)));
    }
  }
  if (schema == kProfileSchema - 1) profile["schema"] = kProfileSchema;
  return {};
}

}  // namespace foreshard::sim
