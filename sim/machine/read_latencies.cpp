// "/latencies": what lies between two operations. Zero is allowed.
#include <array>

#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {

void read_latencies(ProfileReader& reader, const nlohmann::json& latencies, MachineProfile& profile) {
  static constexpr std::array<std::string_view, 11> kKeys{
      "launch",      "kernel_gap",  "kernel_gap_all_gather", "copy_gap",  "event_wait", "communicator_gap",
      "synchronize", "long_kernel", "long_kernel_from",      "graph_gap", "graph_node"};
  // Profiles that were probed before "long_kernel_from" could be said mean this.
  constexpr Nanoseconds kFormerLongKernel{20'000};
  reader.known_keys(latencies, "/latencies", kKeys);
  Latencies& out = profile.latencies;
  const std::array<Nanoseconds*, 7> fields{&out.launch,     &out.kernel_gap, &out.kernel_gap_all_gather,
                                           &out.copy_gap,   &out.event_wait, &out.communicator_gap,
                                           &out.synchronize};
  for (std::size_t i = 0; i < fields.size(); ++i) *fields[i] = reader.time(latencies, "/latencies", kKeys[i]);
  if (reader.member(latencies, "/latencies", "long_kernel", false) != nullptr)  // absent: 0
    out.long_kernel = reader.time(latencies, "/latencies", "long_kernel");
  out.long_kernel_from = kFormerLongKernel;
  if (reader.member(latencies, "/latencies", "long_kernel_from", false) != nullptr)
    out.long_kernel_from = reader.time(latencies, "/latencies", "long_kernel_from");
  out.graph_gap = out.kernel_gap;
  if (reader.member(latencies, "/latencies", "graph_gap", false) != nullptr)
    out.graph_gap = reader.time(latencies, "/latencies", "graph_gap");
  if (reader.member(latencies, "/latencies", "graph_node", false) != nullptr)
    out.graph_node = reader.time(latencies, "/latencies", "graph_node");
}

}  // namespace foreshard::sim
