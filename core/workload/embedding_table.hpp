// Which parameters are looked up, not multiplied. Pure.
#pragma once

#include "core/workload/workload.hpp"

namespace foreshard {

/// Whether it is the table of an embedding: a matrix in a module of a name that an embedding has in torchtitan, Hugging
/// Face transformers and diffusers, or PyTorch's own examples.
[[nodiscard]] bool is_embedding_table(const Parameter& parameter);

}  // namespace foreshard
