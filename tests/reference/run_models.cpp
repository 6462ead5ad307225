#include "tests/reference/run_models.hpp"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "core/workload/model/presets.hpp"

namespace foreshard::reference {

std::optional<ModelConfig> model_of_run(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name + ".json";
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  const auto json = nlohmann::json::parse(file);
  const auto& config = json.at("config");
  const std::string model = config.at("model");
  PresetOverrides overrides;
  if (model == "mlp" || model == "torch-transformer") {
    overrides.dim = config.at("dim").get<std::uint64_t>();
    overrides.layers = config.at("layers").get<std::uint32_t>();
  }
  if (!is_preset(model)) return std::nullopt;
  auto found = preset(model, overrides);
  if (!found) throw std::runtime_error(path + ": " + found.error().text());
  return *found;
}

}  // namespace foreshard::reference
