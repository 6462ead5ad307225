#include "core/allocator/call_stacks.hpp"

namespace foreshard {

FrameId CallStacks::frame(std::string_view file, std::uint32_t line, std::string_view function) {
  std::string key(file);
  key += '\0';
  key += std::to_string(line);
  key += '\0';
  key += function;
  const FrameId next{static_cast<std::uint32_t>(frames_.size())};
  const auto [place, is_new] = frame_ids_.try_emplace(std::move(key), next);
  if (is_new) frames_.push_back({std::string(file), line, std::string(function)});
  return place->second;
}

StackId CallStacks::stack(FrameId frame, StackId caller) {
  const StackId next{static_cast<std::uint32_t>(stacks_.size())};
  const std::uint64_t key = std::uint64_t{caller.value} << 32 | frame.value;
  const auto [place, is_new] = stack_ids_.try_emplace(key, next);
  if (is_new) stacks_.push_back({frame, caller});
  return place->second;
}

std::vector<FrameId> CallStacks::frames_of(StackId stack) const {
  std::vector<FrameId> out;
  for (; stack.value < stacks_.size(); stack = stacks_[stack.value].caller) out.push_back(stacks_[stack.value].frame);
  return out;
}

}  // namespace foreshard
