#include "tests/core/models/kernels/host_program_runner.hpp"

#include <algorithm>

#include "core/kernel/kernel_check.hpp"
#include "tests/catch.hpp"
#include "tests/contract/host_math.hpp"

namespace foreshard {
namespace {

HostBlock block_of_bytes(Bytes bytes, bool written) {
  return {std::vector<std::byte>(bytes), std::vector<bool>(bytes, written)};
}

Address address_of(HostBlock& block) {
  return reinterpret_cast<Address>(block.bytes.data());
}

/// Calls `use` with the first byte of each element.
template <typename Use>
void for_each_element(const TensorView& view, const Use& use) {
  const std::uint64_t n = view.numel();
  for (std::uint64_t i = 0; i < n; ++i) {
    std::uint64_t rest = i;
    std::uint64_t place = 0;
    for (std::size_t d = view.shape.size(); d-- > 0;) {
      place += rest % view.shape[d] * view.strides[d];
      rest /= view.shape[d];
    }
    use(view.offset + place * itemsize(view.dtype));
  }
}

}  // namespace

HostProgram::HostProgram(const Workload& workload, double deviation)
    : workload_(workload), dtype_(workload.settings.param_dtype.value_or(DType::float32)) {
  for (const Unit& unit : workload.units) shapes_.insert(shapes_.end(), unit.parameters.begin(), unit.parameters.end());
  fill_parameters(deviation);
  run_setup();
}

void HostProgram::fill_parameters(double deviation) {
  for (std::uint32_t id = 0; id < shapes_.size(); ++id) {
    const Parameter& p = shapes_[id];
    parameters_[id] = block_of_bytes(p.numel() * itemsize(dtype_), true);
    const double middle = p.shape.size() == 1 && p.name.find("norm.weight") != std::string::npos ? 1 : 0;
    for (std::uint64_t i = 0; i < numel(id); ++i)
      set_parameter(id, i, middle + deviation * static_cast<double>(normal_of_counter(id, i)));
    if (p.gathered_in_float8) cast_to_float8(id);
  }
}

void HostProgram::cast_to_float8(std::uint32_t id) {
  const TensorView one = contiguous_view(DType::float32, {1});
  const auto view = [&](DType dtype) { return contiguous_view(dtype, {numel(id)}); };
  HostBlock wide = std::move(parameters_[id]);
  HostBlock amax = block_of_bytes(sizeof(float), true);
  parameters_[id] = block_of_bytes(numel(id), true);
  scales_[id] = block_of_bytes(sizeof(float), true);
  const std::vector<Address> of_amax{address_of(amax), address_of(wide)};
  run_on_host({.op = KernelOp::shard_amaxes, .operands = {one, view(dtype_)}}, of_amax);
  const std::vector<Address> of_cast{address_of(parameters_[id]), address_of(scales_[id]), address_of(wide),
                                     address_of(amax)};
  run_on_host({.op = KernelOp::copy_in_float8, .operands = {view(DType::float8_e4m3fn), one, view(dtype_), one}},
              of_cast);
}

void HostProgram::run_setup() {
  for (const Op& op : workload_.setup.ops) {
    if (op.kind == OpKind::free && !op.before_recording) setup_.erase(op.tensor.value);
    if (op.kind != OpKind::alloc) continue;
    setup_[op.tensor.value] = block_of_bytes(op.size.bytes, op.kernel_index != kNoKernel);
    if (op.kernel_index == kNoKernel) continue;
    const ProgramKernel& what = workload_.setup.kernels.at(op.kernel_index);
    REQUIRE(what.where == std::vector<Operand>{{Operand::Kind::tensor, op.tensor.value}});
    const std::vector<Address> addresses{address_of(setup_[op.tensor.value])};
    run_on_host(what.kernel, addresses);
  }
}

HostBlock& HostProgram::block_of(const Operand& where) {
  const auto find = [&](auto& blocks, std::uint32_t id) -> HostBlock& {
    const auto found = blocks.find(id);
    INFO("tensor " << id);
    REQUIRE(found != blocks.end());
    return found->second;
  };
  switch (where.kind) {
    case Operand::Kind::tensor:
      return find(tensors_, where.id);
    case Operand::Kind::setup:
      return find(setup_, where.id);
    case Operand::Kind::parameter:
      return find(parameters_, where.id);
    case Operand::Kind::gradient:
      return find(tensors_, gradients_.at(where.id));
    case Operand::Kind::scale:
      return find(scales_, where.id);
    default:
      FAIL("an operand without a place");
      return tensors_.begin()->second;
  }
}

void HostProgram::compute(const ProgramKernel& what, const std::string& label, std::int64_t stream) {
  INFO(label);
  Kernel c = what.kernel;
  if (c.op == KernelOp::fused) return;
  ++launches_;
  REQUIRE(what.where.size() == c.operands.size());
  if (!c.integers.empty() && c.integers.front() == -1) c.integers.front() = stream;
  std::vector<Address> addresses;
  for (std::size_t i = 0; i < c.operands.size(); ++i) {
    INFO("operand " << i);
    const TensorView& view = c.operands[i];
    CHECK(view.absent == (what.where[i].kind == Operand::Kind::none));
    if (view.absent) {
      addresses.push_back(0);
      continue;
    }
    HostBlock& block = block_of(what.where[i]);
    addresses.push_back(address_of(block));
    bool inside = true;
    bool written = true;
    for_each_element(view, [&](Bytes at) {
      inside = inside && at + itemsize(view.dtype) <= block.bytes.size();
      written = written && (!inside || block.written[at]);
    });
    REQUIRE(inside);
    if (reads_operand(c, i)) CHECK(written);
    if (i < outputs_of(c.op)) CHECK(what.where[i].kind != Operand::Kind::parameter);
  }
  run_on_host(c, addresses);
  for (std::size_t i = 0; i < outputs_of(c.op); ++i) {
    if (c.operands[i].absent) continue;
    HostBlock& block = block_of(what.where[i]);
    for_each_element(c.operands[i], [&](Bytes at) {
      std::fill_n(block.written.begin() + static_cast<std::ptrdiff_t>(at), itemsize(c.operands[i].dtype), true);
    });
  }
}

double HostProgram::run(const Program& program, std::int64_t stream) {
  REQUIRE(!program.kernels.empty());
  tensors_.clear();
  gradients_.clear();
  double loss = 0;
  std::int64_t microbatch = 0;
  for (const Op& op : program.ops) {
    switch (op.kind) {
      case OpKind::alloc:
        tensors_[op.tensor.value] = block_of_bytes(op.size.bytes, false);
        if (op.gradient_of.valid()) gradients_[op.gradient_of.value] = op.tensor.value;
        break;
      case OpKind::free:
        tensors_.erase(op.tensor.value);
        break;
      case OpKind::kernel:
      case OpKind::copy:
        REQUIRE(op.kernel_index != kNoKernel);
        compute(program.kernels.at(op.kernel_index), workload_.labels.text(op.label), stream + microbatch);
        break;
      case OpKind::hook:
        if (op.hook == Hook::microbatch_end) ++microbatch;
        if (op.hook == Hook::optimizer_begin && program.loss.valid())
          loss = load_element(address_of(block_of({Operand::Kind::tensor, program.loss.value})), DType::float32);
        break;
      default:
        break;
    }
  }
  return loss;
}

double HostProgram::parameter(std::uint32_t id, std::uint64_t element) const {
  const auto first = reinterpret_cast<Address>(parameters_.at(id).bytes.data());
  return load_element(first + element * itemsize(dtype_), dtype_);
}

void HostProgram::set_parameter(std::uint32_t id, std::uint64_t element, double value) {
  store_element(address_of(parameters_.at(id)) + element * itemsize(dtype_), dtype_, value);
}

std::uint64_t HostProgram::numel(std::uint32_t id) const {
  return static_cast<std::uint64_t>(shapes_[id].numel());
}

double HostProgram::gradient(std::uint32_t id, std::uint64_t element) const {
  const HostBlock& block = tensors_.at(gradients_.at(id));
  return load_element(reinterpret_cast<Address>(block.bytes.data()) + element * itemsize(dtype_), dtype_);
}

}  // namespace foreshard
