#include "core/models/extra_gemms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>
#include <utility>
#include <vector>

#include "core/adapt/program_kernels.hpp"
#include "core/models/tape.hpp"
#include "core/workload/unit_place.hpp"

namespace foreshard {
namespace {

/// The number in front of `text`, which it takes off; 0: there is none.
std::uint32_t take_number(std::string_view& text) {
  std::uint32_t out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc()) return 0;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return out;
}

bool take(std::string_view& text, char what) {
  if (text.empty() || text.front() != what) return false;
  text.remove_prefix(1);
  return true;
}

/// The ops of one block, as eager PyTorch issues `a @ b`, `gemms.count` times.
std::vector<Op> ops_of(const ExtraGemms& gemms, Labels& labels, const HostCosts& host, const TargetGpu& gpu) {
  model::TapeOptions options;
  options.sm_count = gpu.sm_count;
  model::Tape tape(labels, host, options);
  const std::string label = fmt::format("extra mm {}x{}x{}", gemms.m, gemms.n, gemms.k);
  for (std::uint32_t i = 0; i < gemms.count; ++i) {
    const model::Tensor result = tape.empty({gemms.m, gemms.n}, DType::bfloat16);
    tape.launch_gemm(label, gemms.m, gemms.n, gemms.k, DType::bfloat16);
  }
  std::vector<Op> out = tape.finish().ops;
  for (Op& op : out) op.category = op.kind == OpKind::alloc ? MemoryCategory::temporaries : op.category;
  return out;
}

/// How many blocks each unit is: none of the root, of embedding and head where they are units, and of experts.
std::vector<std::uint32_t> blocks_of(const Workload& workload) {
  const std::size_t count = workload.units.size();
  std::vector<std::uint32_t> out(count, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const Unit& unit = workload.units[i];
    if (unit_place(workload.settings, i, count) != UnitPlace::block || unit.of_experts()) continue;
    // A unit of several modules is called by all their names.
    out[i] = 1 + static_cast<std::uint32_t>(std::count(unit.name.begin(), unit.name.end(), ','));
  }
  return out;
}

/// Puts copies of `ops` into a program; returns how many blocks have them.
std::size_t insert(const std::vector<Op>& ops, const std::vector<std::uint32_t>& blocks, Program& program) {
  std::uint32_t next_tensor = 0, used = 0;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::alloc) next_tensor = std::max(next_tensor, op.tensor.value + 1);
  for (const Op& op : ops)
    if (op.kind == OpKind::alloc) used = std::max(used, op.tensor.value + 1);
  std::vector<Op> out;
  std::size_t found = 0;
  bool in_backward = false;
  UnitId within;  // the block whose forward runs: one inside it is a part of it
  for (const Op& op : program.ops) {
    out.push_back(op);
    if (op.kind != OpKind::hook) continue;
    if (op.hook == Hook::backward_begin) in_backward = true;
    if (op.hook == Hook::backward_end || op.hook == Hook::microbatch_begin) in_backward = false;
    if (op.hook == Hook::post_forward && op.unit == within) within = {};
    if (op.hook != Hook::pre_forward || in_backward || within.valid() || !op.unit.valid()) continue;
    const std::uint32_t times = op.unit.value < blocks.size() ? blocks[op.unit.value] : 0;
    if (times > 0) within = op.unit;
    found += times;
    for (std::uint32_t i = 0; i < times; ++i, next_tensor += used)
      for (Op copy : ops) {
        if (copy.tensor.valid()) copy.tensor.value += next_tensor;
        out.push_back(std::move(copy));
      }
  }
  program.ops = std::move(out);
  return found;
}

}  // namespace

std::string text_of(const ExtraGemms& gemms) {
  return fmt::format("{}x{}x{}*{}", gemms.m, gemms.n, gemms.k, gemms.count);
}

std::string words(const ExtraGemms& gemms) {
  return fmt::format("{} more product{} of {} × {} by {} × {} in front of each block's forward", gemms.count,
                     gemms.count == 1 ? "" : "s", gemms.m, gemms.k, gemms.k, gemms.n);
}

Result<ExtraGemms> parse_extra_gemms(const std::string& text) {
  ExtraGemms out;
  std::string_view rest = text;
  out.m = take_number(rest);
  const bool first = take(rest, 'x');
  out.n = take_number(rest);
  const bool second = take(rest, 'x');
  out.k = take_number(rest);
  if (take(rest, '*')) out.count = take_number(rest);
  const auto side = [](std::uint32_t size) { return size >= 1 && size <= ExtraGemms::kMaxSide; };
  const bool count = out.count >= 1 && out.count <= ExtraGemms::kMaxCount;
  if (!first || !second || !rest.empty() || !side(out.m) || !side(out.n) || !side(out.k) || !count)
    return fail(ErrorKind::usage,
                fmt::format("'{}' is not MxNxK or MxNxK*COUNT, of sizes from 1 to {} and 1 to {} times", text,
                            ExtraGemms::kMaxSide, ExtraGemms::kMaxCount),
                {}, "as in 8192x8192x8192*2: M x K by K x N, twice in front of each block's forward");
  return out;
}

Result<std::size_t> add_extra_gemms(Workload& workload, const ExtraGemms& gemms, const HostCosts& host,
                                    double host_scale, const TargetGpu& gpu) {
  std::vector<Op> ops = ops_of(gemms, workload.labels, host, gpu);
  for (Op& op : ops) op.host_before = op.host_before.scaled(host_scale);
  const std::vector<std::uint32_t> blocks = blocks_of(workload);
  drop_kernels(workload);
  std::size_t found = 0;
  for (Program& program : workload.steps) found = insert(ops, blocks, program);
  if (found == 0)
    return fail(ErrorKind::usage, "no FSDP unit is a block, in front of which a rank could multiply matrices", {},
                "plan a model, or a recording, whose blocks are units of their own");
  workload.returns = {};
  return found * gemms.count;
}

}  // namespace foreshard
