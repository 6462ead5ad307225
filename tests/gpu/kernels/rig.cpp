#include "tests/gpu/kernels/rig.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tests/catch.hpp"

namespace foreshard::gpu {
namespace {

constexpr Bytes kMargin = 64;  ///< poisoned bytes behind each block

/// Relative to the value, and to the output's root mean square.
double tolerance(DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return 1.0 / 128;
    case DType::float16:
      return 1.0 / 1024;
    case DType::float64:
      return 1e-12;
    default:
      return 4e-6;
  }
}

Bytes extent(const TensorView& view) {
  std::uint64_t last = 0;
  for (std::size_t d = 0; d < view.shape.size(); ++d) {
    if (view.shape[d] == 0) return view.offset;
    last += (view.shape[d] - 1) * view.strides[d];
  }
  return view.offset + (last + 1) * itemsize(view.dtype);
}

std::uint64_t place(const TensorView& view, std::uint64_t index) {
  std::uint64_t offset = 0;
  for (std::size_t d = view.shape.size(); d-- > 0;) {
    offset += index % view.shape[d] * view.strides[d];
    index /= view.shape[d];
  }
  return view.offset + offset * itemsize(view.dtype);
}

}  // namespace

std::string why_no_gpu() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return cudaGetErrorString(status);
  return count == 0 ? "no CUDA device" : "";
}

Executor& executor() {
  static const std::unique_ptr<Executor> kExecutor = [] {
    auto made = Executor::create();
    if (!made) FAIL(made.error().text());
    return std::move(*made);
  }();
  return *kExecutor;
}

void require_cuda(cudaError_t status) {
  INFO(cudaGetErrorString(status));
  REQUIRE(status == cudaSuccess);
}

void require_done(const Result<void>& result) {
  if (!result) FAIL(result.error().text());
}

DeviceBlock::DeviceBlock(Bytes bytes) {
  require_cuda(cudaMalloc(&data_, std::max<Bytes>(bytes, 1)));
}
DeviceBlock::~DeviceBlock() {
  cudaFree(data_);
}

std::size_t Case::add(TensorView view) {
  const std::size_t number = kernel.operands.size();
  Block block{std::vector<std::byte>(round_up(extent(view), 16) + kMargin)};
  const DType dtype = view.dtype;
  const auto base = reinterpret_cast<Address>(block.bytes.data());
  for (Bytes at = 0; at + itemsize(dtype) <= block.bytes.size(); at += itemsize(dtype)) {
    const double value = normal_of_counter(100 + number, at);
    store_element(base + at, dtype, dtype == DType::uint8 || dtype == DType::bool8 ? (value > 0 ? 1 : 0) : value);
  }
  blocks_.push_back(std::move(block));
  block_of_.push_back(blocks_.size() - 1);
  kernel.operands.push_back(std::move(view));
  return number;
}

std::size_t Case::add_absent() {
  TensorView view;
  view.absent = true;
  kernel.operands.push_back(view);
  block_of_.push_back(0);
  return kernel.operands.size() - 1;
}

std::size_t Case::add_over(std::size_t other, TensorView view) {
  kernel.operands.push_back(std::move(view));
  block_of_.push_back(block_of_[other]);
  return kernel.operands.size() - 1;
}

std::size_t Case::add_indices(std::vector<std::uint64_t> shape, std::uint64_t bound) {
  const std::size_t operand = add(DType::int64, std::move(shape));
  const auto base = reinterpret_cast<Address>(blocks_[block_of_[operand]].bytes.data());
  for (std::uint64_t i = 0; i < kernel.operands[operand].numel(); ++i)
    store_element(base + i * 8, DType::int64, static_cast<double>(token_of_bits(bits_of_counter(7, i), bound)));
  return operand;
}

void Case::change(std::size_t operand, const std::function<double(double)>& formula) {
  const TensorView& view = kernel.operands[operand];
  const auto base = reinterpret_cast<Address>(blocks_[block_of_[operand]].bytes.data());
  for (std::uint64_t i = 0; i < view.numel(); ++i) {
    const Address at = base + place(view, i);
    store_element(at, view.dtype, formula(load_element(at, view.dtype)));
  }
}

std::vector<Address> Case::addresses(const std::vector<Address>& blocks) const {
  std::vector<Address> out;
  for (std::size_t i = 0; i < kernel.operands.size(); ++i)
    out.push_back(kernel.operands[i].absent ? 0 : blocks[block_of_[i]]);
  return out;
}

void Case::forward_on_host(const std::vector<std::size_t>& outputs, const std::vector<std::size_t>& inputs) {
  Kernel forward;
  forward.op = KernelOp::attention;
  forward.causal = kernel.causal;
  forward.alpha = kernel.alpha;
  std::vector<Address> where;
  for (const std::vector<std::size_t>& group : {outputs, inputs})
    for (const std::size_t operand : group) {
      forward.operands.push_back(kernel.operands[operand]);
      where.push_back(reinterpret_cast<Address>(blocks_[block_of_[operand]].bytes.data()));
    }
  run_on_host(forward, where);
}

void Case::compare(const Output& output, const std::vector<std::byte>& got,
                   const std::vector<std::byte>& expected) const {
  const TensorView& view = kernel.operands[output.operand];
  const std::uint64_t n = view.numel();
  const auto read = [&](const std::vector<std::byte>& bytes, std::uint64_t i) {
    return load_element(reinterpret_cast<Address>(bytes.data()) + place(view, i), view.dtype);
  };
  double squares = 0;
  for (std::uint64_t i = 0; i < n; ++i)
    if (std::isfinite(read(expected, i))) squares += std::pow(read(expected, i), 2);
  const double typical = std::sqrt(squares / static_cast<double>(std::max<std::uint64_t>(n, 1)));
  const double allowed = tolerance(view.dtype) * output.slack;
  double worst = 0;
  for (std::uint64_t i = 0; i < n; ++i) {
    const double want = read(expected, i);
    const double have = read(got, i);
    const bool same = have == want || (std::isnan(have) && std::isnan(want));
    const double error = same ? 0 : std::abs(have - want) / (std::abs(want) + typical + 1e-30);
    if (!(error <= allowed)) {
      FAIL(fmt::format("output {} element {} of {}: {} instead of {}, relative error {:.3g} of {:.3g} allowed",
                       output.operand, i, n, have, want, error, allowed));
    }
    worst = std::max(worst, error);
  }
  SUCCEED(fmt::format("output {}: worst relative error {:.3g} of {:.3g}", output.operand, worst, allowed));
}

void Case::check(const std::vector<Output>& outputs) {
  std::vector<std::unique_ptr<DeviceBlock>> device;
  std::vector<Address> host_blocks;
  std::vector<Address> device_blocks;
  std::vector<std::vector<std::byte>> got;
  for (Block& block : blocks_) {
    device.push_back(std::make_unique<DeviceBlock>(block.bytes.size()));
    require_cuda(cudaMemcpy(reinterpret_cast<void*>(device.back()->address()), block.bytes.data(), block.bytes.size(),
                            cudaMemcpyHostToDevice));
    device_blocks.push_back(device.back()->address());
    host_blocks.push_back(reinterpret_cast<Address>(block.bytes.data()));
  }
  require_done(executor().run(kernel, addresses(device_blocks), nullptr));
  require_cuda(cudaDeviceSynchronize());
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    got.emplace_back(blocks_[b].bytes.size());
    require_cuda(cudaMemcpy(got[b].data(), reinterpret_cast<const void*>(device_blocks[b]), got[b].size(),
                            cudaMemcpyDeviceToHost));
  }
  run_on_host(kernel, addresses(host_blocks));
  for (const Output& output : outputs)
    compare(output, got[block_of_[output.operand]], blocks_[block_of_[output.operand]].bytes);
  // What lies outside the outputs has not changed.
  for (const Output& output : outputs) {
    const TensorView& view = kernel.operands[output.operand];
    for (std::uint64_t i = 0; i < view.numel(); ++i) {
      std::memset(got[block_of_[output.operand]].data() + place(view, i), 0, itemsize(view.dtype));
      std::memset(blocks_[block_of_[output.operand]].bytes.data() + place(view, i), 0, itemsize(view.dtype));
    }
  }
  for (std::size_t b = 0; b < blocks_.size(); ++b) {
    INFO("block " << b);
    CHECK(got[b] == blocks_[b].bytes);
  }
}

TensorView strided_view(DType dtype, std::vector<std::uint64_t> shape, const std::vector<std::size_t>& order,
                        std::uint64_t gap) {
  TensorView view{0, dtype, false, std::move(shape), {}};
  view.strides.assign(view.shape.size(), 0);
  std::uint64_t stride = 1;
  bool innermost = true;
  for (std::size_t i = order.size(); i-- > 0;) {
    view.strides[order[i]] = stride;
    stride *= view.shape[order[i]];
    if (innermost) stride += gap;
    innermost = false;
  }
  return view;
}

}  // namespace foreshard::gpu
