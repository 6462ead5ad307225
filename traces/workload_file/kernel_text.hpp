// The JSON of what launches compute. Private to traces/workload_file; docs/workload.md has the form.
//
// Launches of a model repeat a few dozen Kernels on other tensors. So the file has each Kernel once, in the outermost
// object's "computations" (the former word, which files keep), and an op only its number there and where the operands
// lie.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/workload/workload.hpp"
#include "traces/workload_file/json_reader.hpp"

namespace foreshard::traces {

/// The Kernels of a workload, each once, in the order in which its programs name them.
class KernelTable {
 public:
  explicit KernelTable(const Workload& workload);

  /// As text, one each.
  [[nodiscard]] const std::vector<std::string>& texts() const { return texts_; }
  /// "[number, operands…]" of an op of one of the workload's programs whose Kernel is known.
  void write(std::string& out, const Program& program, const Op& op) const;

 private:
  void add(const Program& program);

  std::vector<std::string> texts_;
  std::map<std::string, std::size_t> numbers_;
  std::map<const Program*, std::vector<std::size_t>> of_program_;  // looked up, never iterated
};

/// Whether the op's Kernel is known.
[[nodiscard]] inline bool has_kernel(const Program& program, const Op& op) {
  return op.kernel_index < program.kernels.size();
}

/// One element of "computations". Fails where kernel_check.hpp finds a fault.
void read(JsonReader& reader, const Json& json, Kernel& out);

/// Reads what ops compute into their program.
class KernelReader {
 public:
  explicit KernelReader(const std::vector<Kernel>& table) : table_(table) {}

  void begin(Program& program) {
    program_ = &program;
    fused_ = kNoKernel;
  }
  /// "[number, operands…]".
  void read(JsonReader& reader, const Json& json, Op& op);

 private:
  const std::vector<Kernel>& table_;
  Program* program_ = nullptr;
  std::uint32_t fused_ = kNoKernel;  // of the program: launches that compute nothing share one
};

}  // namespace foreshard::traces
