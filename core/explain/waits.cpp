#include "core/explain/waits.hpp"

#include <algorithm>
#include <optional>

#include "core/workload/workload_names.hpp"

namespace foreshard::explain_detail {
namespace {

std::optional<CollectiveKind> user_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::gather_buffers:
      return CollectiveKind::all_gather;
    case MemoryCategory::reduce_buffers:
    case MemoryCategory::sharded_gradients:
      return CollectiveKind::reduce_scatter;
    default:
      return std::nullopt;
  }
}

/// record_function names of FSDPParamGroup.unshard() and foreach_reduce(), PyTorch 2.11, without the unit.
constexpr std::array<std::string_view, 2> kRanges{"FSDP::all_gather", "FSDP::post_backward_reduce"};

/// "layers.1" of "FSDP::all_gather (layers.1)", "" of the root's; nothing for other ranges.
std::optional<std::string> unit_in(const std::string& label, std::string_view range) {
  if (!label.starts_with(range)) return std::nullopt;
  const std::string rest = label.substr(range.size());
  if (rest.empty()) return rest;
  if (rest.size() < 4 || !rest.starts_with(" (") || !rest.ends_with(")")) return std::nullopt;
  return rest.substr(2, rest.size() - 3);
}

}  // namespace

Waits::Waits(const Run& run) {
  read_device_ops(run);
  if (run.info.kind == RunKind::imported) read_annotations(run);
  for (Kind& kind : kinds_)
    std::stable_sort(kind.issued.begin(), kind.issued.end(),
                     [](const Issued& a, const Issued& b) { return a.issue < b.issue; });
}

void Waits::read_device_ops(const Run& run) {
  for (const DeviceOpRecord& op : run.device_ops) {
    if (op.kind != DeviceOpRecord::Kind::collective) continue;
    Kind& kind = kinds_.at(static_cast<std::size_t>(op.collective));
    if (!kind.stream.valid()) kind.stream = op.stream;
    if (run.info.kind == RunKind::imported) continue;  // the profiler's clock is not the allocator's
    const std::string unit = op.unit.value < run.units.size() ? run.units[op.unit.value].name : std::string();
    kind.issued.push_back({op.issue, op.end, unit});
  }
}

void Waits::read_annotations(const Run& run) {
  for (const AnnotationRecord& annotation : run.annotations)
    for (std::size_t i = 0; i < kRanges.size(); ++i)
      if (auto unit = unit_in(run.labels.text(annotation.label), kRanges[i]))
        kinds_[i].issued.push_back({annotation.start, std::nullopt, *unit});
}

void Waits::fill(HeldBlock& block) const {
  const std::optional<CollectiveKind> user = user_of(block.category.value_or(MemoryCategory::other));
  if (!user || !block.freed) return;
  const auto index = static_cast<std::size_t>(*user);
  const Kind& kind = kinds_[index];
  block.waits_for = kind.stream;
  block.waits_for_name = kDashedNames<CollectiveKind>[index];
  const auto after = std::upper_bound(kind.issued.begin(), kind.issued.end(), *block.freed,
                                      [](Nanoseconds time, const Issued& op) { return time < op.issue; });
  if (after == kind.issued.begin()) return;
  const Issued& op = *std::prev(after);
  block.behind = std::string(kDashedNames<CollectiveKind>[index]) + " of " + (op.unit.empty() ? "the root" : op.unit);
  block.op_end = op.end;
}

}  // namespace foreshard::explain_detail
