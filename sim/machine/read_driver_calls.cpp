// "/driver_calls": what cudaMalloc, cudaFree and the calls of expandable segments take of the host. Zero is allowed.
#include <array>

#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {

void read_driver_calls(ProfileReader& reader, const nlohmann::json& calls, MachineProfile& profile) {
  static constexpr std::array<std::string_view, 7> kKeys{"malloc",   "malloc_gib", "refused", "free",
                                                         "free_gib", "map",        "unmap"};
  reader.known_keys(calls, "/driver_calls", kKeys);
  DriverCalls& out = profile.driver_calls;
  const std::array<Nanoseconds*, kKeys.size()> fields{&out.malloc,   &out.malloc_gib, &out.refused, &out.free,
                                                      &out.free_gib, &out.map,        &out.unmap};
  for (std::size_t i = 0; i < fields.size(); ++i) *fields[i] = reader.time(calls, "/driver_calls", kKeys[i]);
}

}  // namespace foreshard::sim
