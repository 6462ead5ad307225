#include "core/compare/step_breakdown.hpp"

#include <algorithm>

#include "core/compare/isolated_durations.hpp"

namespace foreshard {
namespace {

using Span = std::pair<Nanoseconds, Nanoseconds>;
using Spans = std::vector<Span>;

/// The part of [from, to) that sorted, separate spans cover.
Nanoseconds covered(const Spans& spans, Nanoseconds from, Nanoseconds to) {
  Nanoseconds sum;
  auto it = std::upper_bound(spans.begin(), spans.end(), from,
                             [](Nanoseconds time, const Span& span) { return time < span.second; });
  for (; it != spans.end() && it->first < to; ++it) sum += std::min(it->second, to) - std::max(it->first, from);
  return sum;
}

bool on_compute(const DeviceOpRecord& op) {
  return op.stream == kComputeStream && op.kind != DeviceOpRecord::Kind::collective;
}

Spans united(Spans spans) {
  std::sort(spans.begin(), spans.end());
  Spans out;
  for (const Span& span : spans) {
    if (!out.empty() && span.first <= out.back().second)
      out.back().second = std::max(out.back().second, span.second);
    else
      out.push_back(span);
  }
  return out;
}

/// When streams other than the compute stream work, when collectives run on any of them, and when their ops end.
struct OtherStreams {
  explicit OtherStreams(const Run& run) {
    for (const DeviceOpRecord& op : run.device_ops) {
      if (op.stream == kComputeStream || op.end <= op.start) continue;
      busy.emplace_back(op.start, op.end);
      if (op.kind == DeviceOpRecord::Kind::collective) collectives.emplace_back(op.start, op.end);
      ends.push_back(op.end);
    }
    std::sort(ends.begin(), ends.end());
    busy = united(std::move(busy));
    collectives = united(std::move(collectives));
  }
  /// The last end in (from, to]; `from` where there is none.
  [[nodiscard]] Nanoseconds last_end(Nanoseconds from, Nanoseconds to) const {
    const auto after = std::upper_bound(ends.begin(), ends.end(), to);
    return after == ends.begin() || *std::prev(after) <= from ? from : *std::prev(after);
  }

  Spans busy;
  Spans collectives;
  std::vector<Nanoseconds> ends;
};

class Splitter {
 public:
  Splitter(const Run& run, const Places& places, TimedStep& step)
      : run_(run), places_(places), step_(step), others_(run), waits_(allocator_waits(run, step.recording)) {
    find_compute_ops();
    isolated_ = isolated_durations(run, compute_);
  }

  StepBreakdown split() {
    Nanoseconds at = step_.begin;
    std::size_t next_isolated = 0;
    for (const std::size_t index : order_) {
      const DeviceOpRecord& op = run_.device_ops[index];
      const Nanoseconds start = std::max(at, op.start);
      const Nanoseconds end = std::max(start, std::min(op.end, step_.end));
      const std::string& phase = places_.phase(op);
      gap(op, phase, at, start);
      if (on_compute(op)) {
        while (compute_[next_isolated].index != index) ++next_isolated;
        work(compute_[next_isolated], isolated_[next_isolated], phase, end - start);
      } else {
        add(phase, TimeCause::communication, end - start);  // a collective on the compute stream itself
      }
      at = end;
    }
    add({}, TimeCause::host, step_.end - at);
    return std::move(breakdown_);
  }

 private:
  /// All steps' ops serve as twins; those inside the step, by start, make up its time.
  void find_compute_ops() {
    std::vector<std::size_t> all;
    for (std::size_t i = 0; i < run_.device_ops.size(); ++i)
      if (run_.device_ops[i].stream == kComputeStream) all.push_back(i);
    std::stable_sort(all.begin(), all.end(), [this](std::size_t a, std::size_t b) {
      return run_.device_ops[a].start < run_.device_ops[b].start;
    });
    for (const std::size_t index : all) {
      const DeviceOpRecord& op = run_.device_ops[index];
      if (op.start >= step_.begin && op.start < step_.end) order_.push_back(index);
      if (on_compute(op)) compute_.push_back({index, op.start, op.end, covered(others_.collectives, op.start, op.end)});
    }
  }

  /// The compute stream is idle in [from, to), then runs `next`.
  ///
  /// Until the host issued `next` the host is late. From then on `next` waits for what it depends on: only work that
  /// ended before it began can be that, so other streams' work counts up to the last such end. The rest is on its way.
  void gap(const DeviceOpRecord& next, const std::string& phase, Nanoseconds from, Nanoseconds to) {
    if (to <= from) return;
    const bool issue_known = next.issue < next.start;
    const Nanoseconds issued = issue_known ? std::clamp(next.issue, from, to) : from;
    const Nanoseconds held = covered(waits_, from, issued);
    const Nanoseconds waited = covered(others_.busy, issued, others_.last_end(issued, to));
    add(phase, TimeCause::allocator, held);
    add(phase, TimeCause::communication, waited);
    add(phase, TimeCause::host, to - from - held - waited);
  }

  void work(const ComputeOp& op, const std::optional<Nanoseconds>& isolated, const std::string& phase,
            Nanoseconds length) {
    Nanoseconds slower;
    if (!op.ran_isolated()) {
      if (isolated)
        slower = std::clamp(op.length() - *isolated, Nanoseconds{0}, std::min(op.overlapped, length));
      else
        step_.contention_unknown += std::min(op.overlapped, length);
    }
    add(phase, TimeCause::contention, slower);
    add(phase, TimeCause::compute, length - slower);
  }

  void add(const std::string& phase, TimeCause cause, Nanoseconds time) {
    if (time.count != 0) breakdown_[{phase, cause}] += time;
  }

  const Run& run_;
  const Places& places_;
  TimedStep& step_;
  OtherStreams others_;
  Spans waits_;
  std::vector<std::size_t> order_;
  std::vector<ComputeOp> compute_;
  std::vector<std::optional<Nanoseconds>> isolated_;
  StepBreakdown breakdown_;
};

}  // namespace

StepBreakdown step_breakdown(const Run& run, const Places& places, TimedStep& step) {
  return Splitter(run, places, step).split();
}

}  // namespace foreshard
