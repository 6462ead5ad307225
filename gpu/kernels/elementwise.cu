// Elementwise ops as functors, and two kernels that apply any of them: groups of 4 or 8 elements through 16-byte
// accesses where all operands allow it, one by one elsewhere. Arithmetic in float32 (double where an operand is float64
// or an integer needs more bits), one rounding to the output's dtype. The same bits in every run.
#include "gpu/kernels/elementwise.hpp"

#include "gpu/kernels/element.cuh"
#include "gpu/kernels/strides.hpp"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;
/// Independent groups of loads in flight a thread: 16 elements.
constexpr int groups_a_thread(int width) {
  return 16 / width;
}

struct Params {
  void* data[kMaxTensors] = {};
  DType dtypes[kMaxTensors] = {};
  Dims dims;                ///< of the elements; of groups in the first dimension if vectorised
  std::uint32_t count = 0;  ///< elements or groups
  double alpha = 1;
  std::uint64_t seed = 0;
  std::uint64_t offset = 0;
};

// ---- The ops. `index`: row-major number of the element.

template <class T>
__device__ T exponential(T x) {
  if constexpr (sizeof(T) == 4) return expf(x);
  return exp(x);
}
template <class T>
__device__ T error_function(T x) {
  if constexpr (sizeof(T) == 4) return erff(x);
  return erf(x);
}
template <class T>
__device__ T sigmoid(T x) {
  if constexpr (sizeof(T) == 4) return fast_sigmoid(x);
  return T{1} / (T{1} + exponential(-x));
}

struct Fill {
  static constexpr int kOutputs = 1, kInputs = 0;
  template <class T>
  __device__ static void apply(const T*, T* out, const Params& p, std::uint64_t) {
    out[0] = static_cast<T>(p.alpha);
  }
};
struct Copy {
  static constexpr int kOutputs = 1, kInputs = 1;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    out[0] = in[0];
  }
};
struct Add {
  static constexpr int kOutputs = 1, kInputs = 2;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params& p, std::uint64_t) {
    out[0] = in[0] + static_cast<T>(p.alpha) * in[1];
  }
};
struct Sub {
  static constexpr int kOutputs = 1, kInputs = 2;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    out[0] = in[0] - in[1];
  }
};
struct Mul {
  static constexpr int kOutputs = 1, kInputs = 2;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    out[0] = in[0] * in[1];
  }
};
struct Neg {
  static constexpr int kOutputs = 1, kInputs = 1;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    out[0] = -in[0];
  }
};
struct MulScalar {
  static constexpr int kOutputs = 1, kInputs = 1;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params& p, std::uint64_t) {
    out[0] = static_cast<T>(p.alpha) * in[0];
  }
};
struct AddScalar {
  static constexpr int kOutputs = 1, kInputs = 1;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params& p, std::uint64_t) {
    out[0] = in[0] + static_cast<T>(p.alpha);
  }
};
struct Silu {
  static constexpr int kOutputs = 1, kInputs = 1;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    out[0] = in[0] * sigmoid(in[0]);
  }
};
struct SiluBackward {
  static constexpr int kOutputs = 1, kInputs = 2;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    const T s = sigmoid(in[1]);
    out[0] = in[0] * s * (T{1} + in[1] * (T{1} - s));
  }
};
struct Gelu {
  static constexpr int kOutputs = 1, kInputs = 1;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    out[0] = T(0.5) * in[0] * (T{1} + error_function(in[0] * T(0.70710678118654752440)));
  }
};
struct GeluBackward {
  static constexpr int kOutputs = 1, kInputs = 2;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    const T x = in[1];
    const T below = T(0.5) * (T{1} + error_function(x * T(0.70710678118654752440)));
    const T density = T(0.39894228040143267794) * exponential(T(-0.5) * x * x);  // 1 / √(2π)
    out[0] = in[0] * (below + x * density);
  }
};
struct Dropout {
  static constexpr int kOutputs = 2, kInputs = 1;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params& p, std::uint64_t index) {
    const bool kept = dropout_keeps(bits_of_counter(p.seed, p.offset + index), p.alpha);
    out[0] = kept ? in[0] * static_cast<T>(1 / (1 - p.alpha)) : T{0};
    out[1] = kept ? T{1} : T{0};
  }
};
struct DropoutBackward {
  static constexpr int kOutputs = 1, kInputs = 2;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params& p, std::uint64_t) {
    out[0] = in[1] != T{0} ? in[0] * static_cast<T>(1 / (1 - p.alpha)) : T{0};
  }
};
struct Swiglu {
  static constexpr int kOutputs = 1, kInputs = 2;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    out[0] = in[0] * sigmoid(in[0]) * in[1];
  }
};
struct SwigluBackward {  // dy, gate, up
  static constexpr int kOutputs = 2, kInputs = 3;
  template <class T>
  __device__ static void apply(const T* in, T* out, const Params&, std::uint64_t) {
    const T s = sigmoid(in[1]);
    out[0] = in[0] * in[2] * s * (T{1} + in[1] * (T{1} - s));
    out[1] = in[0] * in[1] * s;
  }
};

// ---- The kernels

/// Where element or group `index` lies in each tensor. `width`: elements of one step of the first dimension.
template <int kTensors>
__device__ void locate(const Params& p, std::uint32_t index, int width, std::int64_t (&offsets)[kTensors]) {
  if (p.dims.count == 1) {
#pragma unroll
    for (int t = 0; t < kTensors; ++t) offsets[t] = static_cast<std::int64_t>(index) * width * p.dims.strides[t][0];
    return;
  }
#pragma unroll
  for (int t = 0; t < kTensors; ++t) offsets[t] = 0;
  int step = width;
#pragma unroll
  for (int d = 0; d < kMaxDims; ++d) {
    if (d == p.dims.count) break;
    const std::uint32_t rest = index / p.dims.sizes[d];
    const std::int64_t at = static_cast<std::int64_t>(index - rest * p.dims.sizes[d]) * step;
#pragma unroll
    for (int t = 0; t < kTensors; ++t) offsets[t] += at * p.dims.strides[t][d];
    index = rest;
    step = 1;
  }
}

template <class Op, int kWidth>
__global__ void __launch_bounds__(kThreads) by_group(const __grid_constant__ Params p) {
  constexpr int kTensors = Op::kOutputs + Op::kInputs;
  constexpr int kGroups = groups_a_thread(kWidth);
  const std::uint32_t first = blockIdx.x * (kThreads * kGroups) + threadIdx.x;
  std::int64_t offsets[kGroups][kTensors];
  element::Raw raw[kGroups][Op::kInputs + 1];
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const std::uint32_t index = first + g * kThreads;
    if (index >= p.count) break;
    locate(p, index, kWidth, offsets[g]);
#pragma unroll
    for (int i = 0; i < Op::kInputs; ++i) {
      constexpr int kFirst = Op::kOutputs;
      if (p.dims.strides[kFirst + i][0] != 0)
        raw[g][i] = element::load<kWidth>(p.data[kFirst + i], offsets[g][kFirst + i], p.dtypes[kFirst + i]);
      else
        raw[g][i].x =
            __float_as_uint(element::read<float>(p.data[kFirst + i], offsets[g][kFirst + i], p.dtypes[kFirst + i]));
    }
  }
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
    const std::uint32_t index = first + g * kThreads;
    if (index >= p.count) break;
    float in[Op::kInputs + 1][kWidth];
#pragma unroll
    for (int i = 0; i < Op::kInputs; ++i) {
      if (p.dims.strides[Op::kOutputs + i][0] != 0) {
        element::expand(in[i], raw[g][i], p.dtypes[Op::kOutputs + i]);
      } else {
#pragma unroll
        for (int k = 0; k < kWidth; ++k) in[i][k] = __uint_as_float(raw[g][i].x);
      }
    }
    float out[Op::kOutputs][kWidth];
#pragma unroll
    for (int k = 0; k < kWidth; ++k) {
      float x[Op::kInputs + 1];
      float y[Op::kOutputs];
#pragma unroll
      for (int i = 0; i < Op::kInputs; ++i) x[i] = in[i][k];
      Op::apply(x, y, p, static_cast<std::uint64_t>(index) * kWidth + k);
#pragma unroll
      for (int o = 0; o < Op::kOutputs; ++o) out[o][k] = y[o];
    }
#pragma unroll
    for (int o = 0; o < Op::kOutputs; ++o) element::write_group(p.data[o], offsets[g][o], p.dtypes[o], out[o]);
  }
}

template <class Op, class T>
__global__ void __launch_bounds__(kThreads) one_by_one(const __grid_constant__ Params p) {
  constexpr int kTensors = Op::kOutputs + Op::kInputs;
  const std::uint32_t index = blockIdx.x * kThreads + threadIdx.x;
  if (index >= p.count) return;
  std::int64_t offsets[kTensors];
  locate(p, index, 1, offsets);
  T x[Op::kInputs + 1];
  T y[Op::kOutputs];
#pragma unroll
  for (int i = 0; i < Op::kInputs; ++i)
    x[i] = element::read<T>(p.data[Op::kOutputs + i], offsets[Op::kOutputs + i], p.dtypes[Op::kOutputs + i]);
  Op::apply(x, y, p, index);
#pragma unroll
  for (int o = 0; o < Op::kOutputs; ++o) element::write<T>(p.data[o], offsets[o], p.dtypes[o], y[o]);
}

// ---- Launching

bool is_byte(DType dtype) {
  return dtype == DType::uint8 || dtype == DType::bool8;
}

/// How many neighbours of the first dimension can be moved at once: 8, 4 or 0.
int width_of(const Params& p, int outputs, int tensors) {
  int width = 8;
  for (int t = 0; t < tensors; ++t) {
    if (!is_float_up_to_32(p.dtypes[t]) && !is_byte(p.dtypes[t])) return 0;
    width = width_with(width, p.dtypes[t]);
  }
  if (p.dims.sizes[0] % static_cast<unsigned>(width) != 0) return 0;
  for (int t = 0; t < tensors; ++t) {
    const std::int64_t inner = p.dims.strides[t][0];
    if (inner == 0 && t >= outputs) continue;
    if (inner != 1) return 0;
    const auto boundary = static_cast<std::int64_t>(width * itemsize(p.dtypes[t]));
    if (reinterpret_cast<std::intptr_t>(p.data[t]) % boundary != 0) return 0;
    for (int d = 1; d < p.dims.count; ++d)
      if (p.dims.strides[t][d] % width != 0) return 0;
  }
  return width;
}

/// Arithmetic in double: all floating operands are float64, or an integer needs more bits than float has.
bool wants_double(const Params& p, int tensors) {
  bool narrow = false;
  bool wide_integer = false;
  bool any_float = false;
  for (int t = 0; t < tensors; ++t) {
    narrow = narrow || is_float_up_to_32(p.dtypes[t]);
    any_float = any_float || is_float_up_to_32(p.dtypes[t]) || p.dtypes[t] == DType::float64;
    wide_integer = wide_integer || p.dtypes[t] == DType::int64 || p.dtypes[t] == DType::int32;
  }
  return wide_integer || (any_float && !narrow);
}

template <class Op>
Result<void> launch(const Arguments& args, std::span<const Argument> tensors, const char* name) {
  constexpr int kTensors = Op::kOutputs + Op::kInputs;
  if (tensors.size() != kTensors) return bad_operand(name, tensors.size(), "is one too many or too few");
  for (int t = 0; t < kTensors; ++t)
    if (!tensors[t].present()) return bad_operand(name, t, "is absent");
  const std::uint64_t elements = tensors[0].numel();
  if (elements == 0) return {};
  Result<Dims> dims = common_dims(tensors[0].view->shape, tensors, name);
  FORESHARD_TRY(dims);
  Params p;
  p.dims = *dims;
  p.alpha = args.kernel.alpha;
  if (args.kernel.op == KernelOp::dropout) {
    if (args.kernel.integers.size() != 2) return bad_operand(name, 0, "has no seed and offset in `integers`");
    p.seed = static_cast<std::uint64_t>(args.kernel.integers[0]);
    p.offset = static_cast<std::uint64_t>(args.kernel.integers[1]);
  }
  for (int t = 0; t < kTensors; ++t) {
    p.data[t] = tensors[t].data;
    p.dtypes[t] = tensors[t].dtype();
  }
  const int width = width_of(p, Op::kOutputs, kTensors);
  if (width != 0 && elements / static_cast<unsigned>(width) <= 0x7fffffffU) {
    p.dims.sizes[0] /= static_cast<unsigned>(width);
    p.count = static_cast<std::uint32_t>(elements / static_cast<unsigned>(width));
    const auto blocks = static_cast<unsigned>(ceil_div(p.count, kThreads * groups_a_thread(width)));
    if (width == 8)
      by_group<Op, 8><<<blocks, kThreads, 0, args.stream>>>(p);
    else
      by_group<Op, 4><<<blocks, kThreads, 0, args.stream>>>(p);
    return launched(name);
  }
  if (elements > 0xffffffffU) return bad_operand(name, 0, "has more than 2^32 elements that lie apart");
  p.count = static_cast<std::uint32_t>(elements);
  const auto blocks = static_cast<unsigned>(ceil_div(p.count, kThreads));
  if (wants_double(p, kTensors))
    one_by_one<Op, double><<<blocks, kThreads, 0, args.stream>>>(p);
  else
    one_by_one<Op, float><<<blocks, kThreads, 0, args.stream>>>(p);
  return launched(name);
}

template <class Op>
Result<void> launch_all(const Arguments& args, const char* name) {
  std::array<Argument, kMaxTensors> tensors;
  if (args.count() > kMaxTensors) return bad_operand(name, kMaxTensors, "is one too many");
  for (std::size_t i = 0; i < args.count(); ++i) tensors[i] = args[i];
  return launch<Op>(args, {tensors.data(), args.count()}, name);
}

}  // namespace

Result<void> copy_elements(const Argument& out, const Argument& x, cudaStream_t stream) {
  const Kernel none;
  const std::array<Argument, 2> tensors{out, x};
  return launch<Copy>(Arguments(none, {}, stream), tensors, "copy");
}

Result<void> run_elementwise(const Arguments& args) {
  switch (args.kernel.op) {
    case KernelOp::fill:
      return launch_all<Fill>(args, "fill");
    case KernelOp::copy:
      return launch_all<Copy>(args, "copy");
    case KernelOp::add:
      return launch_all<Add>(args, "add");
    case KernelOp::sub:
      return launch_all<Sub>(args, "sub");
    case KernelOp::mul:
      return launch_all<Mul>(args, "mul");
    case KernelOp::neg:
      return launch_all<Neg>(args, "neg");
    case KernelOp::mul_scalar:
      return launch_all<MulScalar>(args, "mul_scalar");
    case KernelOp::add_scalar:
      return launch_all<AddScalar>(args, "add_scalar");
    case KernelOp::silu:
      return launch_all<Silu>(args, "silu");
    case KernelOp::silu_backward:
      return launch_all<SiluBackward>(args, "silu_backward");
    case KernelOp::gelu:
      return launch_all<Gelu>(args, "gelu");
    case KernelOp::gelu_backward:
      return launch_all<GeluBackward>(args, "gelu_backward");
    case KernelOp::dropout:
      return launch_all<Dropout>(args, "dropout");
    case KernelOp::dropout_backward:
      return launch_all<DropoutBackward>(args, "dropout_backward");
    case KernelOp::swiglu:
      return launch_all<Swiglu>(args, "swiglu");
    case KernelOp::swiglu_backward:
      return launch_all<SwigluBackward>(args, "swiglu_backward");
    default:
      return device_failure("not an elementwise op");
  }
}

Result<void> run_cat(const Arguments& args) {
  const Argument out = args[0];
  const std::vector<std::int64_t>& integers = args.kernel.integers;
  if (integers.empty() || integers[0] < 0 || static_cast<std::size_t>(integers[0]) >= out.rank())
    return bad_operand("cat", 0, "has no dimension of that number");
  const auto dim = static_cast<std::size_t>(args.kernel.integers[0]);
  TensorView slice = *out.view;
  std::uint64_t first = 0;
  for (std::size_t i = 1; i < args.count(); ++i) {
    const Argument part = args[i];
    if (part.rank() != out.rank()) return bad_operand("cat", i, "has another number of dimensions");
    slice.shape[dim] = part.size(dim);
    if (first + part.size(dim) > out.size(dim)) return bad_operand("cat", i, "does not fit");
    const Argument place{&slice,
                         static_cast<std::byte*>(out.data) + first * slice.strides[dim] * itemsize(out.dtype())};
    FORESHARD_TRY(copy_elements(place, part, args.stream));
    first += part.size(dim);
  }
  return {};
}

}  // namespace foreshard::gpu
