// The buffers of one graph that torch.compile's Inductor generates code for: allocated where a kernel first writes
// them, freed behind the last that reads them, or taken over by a later one of the same dtype and size
// (torch/_inductor/codegen/wrapper.py, AllocateLine, FreeIfNotReusedLine and MemoryPlanningState; PyTorch 2.11).
//
// Who: llama_compiled.cpp. A graph's code runs twice: planning, which writes nothing and finds which buffers are taken
// over, then for real. Not thread-safe.
#pragma once

#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "core/models/tape.hpp"

namespace foreshard::model {

class InductorBuffers {
 public:
  explicit InductorBuffers(Tape& tape) : tape_(tape) {}

  /// Runs `code`, which is called with these buffers, twice.
  template <class Code>
  void run(const Code& code) {
    planning_ = true;
    code();
    planning_ = false;
    frees_ = 0;
    pool_.clear();
    code();
  }
  [[nodiscard]] bool planning() const { return planning_; }
  /// A contiguous buffer: the last one freed of this dtype and size, or a new one.
  [[nodiscard]] Tensor make(const Shape& shape, DType dtype);
  /// Behind the last use of a buffer that the graph made.
  void done(Tensor& buffer);
  /// … of an input: saved for backward, never taken over.
  void drop(Tensor& input) const {
    if (!planning_) input.reset();
  }

 private:
  using Key = std::pair<DType, Bytes>;
  struct Free {
    std::size_t number;
    Tensor buffer;  ///< none while planning
  };

  Tape& tape_;
  bool planning_ = false;
  std::size_t frees_ = 0;
  std::vector<bool> reused_;  // by the number of the free
  std::map<Key, std::vector<Free>> pool_;
};

}  // namespace foreshard::model
