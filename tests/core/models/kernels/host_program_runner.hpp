// Runs a generated program on host memory: one rank that holds every parameter whole, no FSDP2 and no optimizer.
//
// Who: the tests of what generated programs compute. Each kernel is checked before it runs: its operands live and
// lie inside their blocks, what it reads was written before, and no parameter is written. A fault is a failed check of
// the running test.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/workload/workload.hpp"

namespace foreshard {

/// A block of memory and which of its bytes were written.
struct HostBlock {
  std::vector<std::byte> bytes;
  std::vector<bool> written;
};

class HostProgram {
 public:
  /// Parameters are filled from a counter: normal numbers of `deviation`, norms' weights (rank 1, "norm.weight")
  /// near 1. Those that are gathered in float8 are the same numbers, cast by their largest.
  HostProgram(const Workload& workload, double deviation);

  /// Runs one step's program; its batch is drawn from `stream`, and stays the same over calls with the same one.
  /// Returns the loss of the last microbatch where it is float32, else 0.
  double run(const Program& program, std::int64_t stream = 1 << 20);

  /// One element of a parameter, as the program computes with it.
  [[nodiscard]] double parameter(std::uint32_t id, std::uint64_t element) const;
  void set_parameter(std::uint32_t id, std::uint64_t element, double value);
  [[nodiscard]] std::uint64_t numel(std::uint32_t id) const;
  [[nodiscard]] std::size_t parameters() const { return shapes_.size(); }
  /// Of the gradient that the last run left for a parameter.
  [[nodiscard]] double gradient(std::uint32_t id, std::uint64_t element) const;
  [[nodiscard]] std::uint64_t launches() const { return launches_; }

 private:
  void fill_parameters(double deviation);
  void cast_to_float8(std::uint32_t id);
  void run_setup();
  void compute(const ProgramKernel& what, const std::string& label, std::int64_t stream);
  [[nodiscard]] HostBlock& block_of(const Operand& where);

  const Workload& workload_;
  DType dtype_;  // of unsharded parameters
  std::vector<Parameter> shapes_;
  std::map<std::uint32_t, HostBlock> parameters_;
  std::map<std::uint32_t, HostBlock> scales_;  // of those that are gathered in float8
  std::map<std::uint32_t, HostBlock> setup_;
  std::map<std::uint32_t, HostBlock> tensors_;
  std::map<std::uint32_t, std::uint32_t> gradients_;  // tensor by parameter
  std::uint64_t launches_ = 0;
};

}  // namespace foreshard
