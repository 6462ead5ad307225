#include "core/step/run_recorder.hpp"

#include <algorithm>

#include "core/run/phase_words.hpp"

namespace foreshard {

void RunRecorder::add_stream(StreamId id, const StreamOptions& options) {
  if (enabled_) run_.streams.push_back({id, options.name, 0, options.priority});
}

void RunRecorder::on_event(const AllocatorEvent& event) {
  AllocatorRecord record{
      event.action, event.address, event.size, StreamId{static_cast<std::uint32_t>(event.stream)}, now(), {}};
  if (event.action == AllocatorAction::alloc) {
    record.block = BlockId{static_cast<std::uint32_t>(run_.blocks.size())};
    BlockRecord block = expected_;
    block.address = event.address;
    block.requested = event.size;
    block.stream = record.stream;
    run_.blocks.push_back(block);
    block_at_[event.address] = record.block;
  } else if (event.action == AllocatorAction::free_requested || event.action == AllocatorAction::free_completed) {
    if (const auto it = block_at_.find(event.address); it != block_at_.end()) {
      record.block = it->second;
      if (event.action == AllocatorAction::free_completed) block_at_.erase(it);
    }
  }
  run_.allocator.push_back(record);
}

DeviceOpRecord& RunRecorder::add(OpId op, DeviceOpRecord::Kind kind, StreamId stream, LabelId label, UnitId unit) {
  ops_.push_back(op);
  DeviceOpRecord record;
  record.kind = kind;
  record.stream = stream;
  record.label = label;
  record.unit = unit;
  record.correlation = op.value + 1ULL;
  return run_.device_ops.emplace_back(record);
}

void RunRecorder::kernel(OpId op, StreamId stream, KernelClass kernel_class, LabelId label, UnitId unit) {
  if (!enabled_) return;
  const bool memset = kernel_class == KernelClass::memset;
  add(op, memset ? DeviceOpRecord::Kind::memset : DeviceOpRecord::Kind::kernel, stream, label, unit).kernel_class =
      kernel_class;
}

void RunRecorder::copy(OpId op, StreamId stream, Bytes bytes, LabelId label, UnitId unit) {
  if (enabled_) add(op, DeviceOpRecord::Kind::copy, stream, label, unit).bytes = bytes;
}

void RunRecorder::collective(OpId op, StreamId stream, const CollectiveWork& work, CommunicatorId communicator,
                             UnitId unit) {
  if (!enabled_) return;
  DeviceOpRecord& record = add(op, DeviceOpRecord::Kind::collective, stream, work.label, unit);
  record.bytes = work.bytes;
  record.collective = work.kind;
  record.transport = work.transport;
  record.communicator = communicator;
}

void RunRecorder::event(EventRecord::Kind kind, EventId event, StreamId stream) {
  if (whole_) run_.events.push_back({kind, event, stream, now()});
}

namespace {

/// record_function names of _fsdp_param_group.py and optimizer.py, PyTorch 2.11.
std::string_view annotation(Section section, Pass pass) {
  switch (section) {
    case Section::all_gather:
      return "FSDP::all_gather";
    case Section::copy_out:
      return "FSDP::all_gather_copy_out";
    case Section::accumulate:
      return "FSDP::post_backward_accumulate";
    case Section::reshard:
      return pass == Pass::forward ? "FSDP::post_forward" : "FSDP::post_backward_reshard";
    case Section::reduce:
      return "FSDP::post_backward_reduce";
    case Section::optimizer:
      return "Optimizer.step";
    case Section::zero_grad:
      return "Optimizer.zero_grad";
    case Section::float8_scales:
      return "precompute_float8_dynamic_scale_for_fsdp";
  }
  return "FSDP";
}

}  // namespace

void RunRecorder::section(const SectionCost& cost, const std::string& unit, Nanoseconds start) {
  if (!whole_) return;
  std::string name(annotation(cost.section, cost.pass));
  if (!unit.empty()) name += " (" + unit + ")";
  run_.host_ops.push_back({HostOpRecord::Kind::annotation, 0, run_.labels.intern(name), start, now(), 0});
}

void RunRecorder::phase(Hook hook, std::int32_t step) {
  if (!whole_) return;
  const auto open = [&](const char* name) { run_.phases.push_back({step, Recording::run, name, now(), now()}); };
  switch (hook) {
    case Hook::forward_begin:
      open("forward");
      break;
    case Hook::backward_begin:
      open("backward");
      break;
    case Hook::optimizer_begin:
      open(kOptimizerPhase);
      break;
    case Hook::forward_end:
    case Hook::backward_end:
    case Hook::optimizer_end:
      if (!run_.phases.empty()) run_.phases.back().end = now();
      break;
    default:
      break;
  }
}

namespace {

StepRecord step_record(std::int32_t index, Nanoseconds begin, Nanoseconds end, const MemoryPeaks& peaks,
                       const AllocatorStatistics& statistics) {
  StepRecord record;
  record.index = index;
  record.start = begin;
  record.end = end;
  record.peaks = peaks;
  record.reserved_current = static_cast<Bytes>(statistics.all.reserved_bytes.current);
  record.num_alloc_retries = statistics.num_alloc_retries;
  return record;
}

}  // namespace

void RunRecorder::step(std::int32_t index, Nanoseconds begin, Nanoseconds end, const MemoryPeaks& peaks,
                       const AllocatorStatistics& statistics) {
  if (!enabled_) return;
  step_last_op_.push_back(run_.device_ops.size());
  run_.steps.push_back(step_record(index, begin, end, peaks, statistics));
}

void RunRecorder::stopped_step(std::int32_t index, Nanoseconds begin, Nanoseconds end, const MemoryPeaks& peaks,
                               const AllocatorStatistics& statistics) {
  if (!enabled_) return;
  if (!run_.phases.empty() && run_.phases.back().step == index && run_.phases.back().end == run_.phases.back().start)
    run_.phases.back().end = end;  // still open
  run_.steps.push_back(step_record(index, begin, end, peaks, statistics));
}

void RunRecorder::finish(std::vector<SnapshotSegment> segments) {
  if (!enabled_) return;
  const auto timings = device_.timings();
  for (std::size_t i = 0; i < ops_.size(); ++i) {
    const OpTiming& timing = timings[ops_[i].value];
    run_.device_ops[i].issue = timing.issue;
    run_.device_ops[i].start = timing.start;
    run_.device_ops[i].end = timing.end;
  }
  for (std::size_t s = 0; s < step_last_op_.size(); ++s) {
    for (std::size_t i = step_last_op_[s]; i-- > 0;) {
      if (run_.device_ops[i].stream != kComputeStream) continue;
      if (run_.device_ops[i].end != OpTiming::kNever) run_.steps[s].device_end = run_.device_ops[i].end;
      break;
    }
  }
  std::erase_if(run_.device_ops, [](const DeviceOpRecord& op) { return op.start == OpTiming::kNever; });
  if (whole_) run_.segments = std::move(segments);
}

}  // namespace foreshard
