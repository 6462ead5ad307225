// The changes of settings that might reduce reserved memory: all that `explain` tries.
//
// Internal to sim/sweep. Pure; in one fixed order.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/explain/explanation.hpp"
#include "core/settings/python_lines.hpp"
#include "core/settings/settings.hpp"
#include "sim/sweep/largest_fit.hpp"

namespace foreshard::sim {

struct Candidate {
  Settings settings;
  std::string setting;           ///< as plan's options: "--release stash"
  std::string reason;            ///< what it changes in memory, one sentence
  std::string pytorch;           ///< what PyTorch calls it where python_lines() has no line for it; else empty
  std::vector<CauseKind> cures;  ///< what it is meant against; empty: it makes the program smaller in another way
  std::optional<LargestFit> largest = {};  ///< where it is a size that was looked for
};

/// Candidates for a run at `base`, each different from it and from the others. The three remedies of pytorch#147168
/// come first: references instead of record_stream, the all-gather not as an async op, gather buffers on the compute
/// stream; then allocator options, prefetch, resharding, the optimizer, checkpointing.
/// `out_of_memory`: what makes room at any price comes too, last: mixed precision, states on the host, more ranks. Not
/// smaller batches, which are looked for (largest_fit.hpp). `node_gpus`: GPUs of a node, which are taken before more
/// nodes are.
[[nodiscard]] std::vector<Candidate> candidates(const Settings& base, bool out_of_memory = false,
                                                std::uint32_t node_gpus = 0);

/// The options of plan that turn `from` into `to`, in table order, separated by blanks.
[[nodiscard]] std::string setting_text(const Settings& from, const Settings& to);

/// The lines of python_lines() that `to` has and `from` has not, for a program that runs; those that it lacks as "leave
/// out: …".
[[nodiscard]] std::string pytorch_text(const Settings& from, const Settings& to, const ModuleNames& modules = {});

}  // namespace foreshard::sim
