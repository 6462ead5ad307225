// Any bytes, packed or not, give a profiler trace or an Error; what is kept is in order, and settings are read off it.
#include <cstddef>
#include <cstdint>
#include <string>

#include "core/base/check.hpp"
#include "core/straggler/straggler.hpp"
#include "traces/import/rank_traces.hpp"
#include "traces/import/recorded_steps.hpp"
#include "traces/infer/element_sizes.hpp"
#include "traces/infer/inferred_settings.hpp"
#include "traces/infer/user_program.hpp"
#include "traces/pytorch/profiler_trace.hpp"

namespace {

using namespace foreshard;

/// Beside a snapshot whose one unit gathers and reduces as much as the trace's first collective moves.
void check_inference(const traces::ProfilerTrace& trace) {
  std::vector<traces::Range> ranges;
  for (const HostOpRecord& op : trace.run.host_ops)
    if (op.kind == HostOpRecord::Kind::annotation)
      ranges.push_back({trace.run.labels.text(op.label), op.start, op.end});
  const Snapshot snapshot;
  const traces::InferInput input{snapshot, {}, {}, &trace, ranges};
  traces::Inference out;
  traces::RecordedUnit& unit = out.recorded.emplace_back();
  for (const traces::TraceCollective& c : trace.collectives) unit.gather.block = unit.reduction.output = c.bytes;
  unit.reduction.input = unit.gather.block;
  const traces::ElementTypes types = traces::element_types(out.recorded, &trace);
  FORESHARD_CHECK(types.ranks <= traces::kMaxRanks, "groups are bounded");
  traces::infer_world(input, types, out);
  traces::infer_dtypes(types, out);
  traces::infer_buffers(input, out);
  traces::infer_checkpoint(input, out);
  traces::infer_inputs(input, out);
  FORESHARD_CHECK(types.ranks == 0 || out.settings.world() > 0, "a world has ranks");
}

/// As two ranks of one run: what is kept is on one clock, and belongs to the ranks that are listed.
void check_ranks(const traces::ProfilerTrace& trace) {
  Run run = trace.run;
  run.units = {{"", {Parameter{"weight", {2, 2}, DType::float32}}}};
  const auto hooks = traces::find_hooks(traces::trace_ranges(run), run.units);
  if (!hooks) return;
  run.steps = traces::step_records(*hooks, Recording::trace);
  run.phases = traces::phase_records(*hooks, Recording::trace);
  traces::RankTraces ranks({0, trace.world_size, trace.origin_ns, trace.communicators}, run);
  traces::RankTrace other{"other", trace};
  other.trace.rank = 1;
  FORESHARD_CHECK(ranks.add(std::move(other)).has_value(), "it says its rank");
  ranks.finish();
  FORESHARD_CHECK(!run.ranks.empty() && run.ranks.front().rank == 0, "the first rank is kept");
  if (const auto found = find_stragglers(run))
    for (const RankTime& rank : found->ranks)
      FORESHARD_CHECK(rank.compute + rank.waiting + rank.communication + rank.idle == rank.step, "parts add up");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace foreshard;
  if (size == 0) return 0;
  traces::TraceOptions options;
  options.keep_cpu_ops = (size & 1) != 0;
  auto source = traces::ByteSource::from_memory("input", std::string(reinterpret_cast<const char*>(data), size));
  if (!source) return 0;
  const auto trace = traces::read_profiler_trace(*source, options);
  if (!trace) return 0;
  check_inference(*trace);
  check_ranks(*trace);
  const Run& run = trace->run;
  for (std::size_t i = 0; i < run.host_ops.size(); ++i) {
    const HostOpRecord& op = run.host_ops[i];
    FORESHARD_CHECK(op.start.count >= 0 && op.start <= op.end, "host times are relative and ordered");
    FORESHARD_CHECK(i == 0 || run.host_ops[i - 1].start <= op.start, "host ops are by start");
    FORESHARD_CHECK(op.thread < trace->threads.size(), "threads are numbered");
  }
  for (std::size_t i = 0; i < run.device_ops.size(); ++i) {
    const DeviceOpRecord& op = run.device_ops[i];
    FORESHARD_CHECK(op.issue.count >= 0 && op.issue <= op.start && op.start <= op.end, "device times are ordered");
    FORESHARD_CHECK(i == 0 || run.device_ops[i - 1].issue <= op.issue, "device ops are by issue");
    FORESHARD_CHECK(op.stream.value < run.streams.size(), "streams are numbered");
    FORESHARD_CHECK(!op.communicator.valid() || op.communicator.value < trace->communicators.size(), "as are groups");
  }
  return 0;
}
