#include "sim/sweep/point_json.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace foreshard::sim {
namespace {

constexpr std::array<std::string_view, 4> kStates{"ran", "out of memory", "deadlock", "refused"};

}  // namespace

nlohmann::ordered_json json_of(const SweepPoint& p) {
  return {{"state", kStates[static_cast<std::size_t>(p.state)]},
          {"reason", p.reason},
          {"has_time", p.has_time},
          {"step_ms", p.step_ms},
          {"host_ms", p.host_ms},
          {"exposed_communication_ms", p.exposed_communication_ms},
          {"exposed_all_to_all_ms", p.exposed_all_to_all_ms},
          {"floor_compute_ms", p.floor.compute_ms},
          {"floor_links_ms", p.floor.links_ms},
          {"floor_host_ms", p.floor.host_ms},
          {"host_bound", p.host_bound},
          {"host_binds", p.host_binds},
          {"uncertainty", p.uncertainty},
          {"difference", p.difference},
          {"tokens_per_s_per_gpu", p.tokens_per_s_per_gpu},
          {"peak_requested_bytes", p.peaks.requested},
          {"peak_allocated_bytes", p.peaks.allocated},
          {"peak_active_bytes", p.peaks.active},
          {"peak_reserved_bytes", p.peaks.reserved},
          {"least_reserved_bytes", p.least_reserved},
          {"most_reserved_bytes", p.most_reserved},
          {"may_run_out_of_memory", p.may_run_out_of_memory},
          {"num_alloc_retries", p.num_alloc_retries},
          {"step_num_alloc_retries", p.step_num_alloc_retries},
          {"valid", p.valid},
          {"not_valid", p.not_valid},
          {"not_measured", p.not_measured},
          {"warnings", p.warnings},
          {"not_as_asked", p.not_as_asked}};
}

SweepPoint point_of(PieceMembers& members) {
  SweepPoint p;
  std::string state;
  members.read("state", state);
  const auto known = std::find(kStates.begin(), kStates.end(), state);
  if (known == kStates.end()) members.wrong("state");
  p.state = static_cast<SweepPoint::State>(known - kStates.begin());
  members.read("reason", p.reason);
  members.read("has_time", p.has_time);
  for (const auto& [key, value] : {std::pair{"step_ms", &p.step_ms},
                                   {"host_ms", &p.host_ms},
                                   {"exposed_communication_ms", &p.exposed_communication_ms},
                                   {"exposed_all_to_all_ms", &p.exposed_all_to_all_ms},
                                   {"floor_compute_ms", &p.floor.compute_ms},
                                   {"floor_links_ms", &p.floor.links_ms},
                                   {"floor_host_ms", &p.floor.host_ms},
                                   {"uncertainty", &p.uncertainty},
                                   {"difference", &p.difference},
                                   {"tokens_per_s_per_gpu", &p.tokens_per_s_per_gpu}})
    members.read(key, *value);
  for (const auto& [key, value] : {std::pair{"peak_requested_bytes", &p.peaks.requested},
                                   {"peak_allocated_bytes", &p.peaks.allocated},
                                   {"peak_active_bytes", &p.peaks.active},
                                   {"peak_reserved_bytes", &p.peaks.reserved},
                                   {"least_reserved_bytes", &p.least_reserved},
                                   {"most_reserved_bytes", &p.most_reserved}})
    members.read(key, *value);
  members.read("host_bound", p.host_bound);
  members.read("host_binds", p.host_binds);
  members.read("may_run_out_of_memory", p.may_run_out_of_memory);
  members.read("num_alloc_retries", p.num_alloc_retries);
  members.read("step_num_alloc_retries", p.step_num_alloc_retries);
  members.read("valid", p.valid);
  members.read("not_valid", p.not_valid);
  members.read("not_measured", p.not_measured);
  members.read("warnings", p.warnings);
  members.read("not_as_asked", p.not_as_asked);
  return p;
}

}  // namespace foreshard::sim
