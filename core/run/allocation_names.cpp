#include "core/run/allocation_names.hpp"

#include <algorithm>
#include <array>

namespace foreshard {
namespace {

/// 20 TB/s, above every GPU's HBM (B200: 8 TB/s) and L2: what took less time cannot have filled a block of so many
/// bytes.
constexpr double kMaxBytesPerNs = 20'000;
/// Below, kernels are bound by their launch, and blocks lie in the L2 cache.
constexpr Bytes kTellingSize = 16 * kMiB;

bool names_the_operator(const Op& op) {
  if (op.kind == OpKind::copy) return op.copy.label.valid();
  return op.kind == OpKind::kernel && op.label.valid() && op.kernel.kernel_class != KernelClass::memset;
}

bool can_fill(const Op& launch, Bytes bytes) {
  if (bytes < kTellingSize || launch.kind != OpKind::kernel || launch.kernel.work.count == 0) return true;
  return static_cast<double>(launch.kernel.work.count) * kMaxBytesPerNs >= static_cast<double>(bytes);
}

/// The units whose forward or backward is running, innermost last.
class OpenUnits {
 public:
  void on_hook(const Op& op) {
    switch (op.hook) {
      case Hook::pre_forward:
      case Hook::pre_backward:
        loss_ = false;
        if (open_.empty() || open_.back() != op.unit) open_.push_back(op.unit);
        break;
      case Hook::post_forward:
      case Hook::post_backward:
        close(op.unit);
        if (op.hook == Hook::post_forward) loss_ = op.unit == kRootUnit;
        break;
      case Hook::backward_end:
      case Hook::microbatch_begin:
      case Hook::optimizer_begin:
        open_.clear();
        loss_ = false;
        break;
      default:
        break;
    }
  }
  [[nodiscard]] UnitId innermost() const { return open_.empty() ? UnitId{} : open_.back(); }
  /// Behind the model's forward, before its backward: what the script makes of the output.
  [[nodiscard]] bool in_loss() const { return loss_; }

 private:
  void close(UnitId unit) {
    const auto found = std::find(open_.rbegin(), open_.rend(), unit);
    if (found != open_.rend()) open_.erase(std::next(found).base(), open_.end());
  }
  std::vector<UnitId> open_;
  bool loss_ = false;
};

/// The kernels of an operator that stands for others: what it applies is a template argument.
constexpr std::array<std::string_view, 6> kGeneric{"grid_stride_kernel",
                                                   "elementwise_kernel",
                                                   "multi_tensor_apply_kernel",
                                                   "reduce_kernel",
                                                   "elementwise_kernel_with_index",
                                                   "index_elementwise_kernel"};
/// Template arguments that only wrap another.
constexpr std::array<std::string_view, 10> kWrappers{"func_wrapper_t",
                                                     "gpu_kernel_impl",
                                                     "TensorListMetadata",
                                                     "TensorListScalarListMetadata",
                                                     "TensorListScalarTensorMetadata",
                                                     "BinaryFunctor",
                                                     "AUnaryFunctor",
                                                     "BUnaryFunctor",
                                                     "OpaqueType",
                                                     "ReduceOp"};

bool is_name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::string without(std::string text, std::string_view part) {
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at)) text.erase(at, part.size());
  return text;
}

/// The first function or functor of at::native among a kernel's template arguments; empty without one.
std::string applied_function(std::string_view arguments) {
  constexpr std::string_view kNative = "at::native::";
  for (std::size_t at = arguments.find(kNative); at != std::string_view::npos; at = arguments.find(kNative, at)) {
    at += kNative.size();
    std::string_view name;
    for (bool deeper = true; deeper;) {  // "binary_internal::MulFunctor"
      std::size_t end = at;
      while (end < arguments.size() && is_name_char(arguments[end])) ++end;
      name = arguments.substr(at, end - at);
      deeper = arguments.substr(end).starts_with("::");
      at = deeper ? end + 2 : end;
    }
    const bool wraps = std::any_of(kWrappers.begin(), kWrappers.end(),
                                   [&](std::string_view wrapper) { return name.starts_with(wrapper); });
    if (!name.empty() && !wraps) return std::string(name);
  }
  return {};
}

/// What a foreach kernel does to each tensor: the operation behind its functor's arguments, "multiplies" of
/// "BinaryOpScalarFunctor<float, 1, 1, 0>, std::multiplies<float>"; empty where the functor is all there is.
std::string foreach_operation(std::string_view arguments) {
  std::size_t at = arguments.find("Functor<");
  if (at == std::string_view::npos) return {};
  at += 8;
  for (int depth = 1; at < arguments.size() && depth > 0; ++at)
    depth += arguments[at] == '<' ? 1 : arguments[at] == '>' ? -1 : 0;
  if (!arguments.substr(at).starts_with(", ")) return {};
  std::string_view name = arguments.substr(at + 2);
  std::size_t end = 0;
  while (end < name.size() && (is_name_char(name[end]) || name[end] == ':')) ++end;
  if (end == name.size() || name[end] != '<') return {};
  name = name.substr(0, end);
  const std::size_t scope = name.rfind("::");
  return std::string(scope == std::string_view::npos ? name : name.substr(scope + 2));
}

/// "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL": "ReduceScatter Sum f32 RING_LL", with NCCL's name of the algorithm
/// and the protocol.
std::string nccl_title(std::string_view name) {
  const std::size_t prefix = name.find("Kernel_");
  if (prefix == std::string_view::npos) return std::string(name);
  std::string out(name.substr(prefix + 7));
  const std::size_t last = out.rfind('_');
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::string_view behind = std::string_view(out).substr(i + 1);
    const bool protocol =
        i == last && out.find(' ') != std::string::npos && (behind.starts_with("LL") || behind == "SIMPLE");
    if (out[i] == '_' && !protocol) out[i] = ' ';
  }
  return out;
}

/// cuDNN's fused attention and CUTLASS's GEMMs by what they are; the rest of their names is tiles and schedules.
std::string library_title(std::string_view name) {
  const auto has = [name](std::string_view part) { return name.find(part) != std::string_view::npos; };
  if (name.starts_with("cudnn_") && has("sdpa"))
    return std::string("cuDNN sdpa ") + (has("bprop") ? "backward" : "forward");
  if (!name.starts_with("cutlass_") || !has("gemm")) return {};
  std::string type = has("bf16") ? " bf16" : has("tf32") || has("s1688gemm_f32") ? " tf32" : has("sgemm") ? " f32" : "";
  return "cutlass" + type + " GEMM";
}

}  // namespace

std::string kernel_title(std::string_view kernel) {
  constexpr std::size_t kLongest = 2048;  // bounds the work for a hostile name; PyTorch's longest are below
  std::string text = without(std::string(kernel.substr(0, kLongest)), "(anonymous namespace)::");
  if (text.starts_with("void ")) text.erase(0, 5);
  const std::size_t end = std::min(text.find_first_of("<("), text.size());
  std::string name = text.substr(0, end);
  name.erase(0, name.rfind("::") == std::string::npos ? 0 : name.rfind("::") + 2);
  while (!name.empty() && name.back() == ' ') name.pop_back();
  const bool generic =
      std::any_of(kGeneric.begin(), kGeneric.end(), [&](std::string_view of) { return name.ends_with(of); });
  if (name == "multi_tensor_apply_kernel")
    if (std::string operation = foreach_operation(std::string_view(text).substr(end)); !operation.empty())
      return "foreach " + operation;
  if (generic)
    if (std::string applied = applied_function(std::string_view(text).substr(end)); !applied.empty()) return applied;
  if (name.starts_with("nccl")) return nccl_title(name);
  // "cutlass::Kernel2<cutlass_80_simt_sgemm_128x32_8x5_nn_align1>": what it runs is the argument.
  std::string_view run = name;
  if (text.starts_with("cutlass::Kernel")) run = std::string_view(text).substr(std::min(end + 1, text.size()));
  if (std::string library = library_title(run); !library.empty()) return library;
  // cuBLAS: tiles, layouts and schedules follow the architecture.
  if (name.starts_with("nvjet_")) return name.substr(0, name.find('_', 6)) + " GEMM";
  return name.empty() ? text : name;
}

bool is_kernel_symbol(std::string_view label) {
  constexpr std::array<std::string_view, 7> kBegins{"void ", "nccl", "nvjet_", "cudnn_", "cutlass", "at::", "at_cuda_"};
  return std::any_of(kBegins.begin(), kBegins.end(), [&](std::string_view begin) { return label.starts_with(begin); });
}

std::string op_title(std::string_view label) {
  return is_kernel_symbol(label) ? kernel_title(label) : std::string(label);
}

std::string short_op_title(std::string_view label) {
  constexpr std::size_t kLongest = 48;
  std::string title = op_title(label);
  if (title.size() <= kLongest) return title;
  std::size_t end = kLongest;
  while (end > 0 && (static_cast<unsigned char>(title[end]) & 0xC0U) == 0x80U) --end;  // not inside a UTF-8 character
  return title.substr(0, end) + "…";
}

std::vector<AllocationName> allocation_names(const Workload& workload, const Program& program, Labels& labels) {
  std::vector<AllocationName> out(program.ops.size());
  const bool recorded = !workload.recorded_host_ms.empty();
  std::vector<LabelId> near(recorded ? workload.labels.texts().size() : 0);
  const auto name_of = [&](const Op& launch) {
    const LabelId label = launch.kind == OpKind::copy ? launch.copy.label : launch.label;
    if (!recorded || label.value >= near.size()) return label;
    if (!near[label.value].valid())
      near[label.value] = labels.intern("near " + kernel_title(workload.labels.text(label)));
    return near[label.value];
  };
  // Of the launches between the hooks around an allocation, the nearest that can have written it.
  std::vector<std::size_t> launches;  // the nearest last
  const auto nearest = [&](Bytes bytes) {
    constexpr std::size_t kFarthest = 4;
    for (std::size_t k = 0; k < std::min(launches.size(), recorded ? kFarthest : 1); ++k)
      if (const Op& launch = program.ops[launches[launches.size() - 1 - k]]; !recorded || can_fill(launch, bytes))
        return name_of(launch);
    return LabelId{};
  };
  const auto pass = [&](std::size_t i) {
    const Op& op = program.ops[i];
    if (op.kind == OpKind::hook) launches.clear();
    if (names_the_operator(op)) launches.push_back(i);
    if (op.kind == OpKind::alloc && !out[i].op.valid()) out[i].op = nearest(op.size.bytes);
  };
  for (std::size_t i = 0; i < program.ops.size(); ++i)
    if (program.ops[i].kind == OpKind::alloc) out[i] = {program.ops[i].label, program.ops[i].module};
  for (std::size_t i = program.ops.size(); i-- > 0;) pass(i);
  launches.clear();
  for (std::size_t i = 0; recorded && i < program.ops.size(); ++i) pass(i);  // what no launch follows
  OpenUnits units;
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    const Op& op = program.ops[i];
    if (op.kind == OpKind::hook) units.on_hook(op);
    if (op.kind != OpKind::alloc || out[i].module.valid()) continue;
    if (const UnitId unit = units.innermost(); unit.value < workload.units.size())
      out[i].module = labels.intern(workload.units[unit.value].name);
    else if (units.in_loss())
      out[i].module = labels.intern("(loss)");
  }
  return out;
}

}  // namespace foreshard
