// Embedding and head as units of their own, where FSDP2's root holds both: fully_shard(embedding),
// fully_shard([norm, head]), and then the root, which has no parameters left (torchtitan wraps its models so,
// torchtitan/models/llama3/infra/parallelize.py, apply_fsdp).
//
// Pure and deterministic. Who: core/models/embedding_and_head.hpp.
#pragma once

#include <string>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

struct SplitRoot {
  Workload workload;  ///< without `sections`, which are its units' and not known: core/models makes those of a model
  std::string embedding;  ///< names of the two units: their modules, joined by ", "
  std::string head;
};

/// Parameters are the embedding's or the head's by where their gradients are made: before the first block's backward,
/// or behind the last one's. The root's hooks stay; the new units' stand where their modules run. The embedding's
/// inputs need no gradient, so that the root's final callback reduces it. Fails (usage) with the reason where there is
/// nothing to take apart, or the program does not say how: tied weights, frozen ones, a root of norms alone.
[[nodiscard]] Result<SplitRoot> split_root(const Workload& workload);

}  // namespace foreshard
