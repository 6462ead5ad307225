// FSDP2's copy-in, copy-out and chunk_cat (torch/distributed/fsdp/_fully_shard/_fsdp_collectives.py) as one kernel over
// all parameters of a unit: each block moves a chunk of one tensor between its own memory and the flat buffer, casts
// on the way, and writes the padding's zeros. No arithmetic but the cast and chunk_cat's factor.
#include <algorithm>

#include "gpu/kernels/element.cuh"
#include "gpu/kernels/multi_tensor.cuh"
#include "gpu/kernels/section_copy.hpp"

namespace foreshard::gpu {
namespace {

constexpr int kThreads = 256;
constexpr std::uint32_t kChunk = kThreads * 32;  ///< elements a block moves

/// One tensor between its own memory and the flat buffer. The flat buffer has `ranks` parts of `total` elements each; a
/// tensor's place in each part begins at `first` and has `padded` elements, which are its elements from rank × padded
/// on.
struct Entry {
  void* tensor;
  std::uint64_t numel;
  std::uint64_t padded;
  std::uint64_t first;
  std::uint32_t chunks_before;  ///< blocks of the entries before this one
  std::uint32_t chunks_a_rank;
};

template <int kEntries>
struct Table {
  void* flat;
  std::uint64_t total;
  std::uint32_t entries;
  DType flat_dtype;
  DType tensor_dtype;
  float factor;
  Entry entry[kEntries];
};
static_assert(sizeof(Table<kManyEntries>) <= 32764);

template <int kWidth>
__device__ inline bool on_boundary(const void* base, std::uint64_t index, DType dtype) {
  const std::uint64_t size = dtype == DType::float32 ? 4 : dtype == DType::uint8 ? 1 : 2;
  return (reinterpret_cast<std::uintptr_t>(base) + index * size) % (kWidth * size) == 0;
}

/// kToFlat: copy_in and chunk_cat, which also write zeros behind a tensor's end; else copy_out. kWidth: 8 between
/// 16-bit dtypes, else 4.
template <bool kToFlat, int kWidth, int kEntries>
__global__ void __launch_bounds__(kThreads) section_copy(const __grid_constant__ Table<kEntries> table) {
  const Entry& e = entry_of(table.entry, table.entries, blockIdx.x);
  const std::uint32_t local = blockIdx.x - e.chunks_before;
  const std::uint64_t rank = local / e.chunks_a_rank;
  const std::uint64_t begin = static_cast<std::uint64_t>(local % e.chunks_a_rank) * kChunk;  // in the place
  const std::uint64_t in_tensor = rank * e.padded + begin;
  const std::uint64_t in_flat = rank * table.total + e.first + begin;
  const std::uint64_t left = e.numel > in_tensor ? e.numel - in_tensor : 0;  // of the tensor from here on
  const std::uint64_t room = min(e.padded - begin, static_cast<std::uint64_t>(kChunk));
  const std::uint64_t valid = min(left, room);
  const std::uint64_t length = kToFlat ? room : valid;
  void* to = kToFlat ? table.flat : e.tensor;
  const void* from = kToFlat ? e.tensor : table.flat;
  const DType to_dtype = kToFlat ? table.flat_dtype : table.tensor_dtype;
  const DType from_dtype = kToFlat ? table.tensor_dtype : table.flat_dtype;
  const std::uint64_t to_first = kToFlat ? in_flat : in_tensor;
  const std::uint64_t from_first = kToFlat ? in_tensor : in_flat;
  std::uint64_t done = 0;
  if (on_boundary<kWidth>(to, to_first, to_dtype) && on_boundary<kWidth>(from, from_first, from_dtype)) {
    constexpr int kGroupsAThread = static_cast<int>(kChunk) / kThreads / kWidth;
    const std::uint32_t groups = static_cast<std::uint32_t>(valid / kWidth);
    element::Raw raw[kGroupsAThread];
#pragma unroll
    for (int i = 0; i < kGroupsAThread; ++i) {
      const std::uint32_t group = i * kThreads + threadIdx.x;
      if (group < groups) raw[i] = element::load<kWidth>(from, from_first + group * kWidth, from_dtype);
    }
#pragma unroll
    for (int i = 0; i < kGroupsAThread; ++i) {
      const std::uint32_t group = i * kThreads + threadIdx.x;
      if (group >= groups) break;
      if (to_dtype == DType::uint8) {  // bytes of several dtypes
        element::store<kWidth>(to, to_first + group * kWidth, to_dtype, raw[i]);
        continue;
      }
      float v[kWidth];
      element::expand(v, raw[i], from_dtype);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) v[k] *= table.factor;
      element::write_group(to, to_first + group * kWidth, to_dtype, v);
    }
    done = static_cast<std::uint64_t>(groups) * kWidth;
  }
  for (std::uint64_t i = done + threadIdx.x; i < length; i += kThreads) {
    const float value = i < valid ? element::read<float>(from, from_first + i, from_dtype) * table.factor : 0.0F;
    element::write<float>(to, to_first + i, to_dtype, value);
  }
}

/// copy_out also moves bytes as they are.
bool takes(KernelOp op, DType dtype) {
  return is_float_up_to_32(dtype) || (op == KernelOp::copy_out && dtype == DType::uint8);
}

struct Shape {
  std::uint64_t ranks = 1;
  std::size_t first_padded = 0;  ///< in `integers`
  std::size_t first_tensor = 0;  ///< in the operands
  std::size_t flat = 0;
  std::size_t tensors = 0;
  bool to_flat = true;
  bool placed = false;  ///< copy_in: `integers` also say where each tensor's place begins
};

Result<Shape> shape_of(const Arguments& args, const char* name) {
  Shape s;
  const Kernel& c = args.kernel;
  if (args.count() < 2) return bad_operand(name, 1, "is missing");
  s.tensors = args.count() - 1;
  if (c.op == KernelOp::copy_in) {
    s.first_tensor = 1;
  } else {
    if (c.integers.empty() || c.integers[0] < 1) return bad_operand(name, 0, "has no number of ranks in `integers`");
    s.ranks = static_cast<std::uint64_t>(c.integers[0]);
    s.first_padded = 1;
    s.to_flat = c.op == KernelOp::chunk_cat;
    s.first_tensor = s.to_flat ? 1 : 0;
    s.flat = s.to_flat ? 0 : s.tensors;
  }
  s.placed = c.op == KernelOp::copy_in && c.integers.size() == 2 * s.tensors;
  if (!s.placed && c.integers.size() != s.first_padded + s.tensors)
    return bad_operand(name, c.integers.size(), "has no padded size in `integers`");
  return s;
}

/// A unit's tensors, put on the stream as soon as the table is full.
template <int kEntries>
class Launcher {
 public:
  Launcher(const Arguments& args, const Shape& shape, const char* name) : args_(args), shape_(shape), name_(name) {}

  Result<void> run() {
    const Kernel& c = args_.kernel;
    const Argument flat = args_[shape_.flat];
    table_.flat = flat.data;
    table_.flat_dtype = flat.dtype();
    table_.tensor_dtype = args_[shape_.first_tensor].dtype();
    table_.factor = c.op == KernelOp::chunk_cat ? static_cast<float>(c.alpha) : 1.0F;
    table_.entries = 0;
    table_.total = 0;
    for (std::size_t i = 0; i < shape_.tensors; ++i)
      table_.total += static_cast<std::uint64_t>(c.integers[shape_.first_padded + i]);
    if (flat.numel() < shape_.ranks * table_.total) return bad_operand(name_, shape_.flat, "is too small");
    for (std::size_t i = 0; i < shape_.tensors; ++i) FORESHARD_TRY(add(i));
    return put();
  }

 private:
  Result<void> add(std::size_t i) {
    const std::size_t operand = shape_.first_tensor + i;
    const Argument tensor = args_[operand];
    const auto padded = static_cast<std::uint64_t>(args_.kernel.integers[shape_.first_padded + i]);
    const std::uint64_t numel = tensor.present() ? tensor.numel() : 0;  // a shard of nothing may have no memory
    if (!tensor.contiguous() || !takes(args_.kernel.op, tensor.dtype()))
      return bad_operand(name_, operand, "is no contiguous tensor of float32, bfloat16 or float16");
    if (numel > shape_.ranks * padded) return bad_operand(name_, operand, "is larger than its place");
    if (table_.entries == kEntries || tensor.dtype() != table_.tensor_dtype) {
      FORESHARD_TRY(put());
      table_.tensor_dtype = tensor.dtype();
    }
    if (shape_.placed) {
      first_ = static_cast<std::uint64_t>(args_.kernel.integers[shape_.tensors + i]);
      if (first_ + padded > args_[shape_.flat].numel())
        return bad_operand(name_, operand, "has a place outside the flat buffer");
    }
    const std::uint64_t chunks = ceil_div(padded, kChunk);
    if (chunks * shape_.ranks > 0x7fffffffU - blocks_) return bad_operand(name_, operand, "is too large");
    if (chunks > 0)
      table_.entry[table_.entries++] = {tensor.data, numel,   padded,
                                        first_,      blocks_, static_cast<std::uint32_t>(chunks)};
    blocks_ += static_cast<std::uint32_t>(chunks * shape_.ranks);
    first_ += padded;
    return {};
  }

  Result<void> put() {
    if (blocks_ > 0) {
      const bool wide = width_with(width_with(8, table_.flat_dtype), table_.tensor_dtype) == 4;
      if (shape_.to_flat && wide)
        section_copy<true, 4><<<blocks_, kThreads, 0, args_.stream>>>(table_);
      else if (shape_.to_flat)
        section_copy<true, 8><<<blocks_, kThreads, 0, args_.stream>>>(table_);
      else if (wide)
        section_copy<false, 4><<<blocks_, kThreads, 0, args_.stream>>>(table_);
      else
        section_copy<false, 8><<<blocks_, kThreads, 0, args_.stream>>>(table_);
      FORESHARD_TRY(launched(name_));
    }
    table_.entries = 0;
    blocks_ = 0;
    return {};
  }

  const Arguments& args_;
  const Shape& shape_;
  const char* name_;
  Table<kEntries> table_;
  std::uint32_t blocks_ = 0;
  std::uint64_t first_ = 0;
};

}  // namespace

Result<void> run_section_copy(const Arguments& args) {
  const Kernel& c = args.kernel;
  const char* name = c.op == KernelOp::copy_in ? "copy_in" : c.op == KernelOp::copy_out ? "copy_out" : "chunk_cat";
  const Result<Shape> shape = shape_of(args, name);
  FORESHARD_TRY(shape);
  const Argument flat = args[shape->flat];
  if (!flat.present() || !flat.contiguous() || !takes(c.op, flat.dtype()))
    return bad_operand(name, shape->flat, "is no contiguous buffer of float32, bfloat16 or float16");
  if (shape->tensors <= kFewEntries) return Launcher<kFewEntries>(args, *shape, name).run();
  return Launcher<kManyEntries>(args, *shape, name).run();
}

}  // namespace foreshard::gpu
