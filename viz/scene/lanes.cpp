#include "viz/scene/lanes.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/run/run_names.hpp"
#include "core/settings/settings_table.hpp"
#include "viz/scene/op_facts.hpp"
#include "viz/scene/svg_writer.hpp"

namespace foreshard::viz {
namespace {

/// A class with less of a bar's time is not seen in it.
constexpr double kLeastShare = 0.1;

/// One op before it is drawn or merged. `title` is made only for ops that stay alone.
struct Item {
  Nanoseconds start;
  Nanoseconds end;
  OpClass op_class;
  bool other_step;
  std::size_t record;  ///< index of its record
};

/// Neighbours that become one bar.
struct OpenBar {
  std::vector<std::size_t> items;
  Nanoseconds start;
  Nanoseconds end;
  std::array<std::int64_t, kOpClasses> time{};
  std::array<std::uint64_t, kOpClasses> count{};
  bool small = false;
};

bool is_small(const Item& item, Nanoseconds pixel) {
  return (item.end - item.start) < pixel;
}

OpClass most_time(const std::array<std::int64_t, kOpClasses>& time) {
  return static_cast<OpClass>(std::max_element(time.begin(), time.end()) - time.begin());
}

std::string span_text(Nanoseconds start, Nanoseconds end) {
  return fmt::format("start {:.3f} ms, {:.3f} ms", start.ms(), (end - start).ms());
}

/// "7 ops: 4 GEMM, 3 copy".
std::string counts_text(const std::array<std::uint64_t, kOpClasses>& count) {
  std::uint64_t all = 0;
  std::string parts;
  for (std::size_t k = 0; k < kOpClasses; ++k) {
    all += count[k];
    if (count[k] > 0)
      parts += fmt::format("{}{} {}", parts.empty() ? "" : ", ", count[k], style(static_cast<OpClass>(k)).title);
  }
  return fmt::format("{} ops: {}", all, parts);
}

/// Merges the items of one lane, which are by start. `describe` gives title and label of a lone one.
template <class Describe>
std::vector<Bar> merged(const std::vector<Item>& items, Nanoseconds pixel, Describe&& describe) {
  std::vector<Bar> bars;
  OpenBar open;
  const auto close = [&] {
    if (open.items.empty()) return;
    const Item& first = items[open.items.front()];
    Bar bar{open.start, open.end, first.op_class, first.other_step, open.items.size(), {}, {}, {}};
    if (open.items.size() == 1) {
      std::tie(bar.title, bar.label) = describe(first);
    } else {
      bar.op_class = most_time(open.time);
      std::int64_t busy = 0;
      for (const std::int64_t t : open.time) busy += t;
      for (std::size_t k = 0; k < kOpClasses; ++k)
        if (const double share = static_cast<double>(open.time[k]) / static_cast<double>(busy);
            share >= kLeastShare && static_cast<OpClass>(k) != bar.op_class)
          bar.others.emplace_back(static_cast<OpClass>(k), share);
      bar.title = fmt::format("{}, {}, busy {:.3f} ms", counts_text(open.count), span_text(open.start, open.end),
                              static_cast<double>(busy) / 1e6);
    }
    bars.push_back(std::move(bar));
    open = {};
  };
  const Nanoseconds half{std::max<std::int64_t>(pixel.count / 2, 1)};
  const Nanoseconds two = pixel + pixel;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const Item& item = items[i];
    const bool joins = !open.items.empty() && open.small && is_small(item, pixel) && item.start - open.end < half &&
                       items[open.items.front()].other_step == item.other_step &&
                       (item.op_class == items[open.items.back()].op_class || open.end - open.start < two);
    if (!joins) {
      close();
      open.start = item.start;
      open.end = item.end;
      open.small = is_small(item, pixel);
    }
    open.items.push_back(i);
    open.end = std::max(open.end, item.end);
    ++open.count[static_cast<std::size_t>(item.op_class)];
    open.time[static_cast<std::size_t>(item.op_class)] += (item.end - item.start).count + 1;
  }
  close();
  return bars;
}

class LaneReader {
 public:
  LaneReader(const Run& run, const Side& side, const Window& window, Nanoseconds pixel)
      : run_(run), side_(side), window_(window), pixel_(pixel), facts_(run) {}

  std::vector<Lane> read() {
    std::vector<Lane> lanes;
    if (Lane host = host_lane(); !host.bars.empty()) lanes.push_back(std::move(host));
    std::map<std::pair<OpFacts::Stream, StreamId>, std::vector<Item>> by_stream;
    for (std::size_t i = 0; i < run_.device_ops.size(); ++i) {
      const DeviceOpRecord& op = run_.device_ops[i];
      if (!inside(op.start, op.end)) continue;
      by_stream[{facts_.stream(op.stream), op.stream}].push_back(
          {op.start - side_.origin, op.end - side_.origin, facts_.op_class(op), elsewhere(op.issue), i});
    }
    for (auto& [key, items] : by_stream) {
      std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.start < b.start; });
      lanes.push_back(
          {key.first.name, merged(items, pixel_, [this](const Item& item) { return describe(item); }), items.size()});
    }
    return lanes;
  }

 private:
  [[nodiscard]] bool inside(Nanoseconds start, Nanoseconds end) const {
    return end - side_.origin >= window_.from && start - side_.origin <= window_.to;
  }
  [[nodiscard]] bool elsewhere(Nanoseconds issue) const {
    return !side_.steps.empty() && (issue < side_.first || issue > side_.last);
  }

  std::pair<std::string, std::string> describe(const Item& item) const {
    const DeviceOpRecord& op = run_.device_ops[item.record];
    const std::string unit = facts_.unit(op);
    std::string title = fmt::format("{}, {}", facts_.name(op), span_text(item.start, item.end));
    if (!unit.empty()) title += ", " + shortened(unit, 60);
    if (op.bytes > 0) title += fmt::format(", {:.2f} MiB", static_cast<double>(op.bytes) / static_cast<double>(kMiB));
    if (op.kind == DeviceOpRecord::Kind::collective && op.transport != Transport::nccl)
      title += fmt::format(", {}", foreshard::name(op.transport));
    if (item.other_step) title += ", of another step";
    return {title, op.kind == DeviceOpRecord::Kind::collective ? unit : std::string()};
  }

  /// CUDA calls where they were recorded; else the moments at which the host put ops on streams.
  Lane host_lane() {
    std::vector<Item> items;
    for (std::size_t i = 0; i < run_.host_ops.size(); ++i) {
      const HostOpRecord& op = run_.host_ops[i];
      const bool call = op.kind == HostOpRecord::Kind::runtime || op.kind == HostOpRecord::Kind::work;
      if (!call || !inside(op.start, op.end)) continue;
      const bool waits = run_.labels.text(op.label).find("Synchronize") != std::string::npos;
      items.push_back({op.start - side_.origin, op.end - side_.origin, waits ? OpClass::host_wait : OpClass::host_issue,
                       elsewhere(op.start), i});
    }
    const bool calls = !items.empty();
    for (std::size_t i = 0; !calls && i < run_.device_ops.size(); ++i) {
      const Nanoseconds issue = run_.device_ops[i].issue;
      if (inside(issue, issue))
        items.push_back({issue - side_.origin, issue - side_.origin, OpClass::host_issue, elsewhere(issue), i});
    }
    std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) { return a.start < b.start; });
    const auto describe_host = [&](const Item& item) {
      if (!calls)
        return std::pair(
            fmt::format("issues {} at {:.3f} ms", facts_.name(run_.device_ops[item.record]), item.start.ms()),
            std::string());
      const std::string& name = run_.labels.text(run_.host_ops[item.record].label);
      return std::pair(fmt::format("{}, {}", shortened(name, 60), span_text(item.start, item.end)), std::string());
    };
    return {calls ? "host: CUDA calls" : "host: issues ops", merged(items, pixel_, describe_host), items.size()};
  }

  const Run& run_;
  const Side& side_;
  const Window& window_;
  Nanoseconds pixel_;
  OpFacts facts_;
};

/// A phase in which memory ran out has no end of its own.
Nanoseconds end_of(const PhaseRecord& phase, const Side& side) {
  const bool open = phase.end == phase.start && !side.steps.empty() && !side.steps.back().complete &&
                    phase.step == side.steps.back().index;
  return open ? side.steps.back().end : phase.end;
}

std::vector<const DeviceOpRecord*> compute_ops_by_issue(const Run& run) {
  std::vector<const DeviceOpRecord*> out;
  for (const DeviceOpRecord& op : run.device_ops)
    if (op.stream == kComputeStream) out.push_back(&op);
  std::stable_sort(out.begin(), out.end(),
                   [](const DeviceOpRecord* a, const DeviceOpRecord* b) { return a->issue < b->issue; });
  return out;
}

bool shown(const Stretch& stretch, const Window& window) {
  return stretch.end > window.from && stretch.start < window.to && stretch.end > stretch.start;
}

}  // namespace

std::vector<Lane> read_lanes(const Run& run, const Side& side, const Window& window, Nanoseconds pixel) {
  return LaneReader(run, side, window, pixel).read();
}

std::vector<Stretch> host_phases(const Run& run, const Side& side, const Window& window) {
  std::vector<Stretch> out;
  for (const PhaseRecord& phase : run.phases) {
    if (phase.recording != side.recording) continue;
    Stretch stretch{phase.name, side.place(phase.start), side.place(end_of(phase, side)),
                    phase.start < side.first || phase.start > side.last, phase.step};
    if (shown(stretch, window)) out.push_back(std::move(stretch));
  }
  return out;
}

std::vector<Stretch> device_phases(const Run& run, const Side& side, const Window& window) {
  const std::vector<const DeviceOpRecord*> ops = compute_ops_by_issue(run);
  const auto from = [&](Nanoseconds time) {
    return std::partition_point(ops.begin(), ops.end(), [&](const DeviceOpRecord* op) { return op->issue < time; });
  };
  std::vector<Stretch> out;
  for (const PhaseRecord& phase : run.phases) {
    if (phase.recording != side.recording) continue;
    const auto first = from(phase.start), last = from(end_of(phase, side));
    if (first >= last) continue;
    Stretch stretch{phase.name, (*first)->start, (*first)->end, phase.start < side.first || phase.start > side.last,
                    phase.step};
    for (auto op = first; op != last; ++op) {
      stretch.start = std::min(stretch.start, (*op)->start);
      stretch.end = std::max(stretch.end, (*op)->end);
    }
    stretch.start = stretch.start - side.origin;
    stretch.end = stretch.end - side.origin;
    if (shown(stretch, window)) out.push_back(std::move(stretch));
  }
  return out;
}

}  // namespace foreshard::viz
