#include "tests/traces/capture/memory/recording.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/step/step_runner.hpp"
#include "tests/catch.hpp"
#include "tests/contract/scripted_device.hpp"

namespace foreshard::traces::test {
namespace {

/// Host times above this mark an op whose place the recording needs; the rest is its index among the marked ops.
constexpr std::int64_t kMark = std::int64_t{1} << 40;

struct Mark {
  bool input_cast = false;
  Hook hook = Hook::zero_grad;
  UnitId unit;
  std::int64_t time_us = 0;
};

/// A scripted device whose clock moves with every look at it, and which hears the marks.
class MarkingDevice final : public Device {
 public:
  EventId record_event(StreamId stream) override { return inner_.record_event(stream); }
  bool event_complete(EventId event) override { return inner_.event_complete(event); }
  void synchronize_event(EventId event) override { inner_.synchronize_event(event); }
  StreamId create_stream(const StreamOptions& options) override { return inner_.create_stream(options); }
  CommunicatorId create_communicator(const CommunicatorOptions& options) override {
    return inner_.create_communicator(options);
  }
  OpId launch(StreamId stream, const KernelLaunch& kernel) override { return inner_.launch(stream, kernel); }
  OpId copy(StreamId stream, const CopyWork& work) override { return inner_.copy(stream, work); }
  OpId collective(StreamId stream, CommunicatorId over, const CollectiveWork& work) override {
    return inner_.collective(stream, over, work);
  }
  void stream_wait_event(StreamId stream, EventId event) override { inner_.stream_wait_event(stream, event); }
  void synchronize() override { inner_.synchronize(); }
  void host_work(Nanoseconds length) override {
    if (length.count < kMark) return;
    clock_us_ += 10;
    heard.emplace_back(static_cast<std::size_t>(length.count - kMark), clock_us_);
  }
  Nanoseconds host_now() override { return Nanoseconds::from_us(++clock_us_); }
  bool can_launch_graphs() const override { return true; }
  std::span<const OpTiming> timings() const override { return inner_.timings(); }

  std::vector<std::pair<std::size_t, std::int64_t>> heard;

 private:
  ScriptedDevice inner_;
  std::int64_t clock_us_ = 0;
};

std::vector<Mark> mark(Workload& workload) {
  std::vector<Mark> marks;
  for (Program& program : workload.steps) {
    for (Op& op : program.ops) {
      op.host_before = {};
      const bool cast = op.kind == OpKind::alloc && op.unit.valid();
      if (op.kind != OpKind::hook && !cast) continue;
      op.host_before = {kMark + static_cast<std::int64_t>(marks.size())};
      marks.push_back({cast, op.hook, op.unit, 0});
    }
  }
  return marks;
}

class Annotator {
 public:
  Annotator(const std::vector<Unit>& units, std::vector<SnapshotAnnotation>& out) : units_(units), out_(out) {}

  void add(const Mark& m) {
    if (cast_open_) put(false, "FSDP::cast_forward_inputs", m.time_us - 5);
    cast_open_ = m.input_cast;
    if (m.input_cast) return put(true, "FSDP::cast_forward_inputs", m.time_us);
    const std::string unit = m.unit.valid() ? " (" + units_[m.unit.value].name + ")" : "";
    switch (m.hook) {
      case Hook::zero_grad:
        first_microbatch_ = true;
        return put(true, "Optimizer.zero_grad#Adam.zero_grad", m.time_us);
      case Hook::microbatch_begin:
        if (first_microbatch_) put(false, "Optimizer.zero_grad#Adam.zero_grad", m.time_us);
        first_microbatch_ = false;
        return;
      case Hook::forward_begin:
        return put(true, "## forward ##", m.time_us);
      case Hook::forward_end:
        return put(false, "## forward ##", m.time_us);
      case Hook::backward_begin:
        return put(true, "## backward ##", m.time_us);
      case Hook::backward_end:
        put(false, "FSDP::root_post_backward_callback", m.time_us - 1);
        return put(false, "## backward ##", m.time_us);
      case Hook::pre_forward:
        if (m.unit == kRootUnit) at_once("FSDP::root_pre_forward", m.time_us);
        return each_group("FSDP::pre_forward" + unit, m);
      case Hook::post_forward:
        return each_group("FSDP::post_forward" + unit, m);
      case Hook::pre_backward:
        return each_group("FSDP::pre_backward" + unit, m);
      case Hook::post_backward:
        return each_group("FSDP::post_backward_accumulate" + unit, m);
      case Hook::backward_final:
        return put(true, "FSDP::root_post_backward_callback", m.time_us);
      case Hook::optimizer_begin:
        return put(true, "Optimizer.step#Adam.step", m.time_us);
      case Hook::optimizer_end:
        return put(false, "Optimizer.step#Adam.step", m.time_us);
      case Hook::outputs_cast:
        return at_once("FSDP::cast_forward_outputs", m.time_us);
      case Hook::microbatch_end:
      case Hook::optimizer_step:
        return;
    }
  }

 private:
  void put(bool start, const std::string& name, std::int64_t time_us) { out_.push_back({start, name, 0, time_us}); }
  void at_once(const std::string& name, std::int64_t time_us) {
    put(true, name, time_us);
    put(false, name, time_us);
  }

  /// A range for each of the unit's parameter groups (FSDPParamGroup._with_fqn).
  void each_group(const std::string& name, const Mark& m) {
    const std::size_t groups = units_[m.unit.value].groups.size();
    if (groups < 2) return at_once(name, m.time_us);
    for (std::size_t i = 0; i < groups; ++i) at_once(name + " [pg=4]", m.time_us);
  }

  const std::vector<Unit>& units_;
  std::vector<SnapshotAnnotation>& out_;
  bool cast_open_ = false;
  bool first_microbatch_ = false;
};

}  // namespace

Recorded record(const Workload& workload, const Settings& settings, std::int32_t steps) {
  Workload marked = workload;
  const std::vector<Mark> marks = mark(marked);
  MarkingDevice device;
  ScriptedMemory memory(64 * kGiB);
  Recorded out;
  const auto outcome = run_steps(marked, settings, {.steps = steps}, device, memory, out.run);
  REQUIRE(outcome);
  REQUIRE_FALSE(outcome->out_of_memory);
  for (const AllocatorRecord& e : out.run.allocator)
    out.snapshot.events.push_back({e.action, e.address, e.size, e.stream.value, e.time.count / 1000});
  out.snapshot.segments = out.run.segments;
  Annotator annotator(workload.units, out.snapshot.annotations);
  for (const auto& [index, time_us] : device.heard) {
    Mark m = marks[index];
    m.time_us = time_us;
    annotator.add(m);
  }
  return out;
}

std::vector<std::string> requests_of(const Run& run) {
  std::vector<std::string> lines;
  for (const AllocatorRecord& e : run.allocator)
    if (e.action == AllocatorAction::alloc || e.action == AllocatorAction::free_requested)
      lines.push_back(fmt::format("{} {} stream {} at {:#x}", e.action == AllocatorAction::alloc ? "alloc" : "free",
                                  e.size, e.stream.value, e.address));
  return lines;
}

std::string difference(const std::vector<std::string>& got, const std::vector<std::string>& want) {
  const auto [a, b] = std::mismatch(got.begin(), got.end(), want.begin(), want.end());
  if (a == got.end() && b == want.end()) return {};
  return fmt::format("line {}: got {}, wanted {}", a - got.begin(), a == got.end() ? "the end" : *a,
                     b == want.end() ? "the end" : *b);
}

}  // namespace foreshard::traces::test
