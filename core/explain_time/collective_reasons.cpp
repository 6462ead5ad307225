#include "core/explain_time/collective_reasons.hpp"

#include <algorithm>

namespace foreshard::explain_time_detail {
namespace {

constexpr int kMaxHops = 16;  // from a collective through its copy-in and casts

bool communicates(const DeviceOpRecord& op) {
  return op.kind == DeviceOpRecord::Kind::collective;
}

}  // namespace

CollectiveReasons::CollectiveReasons(const RunFacts& facts, const StepRecord& step)
    : run_(facts.run), step_(step), waits_(facts.waits), host_(facts.of.at(step.recording).host) {
  find_first_gathers(facts.issues);
  find_last_reductions(facts.issues);
}

/// The root's, for which root_pre_forward lets the gather streams wait for all that was issued before, and which the
/// first kernel needs; and the first unit's behind it, which only the root's own ops can hide. Of each forward.
void CollectiveReasons::find_first_gathers(const IssueOrder& issues) {
  const auto find_between = [&](Nanoseconds from, Nanoseconds to) {
    std::size_t found = 0;
    for (const std::size_t i : issues.issued(from, to)) {
      const DeviceOpRecord& op = run_.device_ops[i];
      if (!communicates(op) || op.collective != CollectiveKind::all_gather) continue;
      first_gathers_.insert(i);
      if (op.unit != kRootUnit || ++found == 2) return;
    }
  };
  for (const auto& [from, to] : host_.forwards(step_.index)) find_between(from, to);
  if (first_gathers_.empty()) find_between(step_.start, step_.end);
}

/// The last one, and those before it that only FSDP2's own kernels follow: units whose inputs need no gradient are
/// reduced together, behind all of backward (root_post_backward_callback).
void CollectiveReasons::find_last_reductions(const IssueOrder& issues) {
  const std::vector<std::size_t> ops = issues.issued(step_.start, step_.end);
  for (auto it = ops.rbegin(); it != ops.rend(); ++it) {
    const DeviceOpRecord& op = run_.device_ops[*it];
    if (communicates(op)) {
      if (reduces_gradients(op)) last_reductions_.insert(*it);
    } else if (op.stream == kComputeStream && !last_reductions_.empty() &&
               !run_.labels.text(host_.range_at(op.issue)).starts_with("FSDP::")) {
      return;
    }
  }
}

/// FSDP2 reduces in post_backward_reduce; a run without ranges has no other reduce-scatters, and all-reduces of its own
/// only where it replicates.
bool CollectiveReasons::reduces_gradients(const DeviceOpRecord& op) const {
  if (op.collective != CollectiveKind::reduce_scatter && op.collective != CollectiveKind::all_reduce) return false;
  if (host_.has_ranges()) return run_.labels.text(host_.range_at(op.issue)).starts_with("FSDP::post_backward");
  return op.collective == CollectiveKind::reduce_scatter ||
         (op.collective == CollectiveKind::all_reduce && run_.settings.replicate > 1);
}

std::size_t CollectiveReasons::collective_before(std::size_t op) const {
  for (int hop = 0; hop < kMaxHops; ++hop) {
    const Wait wait = waits_.of(op);
    if (wait.what != Wait::For::stream) return kNoDeviceOp;
    op = wait.source;
    if (communicates(run_.device_ops[op])) return op;
  }
  return kNoDeviceOp;
}

Reason CollectiveReasons::behind_compute(const DeviceOpRecord& collective, std::size_t source) const {
  const std::string& range = run_.labels.text(host_.range_at(run_.device_ops[source].issue));
  if (range.starts_with("FSDP::all_gather_copy_out")) return {IdleCause::buffer, source, {}};
  // Async ops copy in on the compute stream: the gather stands where it was issued, behind all that was issued before.
  if (range.starts_with("FSDP::all_gather")) return {IdleCause::prefetch, source, host_.range_at(collective.issue)};
  if (reduces_gradients(collective)) return {IdleCause::gradients, source, {}};
  return {IdleCause::dependency, source, {}};
}

Reason CollectiveReasons::of(std::size_t collective) const {
  if (first_gathers_.contains(collective)) return {IdleCause::first_gather, kNoDeviceOp, {}};
  if (last_reductions_.contains(collective)) return {IdleCause::last_reduction, kNoDeviceOp, {}};
  const DeviceOpRecord& op = run_.device_ops[collective];
  std::size_t at = collective;
  for (int hop = 0; hop < kMaxHops; ++hop) {
    const Wait wait = waits_.of(at);
    if (wait.what == Wait::For::issue) return {IdleCause::prefetch, kNoDeviceOp, host_.range_at(op.issue)};
    const DeviceOpRecord& source = run_.device_ops[wait.source];
    if (communicates(source)) return {IdleCause::previous_collective, wait.source, {}};
    if (source.stream == kComputeStream) return behind_compute(op, wait.source);
    at = wait.source;
  }
  return {IdleCause::dependency, at, {}};
}

}  // namespace foreshard::explain_time_detail
