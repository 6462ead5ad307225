// One elementwise pass over lists of tensors: PyTorch's torch._foreach_* kernels (ATen/native/cuda/ForeachFunctors.cuh,
// PyTorch 2.11), with the same float32 formula an element, rounded once to the tensors' dtype. Blocks work on chunks of
// one tensor each.
#include "gpu/kernels/foreach.hpp"

#include <array>
#include <type_traits>

#include "gpu/kernels/element.cuh"
#include "gpu/kernels/multi_tensor.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxInputs = 3;
constexpr int kListEntries = 110;  ///< the most that one of PyTorch's launches takes (MultiTensorApply.cuh)

struct Entry {
  void* out;
  const void* in[kMaxInputs];
  std::uint64_t numel;
  std::uint32_t chunks_before;
};

template <int kEntries>
struct Table {
  float alpha;
  DType dtype;
  std::uint32_t entries;
  Entry entry[kEntries];
};

constexpr int inputs_of(KernelOp op) {
  if (op == KernelOp::foreach_addcmul || op == KernelOp::foreach_addcdiv) return 3;
  return op == KernelOp::foreach_lerp ? 2 : 1;
}

/// Groups of elements that a thread has in flight: enough bytes of one list, or of several.
constexpr int groups_of(KernelOp op) {
  return inputs_of(op) == 1 ? 4 : 2;
}
constexpr std::uint32_t chunk_of(KernelOp op, int width) {
  return kThreads * groups_of(op) * static_cast<std::uint32_t>(width);
}

/// One element. Where ATen's source adds a product, its compiler makes one fused operation of it; here it is written.
template <KernelOp kOp>
__device__ inline float pass(float alpha, float a, float b, float c) {
  if constexpr (kOp == KernelOp::foreach_lerp)
    return fabsf(alpha) < 0.5F ? fmaf(alpha, b - a, a) : fmaf(-(b - a), 1 - alpha, b);
  if constexpr (kOp == KernelOp::foreach_mul) return a * alpha;
  if constexpr (kOp == KernelOp::foreach_addcmul) return fmaf(alpha, __fmul_rn(b, c), a);
  if constexpr (kOp == KernelOp::foreach_sqrt) return __fsqrt_rn(a);
  if constexpr (kOp == KernelOp::foreach_div) return __fdiv_rn(a, alpha);
  if constexpr (kOp == KernelOp::foreach_add) return a + alpha;
  if constexpr (kOp == KernelOp::foreach_addcdiv) return fmaf(alpha, __fdiv_rn(b, c), a);
}

template <KernelOp kOp, int kWidth>
__device__ inline void write_pass(const Entry& e, std::uint64_t at, DType dtype, float alpha,
                                  const element::Raw (&raw)[inputs_of(kOp)]) {
  float x[kMaxInputs][kWidth] = {};
#pragma unroll
  for (int k = 0; k < inputs_of(kOp); ++k) element::expand(x[k], raw[k], dtype);
#pragma unroll
  for (int i = 0; i < kWidth; ++i) x[0][i] = pass<kOp>(alpha, x[0][i], x[1][i], x[2][i]);
  element::write_group(e.out, at, dtype, x[0]);
}

template <KernelOp kOp, int kWidth, int kEntries>
__global__ void __launch_bounds__(kThreads) foreach_pass(const __grid_constant__ Table<kEntries> table) {
  constexpr int kInputs = inputs_of(kOp);
  constexpr int kGroups = groups_of(kOp);
  constexpr std::uint32_t kChunk = chunk_of(kOp, kWidth);
  const Entry& e = entry_of(table.entry, table.entries, blockIdx.x);
  const DType dtype = table.dtype;
  const float alpha = table.alpha;
  const std::uint64_t begin = static_cast<std::uint64_t>(blockIdx.x - e.chunks_before) * kChunk;
  const auto length = static_cast<std::uint32_t>(min(e.numel - begin, static_cast<std::uint64_t>(kChunk)));
  bool aligned = reinterpret_cast<std::uintptr_t>(e.out) % 16 == 0;
#pragma unroll
  for (int k = 0; k < kInputs; ++k) aligned = aligned && reinterpret_cast<std::uintptr_t>(e.in[k]) % 16 == 0;
  std::uint32_t done = 0;
  if (aligned) {
    const std::uint32_t groups = length / kWidth;
    const bool squares = kInputs == 3 && e.in[1] == e.in[2];  // read once
    element::Raw raw[kGroups][kInputs];
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const std::uint32_t group = i * kThreads + threadIdx.x;
      if (group >= groups) break;
#pragma unroll
      for (int k = 0; k < kInputs; ++k)
        if (k < 2 || !squares) raw[i][k] = element::load<kWidth>(e.in[k], begin + group * kWidth, dtype);
      if constexpr (kInputs == 3)
        if (squares) raw[i][2] = raw[i][1];
    }
#pragma unroll
    for (int i = 0; i < kGroups; ++i) {
      const std::uint32_t group = i * kThreads + threadIdx.x;
      if (group < groups) write_pass<kOp, kWidth>(e, begin + group * kWidth, dtype, alpha, raw[i]);
    }
    done = groups * kWidth;
  }
  for (std::uint32_t i = done + threadIdx.x; i < length; i += kThreads) {
    float x[kMaxInputs] = {};
#pragma unroll
    for (int k = 0; k < kInputs; ++k) x[k] = element::read<float>(e.in[k], begin + i, dtype);
    element::write<float>(e.out, begin + i, dtype, pass<kOp>(alpha, x[0], x[1], x[2]));
  }
}

/// Tensor `i` of every list.
template <KernelOp kOp>
Result<void> fill(Entry& e, const Arguments& args, std::size_t i, std::size_t tensors, const char* name) {
  e.numel = args[i].present() ? args[i].numel() : 0;
  if (e.numel == 0) return {};
  for (std::size_t list = 0; list <= inputs_of(kOp); ++list) {
    const std::size_t operand = list * tensors + i;
    const Argument a = args[operand];
    if (!a.present() || !a.contiguous() || a.dtype() != args.kernel.operands.front().dtype || a.numel() != e.numel)
      return bad_operand(name, operand, "is no contiguous tensor of the first one's dtype and the output's size");
    if (list == 0)
      e.out = a.data;
    else
      e.in[list - 1] = a.data;
  }
  return {};
}

template <KernelOp kOp, int kEntries>
Result<void> run_with(const Arguments& args, std::size_t tensors, const char* name) {
  Table<kEntries> table;
  table.alpha = static_cast<float>(args.kernel.alpha);
  table.dtype = tensors == 0 ? DType::float32 : args.kernel.operands.front().dtype;
  return put_in_tables<kEntries>(
      table, tensors, chunk_of(kOp, width_with(8, table.dtype)), name,
      [&](Entry& e, std::size_t i) { return fill<kOp>(e, args, i, tensors, name); },
      [&](std::uint32_t blocks) {
        if (table.dtype == DType::float32)
          foreach_pass<kOp, 4><<<blocks, kThreads, 0, args.stream>>>(table);
        else
          foreach_pass<kOp, 8><<<blocks, kThreads, 0, args.stream>>>(table);
      });
}

template <KernelOp kOp>
Result<void> run(const Arguments& args, const char* name) {
  constexpr std::size_t kLists = 1 + inputs_of(kOp);
  if (args.count() % kLists != 0) return bad_operand(name, args.count(), "is missing");
  if (args.count() > 0 && !is_float_up_to_32(args.kernel.operands.front().dtype))
    return bad_operand(name, 0, "is no float32, bfloat16 or float16");
  const std::size_t tensors = args.count() / kLists;
  if (tensors <= kFewEntries) return run_with<kOp, kFewEntries>(args, tensors, name);
  return run_with<kOp, kListEntries>(args, tensors, name);
}

}  // namespace

Result<void> run_foreach(const Arguments& args) {
  switch (args.kernel.op) {
    case KernelOp::foreach_lerp:
      return run<KernelOp::foreach_lerp>(args, "foreach_lerp");
    case KernelOp::foreach_mul:
      return run<KernelOp::foreach_mul>(args, "foreach_mul");
    case KernelOp::foreach_addcmul:
      return run<KernelOp::foreach_addcmul>(args, "foreach_addcmul");
    case KernelOp::foreach_sqrt:
      return run<KernelOp::foreach_sqrt>(args, "foreach_sqrt");
    case KernelOp::foreach_div:
      return run<KernelOp::foreach_div>(args, "foreach_div");
    case KernelOp::foreach_add:
      return run<KernelOp::foreach_add>(args, "foreach_add");
    case KernelOp::foreach_addcdiv:
      return run<KernelOp::foreach_addcdiv>(args, "foreach_addcdiv");
    default:
      return device_failure("not a foreach pass");
  }
}

}  // namespace foreshard::gpu
