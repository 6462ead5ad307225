#include "tests/reference/reference_runs.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

#include "accuracy/reference_run.hpp"

namespace foreshard::reference {
namespace {

template <class T>
T value_of(Result<T> result) {
  if (!result) throw std::runtime_error(result.error().text());
  return std::move(*result);
}

}  // namespace

bool ReferenceRuns::has(const std::string& name) const {
  return std::filesystem::exists(folder_ + "/" + name + ".pickle.xz");
}

std::vector<std::string> ReferenceRuns::names() const {
  return value_of(accuracy::reference_run_names(folder_));
}

MeasuredRun ReferenceRuns::measured(const std::string& name) const {
  return value_of(accuracy::read_measured(folder_, name));
}

std::optional<ModelConfig> ReferenceRuns::model(const std::string& name) const {
  return value_of(accuracy::model_of_run(folder_, name));
}

const ReferenceRun& ReferenceRuns::run(const std::string& name) {
  if (const auto it = runs_.find(name); it != runs_.end()) return it->second;
  return runs_.emplace(name, value_of(accuracy::read_reference_run(folder_, name))).first->second;
}

std::vector<Pair> read_pairs(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw std::runtime_error(path + ": cannot be opened");
  std::vector<Pair> pairs;
  for (std::string line; std::getline(file, line);) {
    if (line.empty() || line.front() == '#') continue;
    std::istringstream words(line);
    Pair pair;
    words >> pair.from >> pair.to >> pair.kind;
    pairs.push_back(pair);
  }
  return pairs;
}

}  // namespace foreshard::reference
