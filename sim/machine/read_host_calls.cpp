// "/host/calls": what issuing each kind of call costs the host (core/models/host_calls.hpp).
#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {

void read_host_calls(ProfileReader& reader, const nlohmann::json& calls, MachineProfile& profile) {
  static const std::vector<std::string_view> kNames = [] {
    std::vector<std::string_view> names;
    for (std::size_t i = 0; i < kHostCalls; ++i) names.push_back(name(static_cast<HostCall>(i)));
    return names;
  }();
  reader.known_keys(calls, "/host/calls", kNames);
  for (std::size_t i = 0; i < kHostCalls; ++i)
    profile.host_calls.time[i] = reader.time(calls, "/host/calls", kNames[i]);
  profile.host_calls_known = !reader.error();
}

}  // namespace foreshard::sim
