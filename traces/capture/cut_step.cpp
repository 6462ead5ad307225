#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/kernel/kernel_name.hpp"
#include "core/run/blocked_launch.hpp"
#include "traces/capture/step_calls.hpp"

namespace foreshard::traces {
namespace {

constexpr Nanoseconds kFreeLaunch{8'000};  // what one takes that is not blocked

struct StepEvent {
  enum class Kind : std::uint8_t { section_end = 0, hook = 1, section_start = 2, call = 3 };
  Nanoseconds time;
  Kind kind = Kind::call;  // in this order at equal times
  std::size_t index = 0;
};

class StepCutter {
 public:
  StepCutter(const Run& run, const TraceCalls& calls, std::span<const SectionSpan> sections, const Hooks& hooks,
             const StepPlaces& step, std::span<const ProcessGroup> groups)
      : run_(run), calls_(calls), hooks_(hooks), step_(step), groups_(groups) {
    for (const SectionSpan& span : sections) {
      if (span.start >= step.begin && span.start < step.end) sections_.push_back(span);
    }
    add_optimizer();
    out_.index = step.index;
    last_ = step.begin;
  }

  StepCalls run() {
    for (const StepEvent& event : events()) {
      switch (event.kind) {
        case StepEvent::Kind::section_end:
          end_section(event.index);
          break;
        case StepEvent::Kind::hook:
          on_hook(hooks_.places[event.index]);
          break;
        case StepEvent::Kind::section_start:
          start_section(event.index);
          break;
        case StepEvent::Kind::call:
          on_call(calls_.calls[event.index]);
          break;
      }
    }
    out_.host_after = user_host_ + elapsed(step_.end);
    close_segment();
    return std::move(out_);
  }

 private:
  void add_optimizer() {
    const HookPlace* begin = nullptr;
    for (std::size_t i = step_.first; i < step_.first + step_.count; ++i) {
      const HookPlace& place = hooks_.places[i];
      if (place.hook == Hook::optimizer_begin) begin = &place;
      if (place.hook == Hook::optimizer_end && begin != nullptr)
        sections_.push_back({Section::optimizer, kRootUnit, begin->time, place.time});
    }
  }

  std::vector<StepEvent> events() const {
    std::vector<StepEvent> out;
    for (std::size_t i = step_.first; i < step_.first + step_.count; ++i)
      out.push_back({hooks_.places[i].time, StepEvent::Kind::hook, i});
    for (std::size_t i = 0; i < sections_.size(); ++i) {
      out.push_back({sections_[i].start, StepEvent::Kind::section_start, i});
      out.push_back({sections_[i].end, StepEvent::Kind::section_end, i});
    }
    const auto before = [](const TraceCall& call, Nanoseconds time) { return call.start < time; };
    const auto first = std::lower_bound(calls_.calls.begin(), calls_.calls.end(), step_.begin, before);
    const auto last = std::lower_bound(first, calls_.calls.end(), step_.end, before);
    for (auto it = first; it != last; ++it)
      out.push_back({it->start, StepEvent::Kind::call, static_cast<std::size_t>(it - calls_.calls.begin())});
    std::stable_sort(out.begin(), out.end(), [](const StepEvent& a, const StepEvent& b) {
      return a.time != b.time ? a.time < b.time : a.kind < b.kind;
    });
    return out;
  }

  // Host work since the last mark, which moves here.
  Nanoseconds elapsed(Nanoseconds now) {
    const Nanoseconds out = std::max(Nanoseconds{}, now - last_ - excess_);
    last_ = now;
    excess_ = {};
    clock_ += out;
    return out;
  }

  void close_segment() {
    if (!out_.segments.empty()) out_.segments.back().length = clock_;
    clock_ = {};
  }

  void on_hook(const HookPlace& place) {
    StepSegment segment;
    segment.hook = place.hook;
    segment.unit = place.unit;
    if (place.hook == Hook::backward_begin) pass_ = Pass::backward;
    if (place.hook == Hook::backward_end) pass_ = Pass::forward;
    // Inside a section the clock is the section's; no hook of PyTorch 2.11 lies there.
    if (open_ == kNone) {
      segment.hook_host_before = user_host_ + elapsed(place.time);
      user_host_ = {};
    }
    close_segment();
    out_.segments.push_back(std::move(segment));
  }

  void start_section(std::size_t index) {
    if (open_ != kNone || out_.segments.empty()) return;  // one inside another belongs to the outer
    user_host_ += elapsed(sections_[index].start);
    const SectionSpan& span = sections_[index];
    section_ = {span.section, span.unit, span.section == Section::optimizer ? Pass::forward : pass_, {}, {}};
    open_ = index;
  }

  void end_section(std::size_t index) {
    if (open_ != index) return;
    open_ = kNone;
    const Nanoseconds since = elapsed(sections_[index].end);
    section_.host_after = std::exchange(section_carry_, {}) + (trace_ended_ ? Nanoseconds{} : since);
    // An optimizer on the CPU (offload) launches nothing: its section is its host time.
    if (!section_.items.empty() || section_.section == Section::optimizer) {
      out_.segments.back().sections.push_back(std::move(section_));
    } else {
      user_host_ += section_.host_after;
    }
  }

  void on_call(const TraceCall& call) {
    if (out_.segments.empty()) return;
    Nanoseconds host = elapsed(call.start);
    std::vector<StepItem>& items = open_ != kNone ? section_.items : out_.segments.back().items;
    if (open_ == kNone) {
      host += user_host_;
      user_host_ = {};
    }
    if (call.synchronize) {
      last_ = call.end;
      if (open_ != kNone) {
        out_.lost_waits += call.ends_trace ? 0 : 1;
        trace_ended_ = &call == &calls_.calls.back();  // what follows is the profiler's
        section_carry_ += host;
      } else {
        items.push_back({StepItem::kSynchronize, host, clock_});
      }
      return;
    }
    if (open_ != kNone) host += std::exchange(section_carry_, {});
    const Nanoseconds length = call.end - call.start;
    if (length > kBlockedLaunch) excess_ = length - kFreeLaunch;
    bool placed = false;
    for (std::uint32_t i = 0; i < call.op_count; ++i) {
      const std::uint32_t op = calls_.op_order[call.first_op + i];
      if (open_ == kNone && is_users_collective(op) && !is_priced_collective(run_.device_ops[op], groups_)) {
        ++out_.user_collectives;
        continue;
      }
      items.push_back({op, placed ? Nanoseconds{} : host, clock_});
      placed = true;
    }
    if (!placed) user_host_ += host;
  }

  [[nodiscard]] bool is_users_collective(std::uint32_t op) const {
    const DeviceOpRecord& record = run_.device_ops[op];
    const std::string& name = run_.labels.text(record.label);
    return record.kind == DeviceOpRecord::Kind::collective || is_nccl_kernel(name) || is_peer_copy(name);
  }

  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  const Run& run_;
  const TraceCalls& calls_;
  const Hooks& hooks_;
  const StepPlaces& step_;
  std::span<const ProcessGroup> groups_;
  std::vector<SectionSpan> sections_;
  StepCalls out_;
  StepSection section_;
  std::size_t open_ = kNone;
  Pass pass_ = Pass::forward;
  Nanoseconds last_;
  Nanoseconds excess_;
  Nanoseconds user_host_;
  Nanoseconds section_carry_;  // host work before synchronisations in the open section, which are left out
  bool trace_ended_ = false;
  Nanoseconds clock_;  // host time since the last hook
};

}  // namespace

bool is_priced_collective(const DeviceOpRecord& op, std::span<const ProcessGroup> groups) {
  return op.kind == DeviceOpRecord::Kind::collective && op.bytes > 0 && op.communicator.valid() &&
         op.communicator.value < groups.size() && groups[op.communicator.value].ranks > 1;
}

StepCalls cut_step(const Run& run, const TraceCalls& calls, std::span<const SectionSpan> sections, const Hooks& hooks,
                   const StepPlaces& step, std::span<const ProcessGroup> groups) {
  return StepCutter(run, calls, sections, hooks, step, groups).run();
}

}  // namespace foreshard::traces
