// The reference runs for tests: those of accuracy, kept by name, with failures as exceptions.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "accuracy/accuracy.hpp"
#include "core/models/model_config.hpp"

namespace foreshard::reference {

using accuracy::MeasuredRun;
using accuracy::Rankings;
using accuracy::ReferenceRun;

/// One line of pairs.txt.
struct Pair {
  std::string from;
  std::string to;
  std::string kind;  ///< "gpu", "host" or "record"
};

class ReferenceRuns {
 public:
  /// `folder`: where NAME.pickle.xz, NAME.trace.json.xz, NAME.about.json and NAME.json lie.
  explicit ReferenceRuns(std::string folder) : folder_(std::move(folder)) {}

  /// Reads a run once. Throws std::runtime_error with the reader's message.
  const ReferenceRun& run(const std::string& name);
  /// All runs of the folder, by name.
  [[nodiscard]] std::vector<std::string> names() const;
  [[nodiscard]] bool has(const std::string& name) const;
  /// The machine takes no part in what a run measured.
  [[nodiscard]] MeasuredRun measured(const std::string& name) const;
  /// The configuration that generates the run's workload; nothing where no preset or family stands for its model.
  [[nodiscard]] std::optional<ModelConfig> model(const std::string& name) const;

 private:
  std::string folder_;
  std::map<std::string, ReferenceRun> runs_;
};

[[nodiscard]] std::vector<Pair> read_pairs(const std::string& path);

}  // namespace foreshard::reference
