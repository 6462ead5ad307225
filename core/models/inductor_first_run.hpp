// What a process allocates when it compiles a graph and runs its code for the first time: Inductor tries the
// configurations of each kernel (torch/_inductor/runtime/triton_heuristics.py, benchmark_all_configs; PyTorch 2.11).
//
// Who: llama_compiled.cpp. Later steps and microbatches, and blocks of the same code, do none of it.
#pragma once

#include <string_view>

#include "core/models/tape.hpp"

namespace foreshard::model {

/// Before compiled code: the attention patterns' scalars (fx_passes/fuse_attention.py).
void compile_first(Tape& tape);
/// Before a kernel of which there are two configurations: `writes` bytes; `mutated`: the bytes that it writes over, of
/// which each run gets a copy.
void tune_first(Tape& tape, std::string_view kernel, Bytes writes, Bytes mutated = 0);

}  // namespace foreshard::model
