#include "traces/workload_file/kernel_text.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string_view>

#include "core/kernel/kernel_check.hpp"
#include "core/kernel/kernel_op_names.hpp"
#include "traces/workload_file/record_fields.hpp"

namespace foreshard::traces {
namespace {

/// Strides of a tensor without gaps. Of sizes that no memory holds they mean nothing.
std::vector<std::uint64_t> contiguous(const std::vector<std::uint64_t>& shape) {
  std::vector<std::uint64_t> strides(shape.size(), 1);
  for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return strides;
}

constexpr std::array kKernelFields{
    FORESHARD_FIELD(Kernel, "alpha", alpha),           FORESHARD_FIELD(Kernel, "causal", causal),
    FORESHARD_FIELD(Kernel, "accumulate", accumulate), FORESHARD_FIELD(Kernel, "scalars", scalars),
    FORESHARD_FIELD(Kernel, "integers", integers),
};
constexpr std::array<std::string_view, 5> kKernelKeys{"alpha", "causal", "accumulate", "scalars", "integers"};

void write_view(std::string& out, const TensorView& view) {
  if (view.absent) {
    out += "null";
    return;
  }
  out += '[';
  write_value(out, view.dtype);
  out += ',';
  write_value(out, view.shape);
  const bool plain = view.strides == contiguous(view.shape);
  if (!plain || view.offset != 0) {
    out += ',';
    if (plain)
      out += "null";
    else
      write_value(out, view.strides);
  }
  if (view.offset != 0) {
    out += ',';
    write_value(out, view.offset);
  }
  out += ']';
}

std::string text_of(const Kernel& kernel) {
  std::string out = "[";
  write_value(out, kernel.op);
  std::string members;
  write_members(members, std::span(kKernelFields), kernel, ", ");
  if (!kernel.operands.empty() || !members.empty()) out += ",[";
  for (std::size_t i = 0; i < kernel.operands.size(); ++i) {
    if (i > 0) out += ',';
    write_view(out, kernel.operands[i]);
  }
  if (!kernel.operands.empty() || !members.empty()) out += ']';
  if (!members.empty()) out += ",{" + members.substr(2) + '}';
  return out + ']';
}

void read_view(JsonReader& reader, const Json& json, TensorView& out) {
  if (json.is_null()) {
    out.absent = true;
    return;
  }
  if (!reader.array(json)) return;
  const JsonList list = list_of(json);
  if (list.size() < 2 || list.size() > 4)
    return reader.fail(
        fmt::format("an operand has 2 to 4 values (dtype, shape, strides, offset), not {}", list.size()));
  const auto part = [&](std::size_t i, auto& value) {
    const auto place = reader.at(i);
    reader.read(item_of(list, i), value);
  };
  part(0, out.dtype);
  if (!reader.failed()) part(1, out.shape);
  if (reader.failed()) return;
  if (list.size() > 2 && !item_of(list, 2).is_null())
    part(2, out.strides);
  else
    out.strides = contiguous(out.shape);
  if (!reader.failed() && list.size() > 3) part(3, out.offset);
}

void write_operand(std::string& out, const Operand& operand) {
  switch (operand.kind) {
    case Operand::Kind::none:
      out += "null";
      return;
    case Operand::Kind::tensor:
      return write_value(out, operand.id);
    case Operand::Kind::setup:
      return write_value(out, fmt::format("s{}", operand.id));
    case Operand::Kind::parameter:
      return write_value(out, fmt::format("p{}", operand.id));
    case Operand::Kind::gradient:
      return write_value(out, fmt::format("g{}", operand.id));
    case Operand::Kind::scale:
      return write_value(out, fmt::format("f{}", operand.id));
  }
}

std::optional<Operand::Kind> kind_of(char letter) {
  if (letter == 's') return Operand::Kind::setup;
  if (letter == 'p') return Operand::Kind::parameter;
  if (letter == 'g') return Operand::Kind::gradient;
  if (letter == 'f') return Operand::Kind::scale;
  return std::nullopt;
}

void read_operand(JsonReader& reader, const Json& json, Operand& out) {
  if (json.is_null()) return;
  if (json.is_number()) {
    out.kind = Operand::Kind::tensor;
    return reader.read(json, out.id);
  }
  std::string_view word;
  if (json.get_string().get(word)) word = {};
  const auto kind = word.size() > 1 ? kind_of(word.front()) : std::nullopt;
  if (kind) {
    const char* end = word.data() + word.size();
    const auto [rest, error] = std::from_chars(word.data() + 1, end, out.id);
    out.kind = *kind;
    if (error == std::errc() && rest == end) return;
  }
  reader.fail("no place of an operand",
              "a tensor's number, \"s\", \"p\", \"g\" or \"f\" with the number of a tensor of setup, a parameter, the "
              "parameter "
              "whose gradient this is, or whose float8 scale, or null");
}

}  // namespace

KernelTable::KernelTable(const Workload& workload) {
  add(workload.setup);
  for (const Program& step : workload.steps) add(step);
}

void KernelTable::add(const Program& program) {
  constexpr std::size_t kNone = ~std::size_t{0};
  std::vector<std::size_t>& numbers = of_program_[&program];
  numbers.assign(program.kernels.size(), kNone);
  for (const Op& op : program.ops) {
    if (!has_kernel(program, op) || numbers[op.kernel_index] != kNone) continue;
    const auto [found, fresh] = numbers_.try_emplace(text_of(program.kernels[op.kernel_index].kernel), texts_.size());
    if (fresh) texts_.push_back(found->first);
    numbers[op.kernel_index] = found->second;
  }
}

void KernelTable::write(std::string& out, const Program& program, const Op& op) const {
  out += '[';
  write_value(out, of_program_.at(&program)[op.kernel_index]);
  for (const Operand& operand : program.kernels[op.kernel_index].where) {
    out += ',';
    write_operand(out, operand);
  }
  out += ']';
}

void read(JsonReader& reader, const Json& json, Kernel& out) {
  if (!reader.array(json)) return;
  const JsonList list = list_of(json);
  if (list.size() == 0 || list.size() > 3)
    return reader.fail(fmt::format("a kernel has 1 to 3 values (op, operands, numbers), not {}", list.size()));
  {
    const auto place = reader.at(std::size_t{0});
    reader.read(item_of(list, 0), out.op);
  }
  if (list.size() > 1 && !reader.failed()) {
    const auto place = reader.at(std::size_t{1});
    reader.read_list(item_of(list, 1), out.operands,
                     [&](const Json& item, TensorView& view) { read_view(reader, item, view); });
  }
  if (list.size() > 2 && !reader.failed()) {
    const auto place = reader.at(std::size_t{2});
    const Json numbers = item_of(list, 2);
    if (!reader.object(numbers, kKernelKeys)) return;
    read_members(reader, numbers, std::span(kKernelFields), out);
  }
  if (reader.failed()) return;
  if (std::string fault = fault_of(out); !fault.empty()) reader.fail(fmt::format("{}: {}", name(out.op), fault));
}

void KernelReader::read(JsonReader& reader, const Json& json, Op& op) {
  if (!reader.array(json)) return;
  const JsonList list = list_of(json);
  if (list.size() == 0) return reader.fail("the number of a kernel comes first");
  std::uint32_t number = 0;
  {
    const auto place = reader.at(std::size_t{0});
    reader.read(item_of(list, 0), number);
    if (!reader.failed() && number >= table_.size())
      reader.fail(fmt::format("there is no kernel {}: \"computations\" has {}", number, table_.size()));
  }
  if (reader.failed()) return;
  const Kernel& what = table_[number];
  if (list.size() - 1 != what.operands.size())
    return reader.fail(fmt::format("kernel {} ({}) has {} operands, not {}", number, name(what.op),
                                   what.operands.size(), list.size() - 1));
  std::vector<Operand> where(what.operands.size());
  for (std::size_t i = 0; i < where.size() && !reader.failed(); ++i) {
    const auto place = reader.at(i + 1);
    read_operand(reader, item_of(list, i + 1), where[i]);
    if (!reader.failed() && (where[i].kind == Operand::Kind::none) != what.operands[i].absent)
      reader.fail(fmt::format("operand {} of kernel {} ({}) is {}", i, number, name(what.op),
                              what.operands[i].absent ? "absent: null is wanted" : "there: null is none"));
  }
  if (reader.failed()) return;
  const bool nothing = what.op == KernelOp::fused;
  op.kernel_index = nothing && fused_ != kNoKernel ? fused_ : static_cast<std::uint32_t>(program_->kernels.size());
  if (nothing && fused_ != kNoKernel) return;
  if (nothing) fused_ = op.kernel_index;
  program_->kernels.push_back({what, std::move(where)});
}

}  // namespace foreshard::traces
