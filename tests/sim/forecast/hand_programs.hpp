// Allocation programs written by hand, of sizes that tell segments apart.
#pragma once

#include <map>

#include "sim/forecast/allocator_process.hpp"
#include "sim/forecast/length_programs.hpp"

namespace foreshard::sim::test {

class HandProgram {
 public:
  /// Returns the slot.
  std::uint32_t malloc(Bytes bytes, MemoryCategory category = MemoryCategory::activations) {
    const auto slot = static_cast<std::uint32_t>(sizes_.size());
    shape_.ops.push_back({AllocationOp::Kind::malloc, 0, {}, slot});
    shape_.names.push_back("request " + std::to_string(slot));
    shape_.categories.push_back(category);
    sizes_.push_back(bytes);
    return slot;
  }
  HandProgram& free(std::uint32_t slot) { return add(AllocationOp::Kind::free, slot); }
  HandProgram& free_carried(std::uint32_t place) { return add(AllocationOp::Kind::free_carried, place); }
  HandProgram& free_setup(std::uint32_t slot) { return add(AllocationOp::Kind::free_setup, slot); }
  HandProgram& carry(std::uint32_t slot) {
    shape_.carried.push_back(slot);
    return *this;
  }
  [[nodiscard]] AllocationProgram program() const { return {std::make_shared<const ProgramShape>(shape_), sizes_}; }

 private:
  HandProgram& add(AllocationOp::Kind kind, std::uint32_t index) {
    shape_.ops.push_back({kind, 0, {}, index});
    return *this;
  }

  ProgramShape shape_;
  std::vector<Bytes> sizes_;
};

/// Allocates `sizes`, then frees them, last first.
inline AllocationProgram stack_of(const std::vector<Bytes>& sizes) {
  HandProgram program;
  for (const Bytes size : sizes) program.malloc(size);
  for (std::size_t i = sizes.size(); i-- > 0;) program.free(static_cast<std::uint32_t>(i));
  return program.program();
}

inline ProcessStart empty_start() {
  return {{}, {}, HandProgram().program()};
}

/// A device of `total` bytes; a limit as set_per_process_memory_fraction sets it.
inline ProcessOptions process(Bytes total, std::optional<Bytes> limit = {}, const std::string& alloc_conf = {}) {
  ProcessOptions options;
  options.config = parse_alloc_conf(alloc_conf).value();
  options.memory.total = options.memory.capacity = total;
  options.limit = limit;
  return options;
}

/// The same two programs at every length of a list: a stack of sizes that follow the length, `bytes` a token each.
class StackPrograms : public ProgramSource {
 public:
  explicit StackPrograms(std::vector<Bytes> bytes_a_token) : bytes_(std::move(bytes_a_token)) {}

  using ProgramSource::prepare;
  Result<void> prepare(const std::vector<std::uint32_t>& lengths, unsigned,
                       const std::function<void(std::size_t, std::size_t)>&) override {
    for (const std::uint32_t length : lengths) {
      if (programs_.contains(length)) continue;  // others run them
      std::vector<Bytes> sizes;
      for (const Bytes bytes : bytes_) sizes.push_back(bytes * length);
      programs_[length] = {stack_of(sizes), stack_of(sizes)};
    }
    return {};
  }
  [[nodiscard]] const LengthPrograms& at(std::uint32_t length) const override { return programs_.at(length); }
  [[nodiscard]] const ProcessStart& start() const override { return start_; }

 private:
  std::vector<Bytes> bytes_;
  ProcessStart start_ = empty_start();
  std::map<std::uint32_t, LengthPrograms> programs_;
};

}  // namespace foreshard::sim::test
