// All saved tensors of a node, unpacked for its backward. Private to the ops.
#pragma once

#include "core/models/tape.hpp"

namespace foreshard::model {

/// As the locals of a generated backward: unpacked in order, dropped from the last on.
class Unpacked {
 public:
  Unpacked(Tape& tape, Node& node) {
    for (Saved& saved : node.saved) tensors_.push_back(tape.unpack(saved));
  }
  ~Unpacked() {
    while (!tensors_.empty()) tensors_.pop_back();
  }
  Unpacked(const Unpacked&) = delete;
  Unpacked& operator=(const Unpacked&) = delete;

  [[nodiscard]] const Tensor& operator[](std::size_t i) const { return tensors_[i]; }
  [[nodiscard]] std::size_t size() const { return tensors_.size(); }

 private:
  Tensors tensors_;
};

}  // namespace foreshard::model
