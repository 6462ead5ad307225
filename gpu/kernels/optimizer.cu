// One step of Adam or SGD: a block updates a chunk of one parameter, reading and writing parameter and states once.
// Arithmetic in float32, rounded once to each tensor's dtype.
#include "gpu/kernels/optimizer.hpp"

#include <array>
#include <cmath>

#include "gpu/kernels/element.cuh"
#include "gpu/kernels/multi_tensor.cuh"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 4;  // parameters and their states are float32
constexpr int kGroupsAThread = 2;
constexpr std::uint32_t kChunk = kThreads * kGroupsAThread * kWidth;  ///< elements a block updates
constexpr int kStates = 4;                                            ///< parameter, exp_avg, exp_avg_sq, gradient
constexpr int kCast = kStates;                                        ///< then the cast of the parameter

struct Entry {
  void* data[kStates + 1];
  std::uint64_t numel;
  std::uint32_t chunks_before;
  DType dtypes[kStates + 1];
};

/// Whether this optimizer has the state.
__host__ __device__ constexpr bool has(bool adam, bool casts, int state) {
  if (state == kCast) return casts;
  return adam || state == 0 || state == 3;
}

/// Adam: torch.optim.Adam's formulas (torch/optim/adam.py, 2.11), every factor rounded to float32 where it meets the
/// tensors.
struct Factors {
  bool adam = true;
  bool casts = false;
  float weight_decay = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float correction2_root = 1;
  float eps = 0;
  float step_size = 0;  ///< lr / (1 − beta1^step); SGD: lr
};

template <int kEntries>
struct Table {
  Factors factors;
  std::uint32_t entries;
  Entry entry[kEntries];
};
static_assert(sizeof(Table<kManyEntries>) <= 32764);

/// One element: {parameter, exp_avg, exp_avg_sq} after the step.
__device__ inline void step(const Factors& t, float& p, float& m, float& v, float g) {
  g = fmaf(t.weight_decay, p, g);
  if (!t.adam) {
    p = fmaf(-t.step_size, g, p);
    return;
  }
  m = fmaf(t.one_minus_beta1, g - m, m);
  v = v * t.beta2 + t.one_minus_beta2 * g * g;
  const float denominator = sqrtf(v) / t.correction2_root + t.eps;
  p -= t.step_size * (m / denominator);
}

template <bool kAdam, bool kCasts, int kEntries>
__global__ void __launch_bounds__(kThreads) optimizer_step(const __grid_constant__ Table<kEntries> table) {
  const Entry& e = entry_of(table.entry, table.entries, blockIdx.x);
  const std::uint64_t begin = static_cast<std::uint64_t>(blockIdx.x - e.chunks_before) * kChunk;
  const auto length = static_cast<std::uint32_t>(min(e.numel - begin, static_cast<std::uint64_t>(kChunk)));
  bool aligned = true;
#pragma unroll
  for (int s = 0; s <= kStates; ++s)
    aligned = aligned && (!has(kAdam, kCasts, s) || reinterpret_cast<std::uintptr_t>(e.data[s]) % 16 == 0);
  std::uint32_t done = 0;
  if (aligned) {
    const std::uint32_t groups = length / kWidth;
    element::Raw raw[kGroupsAThread][kStates];
#pragma unroll
    for (int i = 0; i < kGroupsAThread; ++i) {
      const std::uint32_t group = i * kThreads + threadIdx.x;
      if (group >= groups) break;
#pragma unroll
      for (int s = 0; s < kStates; ++s) {
        if (!has(kAdam, kCasts, s)) continue;
        raw[i][s] = element::load<kWidth>(e.data[s], begin + group * kWidth, e.dtypes[s]);
      }
    }
#pragma unroll
    for (int i = 0; i < kGroupsAThread; ++i) {
      const std::uint32_t group = i * kThreads + threadIdx.x;
      if (group >= groups) break;
      float x[kStates][kWidth] = {};
#pragma unroll
      for (int s = 0; s < kStates; ++s)
        if (has(kAdam, kCasts, s)) element::expand(x[s], raw[i][s], e.dtypes[s]);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) step(table.factors, x[0][k], x[1][k], x[2][k], x[3][k]);
#pragma unroll
      for (int s = 0; s < (kAdam ? 3 : 1); ++s)
        element::write_group(e.data[s], begin + group * kWidth, e.dtypes[s], x[s]);
      if constexpr (kCasts) {  // of the parameter as it was stored
        element::expand(x[0], element::collapse(x[0], e.dtypes[0]), e.dtypes[0]);
        element::write_group(e.data[kCast], begin + group * kWidth, e.dtypes[kCast], x[0]);
      }
    }
    done = groups * kWidth;
  }
  for (std::uint32_t i = done + threadIdx.x; i < length; i += kThreads) {
    float x[kStates] = {};
#pragma unroll
    for (int s = 0; s < kStates; ++s)
      if (has(kAdam, kCasts, s)) x[s] = element::read<float>(e.data[s], begin + i, e.dtypes[s]);
    step(table.factors, x[0], x[1], x[2], x[3]);
#pragma unroll
    for (int s = 0; s < (kAdam ? 3 : 1); ++s) element::write<float>(e.data[s], begin + i, e.dtypes[s], x[s]);
    if constexpr (kCasts)
      element::write<float>(e.data[kCast], begin + i, e.dtypes[kCast],
                            element::read<float>(e.data[0], begin + i, e.dtypes[0]));
  }
}

Result<Factors> settings(const Arguments& args) {
  const Kernel& c = args.kernel;
  Factors table;
  table.adam = c.op == KernelOp::adam;
  table.casts = c.casts;
  if (!table.adam) {
    if (c.scalars.size() != 2) return device_failure("sgd needs the scalars {lr, weight_decay}");
    table.step_size = static_cast<float>(c.scalars[0]);
    table.weight_decay = static_cast<float>(c.scalars[1]);
    return table;
  }
  if (c.scalars.size() != 5 || c.integers.empty() || c.integers[0] < 1)
    return device_failure("adam needs the scalars {lr, beta1, beta2, eps, weight_decay} and the number of its step");
  const auto step_number = static_cast<double>(c.integers[0]);
  table.weight_decay = static_cast<float>(c.scalars[4]);
  table.one_minus_beta1 = static_cast<float>(1 - c.scalars[1]);
  table.beta2 = static_cast<float>(c.scalars[2]);
  table.one_minus_beta2 = static_cast<float>(1 - c.scalars[2]);
  table.correction2_root = static_cast<float>(std::sqrt(1 - std::pow(c.scalars[2], step_number)));
  table.eps = static_cast<float>(c.scalars[3]);
  table.step_size = static_cast<float>(c.scalars[0] / (1 - std::pow(c.scalars[1], step_number)));
  return table;
}

/// The states in the order of the kernel's lists: casts are the last of the outputs.
constexpr std::array<int, kStates + 1> kLists{0, 1, 2, kCast, 3};

/// Tensor `i` of every list.
Result<void> fill(Entry& e, const Arguments& args, const Factors& factors, std::size_t i, std::size_t tensors,
                  const char* name) {
  e.numel = args[i].numel();
  if (e.numel == 0) return {};
  std::size_t operand = i;
  for (const int s : kLists) {
    if (!has(factors.adam, factors.casts, s)) continue;
    const Argument a = args[operand];
    if (!a.present() || !a.contiguous() || !is_float_up_to_32(a.dtype()) || a.numel() != e.numel)
      return bad_operand(name, operand, "is no contiguous tensor of the parameter's size");
    e.data[s] = a.data;
    e.dtypes[s] = a.dtype();
    operand += tensors;
  }
  return {};
}

template <int kEntries>
Result<void> run_with(const Arguments& args, const Factors& factors, std::size_t tensors, const char* name) {
  Table<kEntries> table;
  table.factors = factors;
  return put_in_tables<kEntries>(
      table, tensors, kChunk, name, [&](Entry& e, std::size_t i) { return fill(e, args, factors, i, tensors, name); },
      [&](std::uint32_t blocks) {
        if (factors.adam && factors.casts)
          optimizer_step<true, true><<<blocks, kThreads, 0, args.stream>>>(table);
        else if (factors.adam)
          optimizer_step<true, false><<<blocks, kThreads, 0, args.stream>>>(table);
        else if (factors.casts)
          optimizer_step<false, true><<<blocks, kThreads, 0, args.stream>>>(table);
        else
          optimizer_step<false, false><<<blocks, kThreads, 0, args.stream>>>(table);
      });
}

}  // namespace

Result<void> run_optimizer(const Arguments& args) {
  const Result<Factors> factors = settings(args);
  FORESHARD_TRY(factors);
  const char* name = factors->adam ? "adam" : "sgd";
  const std::size_t lists = (factors->adam ? 4 : 2) + (factors->casts ? 1 : 0);
  if (args.count() % lists != 0) return bad_operand(name, args.count(), "is missing");
  const std::size_t tensors = args.count() / lists;
  if (tensors <= kFewEntries) return run_with<kFewEntries>(args, *factors, tensors, name);
  return run_with<kManyEntries>(args, *factors, tensors, name);
}

}  // namespace foreshard::gpu
