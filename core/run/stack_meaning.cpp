#include "core/run/stack_meaning.hpp"

#include <algorithm>
#include <array>

namespace foreshard {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

/// PyTorch's Python files, wherever it is installed or checked out: the package's folders and modules.
bool is_torch_file(std::string_view file) {
  if (has(file, "-packages/torch/") || has(file, "/torchinductor_")) return true;
  constexpr std::array<std::string_view, 16> kParts{
      "nn/", "autograd/", "distributed/", "optim/", "utils/", "_",         "cuda/",         "amp/",
      "fx/", "profiler/", "ao/",          "func/",  "jit/",   "compiler/", "functional.py", "storage.py"};
  const std::size_t at = file.rfind("/torch/");
  if (at == std::string_view::npos) return false;
  const std::string_view rest = file.substr(at + 7);
  return std::any_of(kParts.begin(), kParts.end(), [&](std::string_view part) { return rest.starts_with(part); });
}

bool is_standard_library(std::string_view file) {
  return file.starts_with("<frozen") || (has(file, "/lib/python3") && !has(file, "-packages/"));
}

constexpr std::string_view kOps = "at::_ops::";

/// Overload names that torchgen appends to an operator's: at::_ops::add_Tensor is aten::add.Tensor.
constexpr std::array<std::string_view, 12> kOverloads{"_memory_format", "_dtype_layout", "_dim_IntList", "_ScalarList",
                                                      "_Scalar",        "_TensorList",   "_Tensor",      "_IntList",
                                                      "_List",          "_out",          "_device",      "_int"};

}  // namespace

bool is_user_frame(const StackFrame& frame) {
  const std::string_view file = frame.file;
  // A cell of a notebook and Python's own input have names in angle brackets, as has code that torch.fx made.
  const bool typed = file.starts_with("<stdin>") || file.starts_with("<ipython-input") || file.starts_with("<string>");
  if (!typed && !file.ends_with(".py")) return false;
  return typed || (!is_torch_file(file) && !is_standard_library(file));
}

std::string operator_of(std::string_view function) {
  if (!function.starts_with(kOps)) return {};
  const std::string_view rest = function.substr(kOps.size());
  std::string_view name = rest.substr(0, rest.find("::"));
  if (name.size() == rest.size() || name.empty()) return {};
  for (const std::string_view overload : kOverloads)
    if (name.size() > overload.size() && name.ends_with(overload)) {
      name.remove_suffix(overload.size());
      break;
    }
  return "aten::" + std::string(name);
}

std::string frame_text(const StackFrame& frame) {
  const std::string file = frame.file.substr(frame.file.rfind('/') + 1);
  std::string text = file.empty() || file == "??" ? std::string() : file;
  if (frame.line > 0) text += ":" + std::to_string(frame.line);
  if (!text.empty()) text += ' ';
  return text + frame.function;
}

StackMeanings::StackMeanings(const CallStacks& stacks) : stacks_(stacks) {
  std::vector<bool> user, op;
  for (const StackFrame& frame : stacks.frames()) {
    user.push_back(is_user_frame(frame));
    op.push_back(!operator_of(frame.function).empty());
  }
  // A caller has a lower id than what it calls.
  for (const CallStack& stack : stacks.stacks()) {
    const std::size_t frame = stack.frame.value;
    user_.push_back(user[frame] ? stack.frame : at(user_, stack.caller));
    const FrameId outer = at(op_, stack.caller);
    op_.push_back(outer.valid() || !op[frame] ? outer : stack.frame);
  }
}

std::string StackMeanings::op(StackId stack) const {
  const FrameId frame = at(op_, stack);
  return frame.valid() ? operator_of(stacks_.frames()[frame.value].function) : std::string();
}

}  // namespace foreshard
