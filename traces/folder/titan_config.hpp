// torchtitan's config.json: its whole Trainer.Config (JobConfig before it), written with --debug.save_config_file. A
// few of its keys are settings (torchtitan/config/job_config.py, torchtitan/distributed/fsdp.py and
// activation_checkpoint.py, 2026-11); where a value does not stand for one setting alone it is left out, as the
// recording shows it.
//
// Who: traces/import. Thread safety: free functions. Deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "core/base/error.hpp"
#include "traces/pytorch/about.hpp"

namespace foreshard::traces {

struct TitanConfig {
  About about;                       ///< settings alone
  std::uint32_t profile_freq = 0;    ///< the profiler runs at the end of each so many steps; 0 where it is off
  std::uint32_t profiled_steps = 0;  ///< of these, its warm-up included
  std::uint32_t batch_ranks = 1;     ///< ranks that share a batch: tensor, context and pipeline parallel ones
  bool accumulates = false;          ///< a global batch is set: how many microbatches a step has is in the recording
};

/// None where the file is another program's config.json: it has no "training" and "parallelism". Keys that are unknown
/// or of another type are passed over. Fails with ErrorKind::input for broken JSON (line and column).
[[nodiscard]] Result<std::optional<TitanConfig>> parse_titan_config(const std::string& text, const std::string& name);
/// The same of a file.
[[nodiscard]] Result<std::optional<TitanConfig>> read_titan_config(const std::string& path);

}  // namespace foreshard::traces
