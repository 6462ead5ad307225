#include "tests/reference/sequence_diff.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "core/workload/workload_names.hpp"

namespace foreshard::reference {
namespace {

std::vector<const Op*> requests(const Program& program) {
  std::vector<const Op*> out;
  for (const Op& op : program.ops)
    if (op.kind == OpKind::alloc || op.kind == OpKind::free || op.kind == OpKind::hook) out.push_back(&op);
  return out;
}

std::string text(const Op& op) {
  const std::string unit = op.unit.valid() ? fmt::format(" unit {}", op.unit.value) : "";
  if (op.kind == OpKind::hook) return fmt::format("{}{}", name(op.hook), unit);
  if (op.kind == OpKind::free)
    return fmt::format("free {}{}{}", op.tensor.value, op.steps_ago > 0 ? " of an earlier step" : "",
                       op.from_setup ? " of setup" : "");
  const std::string gradient = op.gradient_of.valid() ? fmt::format(" gradient of {}", op.gradient_of.value) : "";
  return fmt::format("alloc {}: {} bytes{}{} {}", op.tensor.value, op.size.bytes, gradient, unit, name(op.category));
}

bool equal(const Op& a, const Op& b) {
  if (a.kind != b.kind || a.unit != b.unit) return false;
  if (a.kind == OpKind::hook) return a.hook == b.hook;
  if (a.tensor != b.tensor) return false;
  if (a.kind == OpKind::free)
    return a.steps_ago == b.steps_ago && a.from_setup == b.from_setup && a.before_recording == b.before_recording;
  // Which of two parameters of equal size a shard belongs to is a recording's guess.
  return a.size.kind == b.size.kind && a.size.bytes == b.size.bytes && a.gradient_of == b.gradient_of &&
         a.user_stream == b.user_stream;
}

std::string context(const std::vector<const Op*>& ops, std::size_t at) {
  std::string out;
  for (std::size_t i = at < 6 ? 0 : at - 6; i < std::min(ops.size(), at + 8); ++i)
    out += fmt::format("\n    {}{} {}", i == at ? "> " : "  ", i, text(*ops[i]));
  return out;
}

void compare(const Program& recorded, const Program& generated, const std::string& where, SequenceDiff& diff) {
  const std::vector<const Op*> want = requests(recorded);
  const std::vector<const Op*> have = requests(generated);
  diff.requests += want.size();
  const std::size_t count = std::min(want.size(), have.size());
  std::size_t i = 0;
  for (; i < count && equal(*want[i], *have[i]); ++i)
    if (want[i]->kind == OpKind::alloc && want[i]->category != have[i]->category) ++diff.categories;
  if (i == want.size() && i == have.size()) return;
  diff.different += std::max<std::size_t>(1, want.size() - i);
  if (diff.first.empty())
    diff.first = fmt::format("{}, request {} of {} (generated {})\n  recorded{}\n  generated{}", where, i, want.size(),
                             have.size(), context(want, i), context(have, i));
}

}  // namespace

SequenceDiff compare_sequences(const Workload& recorded, const Workload& generated) {
  SequenceDiff diff;
  compare(recorded.setup, generated.setup, "setup", diff);
  for (std::size_t k = 0; k < recorded.steps.size(); ++k)
    compare(recorded.steps[k], generated.steps[std::min(k, generated.steps.size() - 1)], fmt::format("step {}", k),
            diff);
  return diff;
}

}  // namespace foreshard::reference
