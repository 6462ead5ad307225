// What a process allocates when it compiles a graph and runs its code for the first time: Inductor tries the
// configurations of each kernel (torch/_inductor/runtime/triton_heuristics.py, benchmark_all_configs; PyTorch 2.11).
//
// Who: llama_compiled.cpp; one for each tape. Later steps, and blocks of the same code, do none of it.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "core/models/tape.hpp"

namespace foreshard::model {

class InductorFirstRun {
 public:
  explicit InductorFirstRun(Tape& tape) : tape_(tape), compiles_(tape.options().first_step) {}

  /// Once, before the first compiled code: the attention patterns' scalars (fx_passes/fuse_attention.py).
  void compile();
  /// Before the first launch of a kernel of which there are two configurations; `mutated`: the bytes that it writes
  /// over, of which each run gets a copy.
  void tune(std::string_view kernel, Bytes writes, Bytes mutated = 0);

 private:
  void scratch(Bytes bytes, std::uint32_t times);

  Tape& tape_;
  bool compiles_;
  bool compiled_ = false;
  std::set<std::pair<std::string, Bytes>> tuned_;
};

}  // namespace foreshard::model
