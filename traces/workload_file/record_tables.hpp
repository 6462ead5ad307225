// The tables of record_fields.hpp for each record of a workload. Private to traces/workload_file.
// docs/workload.md lists the same keys and positions; a test holds the two together.
#pragma once

#include <array>
#include <cstdint>

#include "core/run/run_names.hpp"
#include "core/workload/workload.hpp"
#include "traces/workload_file/record_fields.hpp"

namespace foreshard::traces {

/// Where the fields of kOpFields stand; the order is that of the extra keys in a file.
namespace op_field {
enum Index : std::uint8_t {
  host_ns,
  label,
  tensor,
  bytes,
  category,
  kernel_class,
  work_ns,
  copy_kind,
  copy_bytes,
  copy_ns,
  hook,
  unit,
  stream,
  steps_ago,
  from_setup,
  before_recording,
  size,
  parameter,
  gradient_of,
  kernel_bytes,
  ring_slowdown,
  kernel_label,
  copy_label,
  math,
  math_dtype,
  math_batch,
  m,
  n,
  k,
  causal,
  access,
  unaligned,
  ragged,
  process_group,
  collective,
  collective_bytes,
  collectives_behind,
  module,
  count
};
}  // namespace op_field

inline constexpr std::array<Field<Op>, op_field::count> kOpFields{
    FORESHARD_FIELD(Op, "host_ns", host_before),
    FORESHARD_FIELD(Op, "label", label),
    FORESHARD_FIELD(Op, "tensor", tensor),
    FORESHARD_FIELD(Op, "bytes", size.bytes),
    FORESHARD_FIELD(Op, "category", category),
    FORESHARD_FIELD(Op, "kernel_class", kernel.kernel_class),
    FORESHARD_FIELD(Op, "work_ns", kernel.work),
    FORESHARD_FIELD(Op, "copy_kind", copy.kind),
    FORESHARD_FIELD(Op, "copy_bytes", copy.bytes),
    FORESHARD_FIELD(Op, "copy_ns", copy.work),
    FORESHARD_FIELD(Op, "hook", hook),
    FORESHARD_FIELD(Op, "unit", unit),
    FORESHARD_FIELD(Op, "stream", user_stream),
    FORESHARD_FIELD(Op, "steps_ago", steps_ago),
    FORESHARD_FIELD(Op, "from_setup", from_setup),
    FORESHARD_FIELD(Op, "before_recording", before_recording),
    FORESHARD_FIELD(Op, "size", size.kind),
    FORESHARD_FIELD(Op, "parameter", size.parameter),
    FORESHARD_FIELD(Op, "gradient_of", gradient_of),
    FORESHARD_FIELD(Op, "kernel_bytes", kernel.bytes),
    FORESHARD_FIELD(Op, "ring_slowdown", kernel.ring_slowdown),
    FORESHARD_FIELD(Op, "kernel_label", kernel.label),
    FORESHARD_FIELD(Op, "copy_label", copy.label),
    FORESHARD_FIELD(Op, "math", kernel.math.kind),
    FORESHARD_FIELD(Op, "math_dtype", kernel.math.dtype),
    FORESHARD_FIELD(Op, "math_batch", kernel.math.batch),
    FORESHARD_FIELD(Op, "m", kernel.math.m),
    FORESHARD_FIELD(Op, "n", kernel.math.n),
    FORESHARD_FIELD(Op, "k", kernel.math.k),
    FORESHARD_FIELD(Op, "causal", kernel.math.causal),
    FORESHARD_FIELD(Op, "access", kernel.math.access),
    FORESHARD_FIELD(Op, "unaligned", kernel.math.unaligned),
    FORESHARD_FIELD(Op, "ragged", kernel.math.ragged),
    FORESHARD_FIELD(Op, "process_group", collective.group),
    FORESHARD_FIELD(Op, "collective", collective.kind),
    FORESHARD_FIELD(Op, "collective_bytes", collective.bytes),
    FORESHARD_FIELD(Op, "collectives_behind", collectives_behind),
    FORESHARD_FIELD(Op, "module", module),
};

/// The key of what an op computes, behind all others; kernel_text.hpp reads and writes its value.
inline constexpr std::string_view kComputesKey = "computes";

/// The places of one kind of op behind its word; the last two are always host_ns and label.
struct OpForm {
  OpKind kind;
  std::array<op_field::Index, 5> positions;
  std::size_t count;
  std::size_t required;
};

inline constexpr std::array<OpForm, 8> kOpForms{{
    {OpKind::alloc, {op_field::tensor, op_field::bytes, op_field::category, op_field::host_ns, op_field::label}, 5, 2},
    {OpKind::free, {op_field::tensor, op_field::host_ns, op_field::label}, 3, 1},
    {OpKind::kernel, {op_field::kernel_class, op_field::work_ns, op_field::host_ns, op_field::label}, 4, 2},
    {OpKind::copy,
     {op_field::copy_kind, op_field::copy_bytes, op_field::copy_ns, op_field::host_ns, op_field::label},
     5,
     2},
    {OpKind::hook, {op_field::hook, op_field::unit, op_field::host_ns, op_field::label}, 4, 1},
    {OpKind::synchronize, {op_field::host_ns, op_field::label}, 2, 0},
    {OpKind::collective,
     {op_field::process_group, op_field::collective, op_field::collective_bytes, op_field::host_ns, op_field::label},
     5,
     3},
    {OpKind::wait_stream, {op_field::stream, op_field::host_ns, op_field::label}, 3, 1},
}};

inline constexpr std::array kItemFields{
    FORESHARD_FIELD(SectionItem, "role", role),    FORESHARD_FIELD(SectionItem, "host_ns", host_before),
    FORESHARD_FIELD(SectionItem, "work_ns", work), FORESHARD_FIELD(SectionItem, "kernel_class", kernel_class),
    FORESHARD_FIELD(SectionItem, "bytes", bytes),  FORESHARD_FIELD(SectionItem, "label", label),
};
inline constexpr ArrayForm<SectionItem> kItemForm{kItemFields, 1};

inline constexpr std::array kSectionFields{
    FORESHARD_FIELD(SectionCost, "section", section),
    FORESHARD_FIELD(SectionCost, "unit", unit),
    FORESHARD_FIELD(SectionCost, "group", group),
    FORESHARD_FIELD(SectionCost, "pass", pass),
    FORESHARD_FIELD(SectionCost, "host_after_ns", host_after),
};

inline constexpr std::array kParameterFields{
    FORESHARD_FIELD(Parameter, "name", name),
    FORESHARD_FIELD(Parameter, "shape", shape),
    FORESHARD_FIELD(Parameter, "dtype", dtype),
    FORESHARD_FIELD(Parameter, "requires_grad", requires_grad),
    FORESHARD_FIELD(Parameter, "expert_parallel", expert_parallel),
    FORESHARD_FIELD(Parameter, "gathered_in_float8", gathered_in_float8),
    FORESHARD_FIELD(Parameter, "shard_dim", shard_dim),
};
inline constexpr ArrayForm<Parameter> kParameterForm{kParameterFields, 2};

inline constexpr std::array kProcessGroupFields{
    FORESHARD_FIELD(ProcessGroup, "name", name),
    FORESHARD_FIELD(ProcessGroup, "ranks", ranks),
    FORESHARD_FIELD(ProcessGroup, "stride", stride),
    FORESHARD_FIELD(ProcessGroup, "of_shards", of_shards),
};
inline constexpr ArrayForm<ProcessGroup> kProcessGroupForm{kProcessGroupFields, 2};

inline constexpr std::array kSegmentFields{
    FORESHARD_FIELD(SnapshotSegment, "device", device),
    FORESHARD_FIELD(SnapshotSegment, "address", address),
    FORESHARD_FIELD(SnapshotSegment, "total_size", total_size),
    FORESHARD_FIELD(SnapshotSegment, "allocated_size", allocated_size),
    FORESHARD_FIELD(SnapshotSegment, "active_size", active_size),
    FORESHARD_FIELD(SnapshotSegment, "requested_size", requested_size),
    FORESHARD_FIELD(SnapshotSegment, "stream", stream),
    FORESHARD_FIELD(SnapshotSegment, "small_pool", small_pool),
    FORESHARD_FIELD(SnapshotSegment, "pool_id_0", pool_id.first),
    FORESHARD_FIELD(SnapshotSegment, "pool_id_1", pool_id.second),
    FORESHARD_FIELD(SnapshotSegment, "is_expandable", is_expandable),
};

inline constexpr std::array kBlockFields{
    FORESHARD_FIELD(SnapshotBlock, "address", address),
    FORESHARD_FIELD(SnapshotBlock, "size", size),
    FORESHARD_FIELD(SnapshotBlock, "requested_size", requested_size),
    FORESHARD_FIELD(SnapshotBlock, "state", state),
};
inline constexpr ArrayForm<SnapshotBlock> kBlockForm{kBlockFields, 4};

/// The members of the file's outermost object that are one value each.
inline constexpr std::array kWorkloadFields{
    FORESHARD_FIELD(Workload, "name", name),
    FORESHARD_FIELD(Workload, "gpu", gpu),
    FORESHARD_FIELD(Workload, "torch", torch),
    FORESHARD_FIELD(Workload, "sm_count", sm_count),
    FORESHARD_FIELD(Workload, "lowering", lowering),
    FORESHARD_FIELD(Workload, "host_program", host_program),
    FORESHARD_FIELD(Workload, "has_timing", has_timing),
    FORESHARD_FIELD(Workload, "shards_known", shards_known),
    FORESHARD_FIELD(Workload, "optimizer_known", optimizer_known),
    FORESHARD_FIELD(Workload, "parameters_order", parameters_order),
    FORESHARD_FIELD(Workload, "optimizer_param_groups", optimizer_param_groups),
    FORESHARD_FIELD(Workload, "recorded_host_ms", recorded_host_ms),
    FORESHARD_FIELD(Workload, "cycle", cycle),
    FORESHARD_FIELD(Workload, "segment_addresses", segment_addresses),
    FORESHARD_FIELD(Workload, "segment_sizes", segment_sizes),
    FORESHARD_FIELD(Workload, "recorded_frees", returns.frees),
    FORESHARD_FIELD(Workload, "estimates", estimates),
};

inline constexpr std::array kRecordedStepFields{
    FORESHARD_FIELD(RecordedStep, "batch", batch),
    FORESHARD_FIELD(RecordedStep, "seq", seq),
    FORESHARD_FIELD(RecordedStep, "profiled", profiled),
};
inline constexpr ArrayForm<RecordedStep> kRecordedStepForm{kRecordedStepFields, 0};

inline constexpr std::array kRankShapeFields{
    FORESHARD_FIELD(RankShape, "rank", rank),
    FORESHARD_FIELD(RankShape, "batch", batch),
    FORESHARD_FIELD(RankShape, "seq", seq),
};
inline constexpr ArrayForm<RankShape> kRankShapeForm{kRankShapeFields, 3};

inline constexpr std::array kLateFields{
    FORESHARD_FIELD(RecordedReturns::Late, "free", free),
    FORESHARD_FIELD(RecordedReturns::Late, "allocation", allocation),
};
inline constexpr ArrayForm<RecordedReturns::Late> kLateForm{kLateFields, 2};

inline constexpr std::array kMeasuredFields{
    FORESHARD_FIELD(Measured, "step_ms", step_ms),
    FORESHARD_FIELD(Measured, "host_issue_ms", host_issue_ms),
    FORESHARD_FIELD(Measured, "cycle", cycle),
    FORESHARD_FIELD(Measured, "late_rank", late_rank),
    FORESHARD_FIELD(Measured, "late_itself", late_itself),
};

}  // namespace foreshard::traces
