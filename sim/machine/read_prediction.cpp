// "/prediction": what sim/predict takes for host-bound, for typical and for likely (prediction_spec.hpp).
#include <array>

#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {

void read_prediction(ProfileReader& reader, const nlohmann::json& section, MachineProfile& profile) {
  PredictionSpec& out = profile.prediction;
  const std::array<std::pair<std::string_view, double*>, 20> entries{
      {{"step_excess", &out.step_excess},
       {"host_share", &out.host_share},
       {"typical_host_scale", &out.typical_host_scale},
       {"least_host_scale", &out.least_host_scale},
       {"most_host_scale", &out.most_host_scale},
       {"insensitive", &out.insensitive},
       {"throttled_growth", &out.throttled_growth},
       {"gpu_bound", &out.gpu_bound},
       {"adapted", &out.adapted},
       {"collectives", &out.collectives},
       {"retries", &out.retries},
       {"difference", &out.difference},
       {"difference_host", &out.difference_host},
       {"difference_model_host", &out.difference_model_host},
       {"host_bound", &out.host_bound},
       {"model", &out.model},
       {"model_host", &out.model_host},
       {"model_elsewhere", &out.model_elsewhere},
       {"anchor_range", &out.anchor_range},
       {"host_speed_range", &out.host_speed_range}}};
  std::vector<std::string_view> keys;
  for (const auto& [key, value] : entries) keys.push_back(key);
  reader.known_keys(section, "/prediction", keys);
  for (const auto& [key, value] : entries) *value = reader.constant(section, "/prediction", key, "ratio");
  if (out.most_host_scale <= out.least_host_scale && !reader.error())
    reader.fail("/prediction/most_host_scale/value", "is above least_host_scale");
}

}  // namespace foreshard::sim
