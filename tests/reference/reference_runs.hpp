// The reference runs for tests and for the accuracy table: each run's recording as a workload, and what it
// measured, by name from one folder.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/allocator/statistics.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::reference {

/// What NAME.json measured.
struct MeasuredRun {
  std::vector<double> step_ms;  ///< without the first two
  double median_ms = 0;
  double low_ms = 0;   ///< second smallest
  double high_ms = 0;  ///< second largest
  MemoryPeaks peaks;   ///< of the last recorded step
};

struct ReferenceRun {
  Workload workload;
  MeasuredRun measured;
};

/// Settings planned from one recording, whose measured steps differ by more than 3 % and by more than their
/// spread: are they in the right order?
class Rankings {
 public:
  void add(const std::string& from, double predicted_ms, const MeasuredRun& measured);
  [[nodiscard]] int right() const { return right_; }
  [[nodiscard]] int wrong() const { return wrong_; }

 private:
  struct Entry {
    double predicted_ms;
    MeasuredRun measured;
  };
  std::map<std::string, std::vector<Entry>> by_recording_;
  int right_ = 0;
  int wrong_ = 0;
};

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

 private:
  std::string folder_;
  std::map<std::string, ReferenceRun> runs_;
};

[[nodiscard]] std::vector<Pair> read_pairs(const std::string& path);

}  // namespace foreshard::reference
