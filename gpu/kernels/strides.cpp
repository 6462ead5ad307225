#include "gpu/kernels/strides.hpp"

namespace foreshard::gpu {
namespace {

constexpr std::uint64_t kLargestSize = 0xffffffffU;

/// Stride of `tensor` in dimension d of a shape of `rank` dimensions.
Result<std::int64_t> stride_in(const Argument& tensor, const std::vector<std::uint64_t>& shape, std::size_t d) {
  const std::size_t missing = shape.size() - tensor.rank();
  if (d < missing) return 0;
  const std::uint64_t size = tensor.view->shape[d - missing];
  if (size == shape[d]) return size == 1 ? 0 : static_cast<std::int64_t>(tensor.view->strides[d - missing]);
  if (size != 1) return device_failure("does not broadcast to the output's shape");
  return 0;
}

}  // namespace

Result<Dims> common_dims(const std::vector<std::uint64_t>& shape, std::span<const Argument> tensors,
                         std::string_view op) {
  Dims dims;
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (shape[d] == 1) continue;
    std::array<std::int64_t, kMaxTensors> strides{};
    bool merges = dims.count > 0;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
      if (tensors[t].rank() > shape.size()) return bad_operand(op, t, "has more dimensions than the output");
      const Result<std::int64_t> stride = stride_in(tensors[t], shape, d);
      if (!stride) return bad_operand(op, t, stride.error().what);
      strides[t] = *stride;
      if (merges) {
        const int inner = dims.count - 1;
        merges = strides[t] == dims.strides[t][inner] * dims.sizes[inner];
      }
    }
    const std::uint64_t merged = merges ? dims.sizes[dims.count - 1] * shape[d] : shape[d];
    if (merges && merged <= kLargestSize) {
      dims.sizes[dims.count - 1] = static_cast<std::uint32_t>(merged);
      continue;
    }
    if (dims.count == kMaxDims || shape[d] > kLargestSize)
      return bad_operand(op, 0, "has too many dimensions that do not merge");
    dims.sizes[dims.count] = static_cast<std::uint32_t>(shape[d]);
    for (std::size_t t = 0; t < tensors.size(); ++t) dims.strides[t][dims.count] = strides[t];
    ++dims.count;
  }
  if (dims.count == 0) {  // one element
    dims.count = 1;
    dims.sizes[0] = 1;
  }
  return dims;
}

}  // namespace foreshard::gpu
