// A file that grows while work goes on: one JSON object a line (docs/serve.md), for `foreshard serve` and scripts.
//
// Used by verbs with --progress. Each line is written whole, so that a reader never sees half of one but the last.
// Thread-safe. A line that cannot be written (a full disk) is dropped: progress does not stop the work, whose end says
// so (result()).
#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "core/base/error.hpp"

namespace foreshard::cli {

class ProgressFile {
 public:
  struct Head {
    std::string title;
    std::string unit;  ///< of `total`: "points", "steps"
    std::uint64_t total = 0;
    std::vector<std::string> columns;  ///< of the rows; those that end in _bytes are sizes, step_ms is a time
    Bytes limit = 0;                   ///< that peak_reserved_bytes is held against; 0: none
    std::string store = {};            ///< where the best point's run will be; empty: nowhere
  };

  ProgressFile() = default;
  ProgressFile(const ProgressFile&) = delete;
  ProgressFile& operator=(const ProgressFile&) = delete;
  /// Says that the work is finished, if finish() did not.
  ~ProgressFile();

  /// Begins the file. Errors: usage where it exists and `force` is not set; input where it cannot be written.
  [[nodiscard]] Result<void> open(const std::string& path, bool force, const Head& head);
  /// One more is done, with its row. Nothing without open().
  void row(const Json& cells);
  void finish();
  /// The same, and which of the rows is the best.
  void finish(const Json& best);
  /// Fails (input) where a line could not be written.
  [[nodiscard]] Result<void> result();

 private:
  void line(const Json& json);

  std::mutex mutex_;
  std::string path_, failure_;
  int file_ = -1;
  std::uint64_t done_ = 0, total_ = 0;
};

}  // namespace foreshard::cli
