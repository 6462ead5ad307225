#include "sim/sweep/sweep_part.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

namespace foreshard::sim {
namespace {

using Json = nlohmann::ordered_json;

constexpr PieceKind kKind{"sweep points", kMaxPoints};
constexpr std::array<std::string_view, 4> kStates{"ran", "out of memory", "deadlock", "refused"};

Json json_of(const SweepPoint& p) {
  return {{"state", kStates[static_cast<std::size_t>(p.state)]},
          {"reason", p.reason},
          {"has_time", p.has_time},
          {"step_ms", p.step_ms},
          {"host_ms", p.host_ms},
          {"exposed_communication_ms", p.exposed_communication_ms},
          {"exposed_all_to_all_ms", p.exposed_all_to_all_ms},
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
  members.read("warnings", p.warnings);
  members.read("not_as_asked", p.not_as_asked);
  return p;
}

}  // namespace

std::string sweep_part_text(const Part& part, const std::string& fingerprint, const std::vector<SweepPoint>& points) {
  return part_text(kKind, part, fingerprint, points.size(), [&](std::size_t i) { return json_of(points[i]); });
}

Result<PartFile<SweepPoint>> parse_sweep_part(std::string_view text, const std::string& where) {
  return read_part_file<SweepPoint>(kKind, text, where, point_of);
}

}  // namespace foreshard::sim
