#include "tests/reference/run_models.hpp"

#include <stdexcept>

#include "traces/accuracy/reference_run.hpp"

namespace foreshard::reference {

std::optional<ModelConfig> model_of_run(const std::string& folder, const std::string& name) {
  auto found = traces::model_of_run(folder, name);
  if (!found) throw std::runtime_error(found.error().text());
  return std::move(*found);
}

}  // namespace foreshard::reference
