#include "core/run/block_names.hpp"

#include <algorithm>

#include "core/workload/workload_names.hpp"

namespace foreshard {
namespace {

constexpr std::string_view kRoot = "(root)";

/// The range of FSDP2 or of the optimizer (record_function, PyTorch 2.11) in which blocks of a category are made.
std::string_view range_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::gather_buffers:
      return "FSDP::all_gather";
    case MemoryCategory::unsharded_parameters:
      return "FSDP::all_gather_copy_out";
    case MemoryCategory::reduce_buffers:
    case MemoryCategory::sharded_gradients:
      return "FSDP::post_backward_reduce";
    case MemoryCategory::optimizer_state:
    case MemoryCategory::optimizer_temporaries:
      return "Optimizer.step";
    default:
      return {};
  }
}

std::string or_root(const std::string& module) {
  return module.empty() ? std::string(kRoot) : module;
}

}  // namespace

std::string with_numbers_starred(std::string_view module) {
  std::string out;
  for (std::size_t at = 0; at <= module.size();) {
    const std::size_t end = std::min(module.find_first_of("., ()", at), module.size());
    const std::string_view part = module.substr(at, end - at);
    const bool number =
        !part.empty() && std::all_of(part.begin(), part.end(), [](char c) { return c >= '0' && c <= '9'; });
    out += number ? std::string_view("*") : part;
    if (end < module.size()) out += module[end];
    at = end + 1;
  }
  return out;
}

BlockNames::BlockNames(const Run& run) : run_(run), stacks_(run.stacks) {
  for (const Unit& unit : run.units)
    for (const Parameter& parameter : unit.parameters) parameters_.push_back(&parameter.name);
}

std::string BlockNames::owner(const BlockRecord& block) const {
  if (block.parameter.value < parameters_.size()) return *parameters_[block.parameter.value];
  if (block.unit.value < run_.units.size()) return or_root(run_.units[block.unit.value].name);
  return block.module.valid() ? or_root(run_.labels.text(block.module)) : std::string();
}

std::string BlockNames::op(const BlockRecord& block) const {
  const std::string_view range = range_of(block.category);
  const bool is_fsdp = block.unit.valid() && !range.empty();  // what allocates there is an implementation's detail
  if (block.op.valid() && !is_fsdp) return run_.labels.text(block.op);
  const std::string& label = run_.labels.text(block.label);
  if (label.empty()) return std::string(range);
  // "FSDP::all_gather (layers.3)": the unit is the owner's to say.
  const bool names_unit = block.unit.valid() && label.starts_with("FSDP::");
  return names_unit ? label.substr(0, label.find(" (")) : label;
}

std::string BlockNames::frame(StackId stack) const {
  const FrameId frame = stacks_.user_frame(stack);
  return frame.valid() ? frame_text(run_.stacks.frames()[frame.value]) : std::string();
}

std::string BlockNames::whole_frame(StackId stack) const {
  const FrameId id = stacks_.user_frame(stack);
  if (!id.valid()) return {};
  const StackFrame& frame = run_.stacks.frames()[id.value];
  return frame.file + ":" + std::to_string(frame.line) + " " + frame.function;
}

std::string BlockNames::title(const BlockRecord& block) const {
  const std::string of = owner(block);
  const std::string by = op(block);
  if (of.empty() && by.empty()) return std::string(name(block.category));
  if (of.empty()) return by;
  return by.empty() ? of : of + ": " + by;
}

std::string BlockNames::module_pattern(const BlockRecord& block) const {
  if (block.parameter.value >= parameters_.size()) return with_numbers_starred(owner(block));
  const std::string& parameter = *parameters_[block.parameter.value];
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? std::string(kRoot) : with_numbers_starred(parameter.substr(0, dot));
}

}  // namespace foreshard
