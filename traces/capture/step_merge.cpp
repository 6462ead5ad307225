#include "traces/capture/step_merge.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <utility>

#include "core/fsdp/recorded_streams.hpp"
#include "core/kernel/kernel_name.hpp"
#include "traces/capture/section_role.hpp"
#include "traces/capture/stream_waits.hpp"

namespace foreshard::traces {
namespace {

using Signature = std::vector<std::uint32_t>;

void append_items(Signature& out, const Run& run, const std::vector<StepItem>& items) {
  out.push_back(static_cast<std::uint32_t>(items.size()));
  for (const StepItem& item : items) {
    const bool wait = item.op == StepItem::kSynchronize;
    out.push_back(wait ? StepItem::kSynchronize : run.device_ops[item.op].label.value);
    out.push_back(wait ? 0 : run.device_ops[item.op].stream.value);
  }
}

Signature signature(const Run& run, const StepCalls& step) {
  Signature out;
  for (std::size_t i = 0; i < step.segments.size(); ++i) {
    const StepSegment& segment = step.segments[i];
    out.push_back(static_cast<std::uint32_t>(segment.hook));
    out.push_back(segment.unit.value);
    for (const StepSection& section : segment.sections) {
      out.push_back(static_cast<std::uint32_t>(section.section));
      out.push_back(section.unit.value);
      append_items(out, run, section.items);
    }
    if (i + 1 < step.segments.size()) append_items(out, run, segment.items);
  }
  return out;
}

// The same item, interval or op of each of the merged steps.
class Merge {
 public:
  Merge(const Run& run, std::span<const StepCalls> steps, const std::vector<bool>& followed,
        std::span<const FreedOp> freed, StreamId compute, std::span<const ProcessGroup> groups,
        const StepTiming* before)
      : run_(run), steps_(steps), followed_(followed), freed_(freed), compute_(compute), groups_(groups) {
    if (before != nullptr) {
      out_.labels = before->labels;
      out_.process_groups = before->process_groups;
      out_.streams = before->streams;
    }
    for (const StepCalls& step : steps) {
      out_.indices.push_back(step.index);
      for (const StepSegment& segment : step.segments) note_communicators(segment);
    }
  }

  StepTiming run() {
    std::vector<const StepCalls*> all;
    for (const StepCalls& step : steps_) all.push_back(&step);
    const std::size_t full = steps_[0].segments.size() - 1;
    if (full > 0) waits_ = find_stream_waits(run_, all, 0, full, compute_);
    for (std::size_t s = 0; s < steps_[0].segments.size(); ++s) {
      const StepSegment& first = steps_[0].segments[s];
      TimedSegment segment;
      segment.hook = first.hook;
      segment.unit = first.unit;
      segment.hook_host_before = least([&](const StepCalls& step) { return step.segments[s].hook_host_before; });
      out_.host_total += segment.hook_host_before;
      for (std::size_t k = 0; k < first.sections.size(); ++k) segment.sections_host += add_section(s, k);
      const bool last = s + 1 == steps_[0].segments.size();
      if (!last) {
        for (std::size_t i = 0; i < first.items.size(); ++i) {
          std::vector<const StepItem*> same;
          for (const StepCalls& step : steps_) same.push_back(&step.segments[s].items[i]);
          add_item(timed_item(same, s), {s, i}, segment.items);
        }
        add_waits({s, first.items.size()}, 1, segment.items);
      }
      out_.segments.push_back(std::move(segment));
    }
    add_tail();
    return std::move(out_);
  }

 private:
  template <class Get>
  Nanoseconds least(const Get& get) const {
    Nanoseconds out = get(steps_[0]);
    for (const StepCalls& step : steps_) out = std::min(out, get(step));
    return out;
  }

  // Mean or least of the work of one op in all steps.
  [[nodiscard]] Nanoseconds work(const std::vector<const StepItem*>& same, bool mean) const {
    std::int64_t sum = 0;
    Nanoseconds smallest = freed_[same[0]->op].work;
    for (const StepItem* item : same) {
      sum += freed_[item->op].work.count;
      smallest = std::min(smallest, freed_[item->op].work);
    }
    if (!mean) return smallest;
    return Nanoseconds::from_double(static_cast<double>(sum) / static_cast<double>(same.size()));
  }

  /// Experts get other tokens in every step.
  [[nodiscard]] Bytes mean_bytes(const std::vector<const StepItem*>& same) const {
    const Bytes least = std::accumulate(
        same.begin(), same.end(), run_.device_ops[same[0]->op].bytes,
        [this](Bytes so_far, const StepItem* item) { return std::min(so_far, run_.device_ops[item->op].bytes); });
    Bytes more = 0;
    for (const StepItem* item : same) more += (run_.device_ops[item->op].bytes - least) / same.size();
    return least + more;
  }

  static Nanoseconds least_host(const std::vector<const StepItem*>& same) {
    Nanoseconds out = same[0]->host_before;
    for (const StepItem* item : same) out = std::min(out, item->host_before);
    return out;
  }

  LabelId label(const DeviceOpRecord& op) { return out_.labels.intern(run_.labels.text(op.label)); }

  std::uint8_t user_stream(StreamId stream) {
    if (stream == compute_) return 0;
    const auto place =
        static_cast<std::size_t>(std::find(out_.streams.begin(), out_.streams.end(), stream) - out_.streams.begin());
    if (place == out_.streams.size()) out_.streams.push_back(stream);
    return static_cast<std::uint8_t>(std::min<std::size_t>(place + 1, kFirstFsdpStream - 1));
  }

  /// An item behind the waits of the compute stream that come before it.
  void add_item(TimedItem item, ItemPlace place, std::vector<TimedItem>& out) {
    add_waits(place, item.position, out);
    out.push_back(std::move(item));
  }

  void add_waits(ItemPlace place, double position, std::vector<TimedItem>& out) {
    const auto found = waits_.find(place);
    if (found == waits_.end()) return;
    for (const auto& [stream, behind] : found->second) {
      TimedItem wait;
      wait.collectives_behind = behind;
      wait.kind = OpKind::wait_stream;
      wait.user_stream = user_stream(stream);
      wait.position = position;
      out.push_back(wait);
    }
  }

  void note_communicators(const StepSegment& segment) {
    for (const StepSection& section : segment.sections)
      for (const StepItem& item : section.items)
        if (item.op != StepItem::kSynchronize &&
            run_.device_ops[item.op].collective == CollectiveKind::reduce_scatter &&
            run_.device_ops[item.op].kind == DeviceOpRecord::Kind::collective)
          of_shards_.insert(run_.device_ops[item.op].communicator);
  }

  /// The program's group of a communicator, by first appearance.
  std::uint32_t process_group(CommunicatorId communicator) {
    ProcessGroup group = groups_[communicator.value];
    group.of_shards = of_shards_.contains(communicator);
    const auto found = std::find(out_.process_groups.begin(), out_.process_groups.end(), group);
    if (found == out_.process_groups.end()) out_.process_groups.push_back(group);
    return static_cast<std::uint32_t>(std::find(out_.process_groups.begin(), out_.process_groups.end(), group) -
                                      out_.process_groups.begin());
  }

  TimedItem timed_item(const std::vector<const StepItem*>& same, std::size_t segment) {
    TimedItem out;
    out.host_before = least_host(same);
    out_.host_total += out.host_before;
    for (std::size_t k = 0; k < same.size(); ++k) {
      const Nanoseconds length = steps_[k].segments[segment].length;
      if (length <= Nanoseconds{}) continue;
      out.position +=
          static_cast<double>(same[k]->at.count) / static_cast<double>(length.count) / static_cast<double>(same.size());
    }
    out.position = std::min(out.position, 1.0);
    if (same[0]->op == StepItem::kSynchronize) {
      out.kind = OpKind::synchronize;
      return out;
    }
    const DeviceOpRecord& op = run_.device_ops[same[0]->op];
    out.user_stream = user_stream(op.stream);
    if (is_priced_collective(op, groups_)) {
      out.kind = OpKind::collective;
      out.collective = {process_group(op.communicator), op.collective, mean_bytes(same)};
      out.label = label(op);
      return out;
    }
    if (op.kind == DeviceOpRecord::Kind::copy) {
      out.kind = OpKind::copy;
      out.copy = {copy_kind(run_.labels.text(op.label)), op.bytes, work(same, true), label(op)};
      return out;
    }
    const FreedOp& freed = freed_[same[0]->op];
    out.kernel.kernel_class = freed.kernel_class;
    out.kernel.work = work(same, true);
    out.kernel.ring_slowdown = freed.ring_slowdown;
    out.kernel.label = label(op);
    out.blocks = std::uint64_t{op.grid[0]} * op.grid[1] * op.grid[2];
    return out;
  }

  /// Returns the section's host work.
  Nanoseconds add_section(std::size_t segment, std::size_t index) {
    const StepSection& first = steps_[0].segments[segment].sections[index];
    const std::vector<SectionRole> roles = roles_of(run_, first);
    SectionCost cost;
    cost.section = first.section;
    cost.unit = first.unit;
    cost.pass = first.pass;
    cost.host_after = least([&](const StepCalls& step) { return step.segments[segment].sections[index].host_after; });
    const Nanoseconds before = out_.host_total;
    out_.host_total += cost.host_after;
    Signature shape{static_cast<std::uint32_t>(cost.section), cost.unit.value, static_cast<std::uint32_t>(cost.pass)};
    for (std::size_t i = 0; i < first.items.size(); ++i) {
      std::vector<const StepItem*> same;
      for (const StepCalls& step : steps_) same.push_back(&step.segments[segment].sections[index].items[i]);
      cost.items.push_back(section_item(same, roles[i], first.section == Section::optimizer));
      out_.host_total += cost.items.back().host_before;
      shape.push_back(static_cast<std::uint32_t>(roles[i]));
      shape.push_back(cost.items.back().label.value);
    }
    // Later microbatches repeat their sections; of each shape the first counts.
    if (shapes_.insert(std::move(shape)).second) out_.sections.push_back(std::move(cost));
    return out_.host_total - before;
  }

  SectionItem section_item(const std::vector<const StepItem*>& same, SectionRole role, bool mean) {
    const DeviceOpRecord& op = run_.device_ops[same[0]->op];
    SectionItem out;
    out.role = role;
    out.host_before = least_host(same);
    out.kernel_class = freed_[same[0]->op].kernel_class;
    out.label = label(op);
    if (role == SectionRole::collective || role == SectionRole::all_reduce) return out;
    out.work = work(same, mean);
    if (op.kind == DeviceOpRecord::Kind::copy) out.bytes = op.bytes;
    return out;
  }

  void add_tail() {
    const StepCalls* with_tail = nullptr;
    Nanoseconds tail;
    for (std::size_t i = 0; i < steps_.size(); ++i) {
      if (!followed_[i]) continue;
      tail = with_tail == nullptr ? steps_[i].host_after : std::min(tail, steps_[i].host_after);
      if (with_tail == nullptr) with_tail = &steps_[i];
    }
    if (with_tail == nullptr) return;
    const std::size_t last = steps_[0].segments.size() - 1;
    const std::vector<StepItem>& items = with_tail->segments[last].items;
    waits_ = find_stream_waits(run_, std::span(&with_tail, 1), last, last + 1, compute_);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const StepItem& item = items[i];
      const std::size_t which = static_cast<std::size_t>(with_tail - steps_.data());
      TimedItem timed = timed_item({&item}, last);
      const Nanoseconds length = steps_[which].segments[last].length;
      timed.position =
          length > Nanoseconds{} ? static_cast<double>(item.at.count) / static_cast<double>(length.count) : 0;
      add_item(std::move(timed), {last, i}, out_.segments[last].items);
    }
    add_waits({last, items.size()}, 1, out_.segments[last].items);
    out_.segments[0].hook_host_before += tail;
    out_.host_total += tail;
  }

  const Run& run_;
  std::span<const StepCalls> steps_;
  const std::vector<bool>& followed_;
  std::span<const FreedOp> freed_;
  StreamId compute_;
  std::span<const ProcessGroup> groups_;
  StreamWaits waits_;  // of the segments being merged
  StepTiming out_;
  std::set<Signature> shapes_;
  std::set<CommunicatorId> of_shards_;  // FSDP2 scatters over them
};

}  // namespace

std::vector<std::size_t> equal_steps(const Run& run, std::span<const StepCalls> steps) {
  std::map<Signature, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < steps.size(); ++i) groups[signature(run, steps[i])].push_back(i);
  std::vector<std::size_t> best;
  for (const auto& [unused, group] : groups) {
    if (group.size() > best.size() || (group.size() == best.size() && group.back() > best.back())) best = group;
  }
  return best;
}

std::vector<std::vector<std::size_t>> steps_by_size(const Run& run, std::span<const StepCalls> steps) {
  std::vector<std::vector<std::size_t>> out;
  std::map<Signature, std::size_t> kinds;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    Signature kind = signature(run, steps[i]);
    for (std::size_t s = 0; s + 1 < steps[i].segments.size(); ++s)
      for (const StepItem& item : steps[i].segments[s].items)
        if (item.op != StepItem::kSynchronize)
          for (const std::uint32_t size : run.device_ops[item.op].grid) kind.push_back(size);
    const auto [place, fresh] = kinds.emplace(std::move(kind), out.size());
    if (fresh) out.emplace_back();
    out[place->second].push_back(i);
  }
  if (out.size() < 2) out.clear();
  return out;
}

StreamId compute_stream(const Run& run, std::span<const StepCalls> steps) {
  std::map<StreamId, std::uint64_t> ops;
  for (const StepCalls& step : steps) {
    for (const StepSegment& segment : step.segments) {
      for (const StepItem& item : segment.items)
        if (item.op != StepItem::kSynchronize) ++ops[run.device_ops[item.op].stream];
    }
  }
  StreamId best = kComputeStream;
  std::uint64_t most = 0;
  for (const auto& [stream, count] : ops) {
    if (count > most) {
      best = stream;
      most = count;
    }
  }
  return best;
}

std::vector<SectionRole> roles_of(const Run& run, const StepSection& section) {
  std::vector<SectionOp> ops;
  for (const StepItem& item : section.items) {
    const DeviceOpRecord& op = run.device_ops[item.op];
    ops.push_back({run.labels.text(op.label), op.kind});
  }
  bool casts = false;
  if (section.unit.value < run.units.size()) {
    const std::vector<Parameter>& parameters = run.units[section.unit.value].parameters;
    casts = run.settings.param_dtype && !run.settings.offload && !parameters.empty() &&
            *run.settings.param_dtype != parameters[0].dtype;
  }
  return section_roles(section.section, ops, casts);
}

StepTiming merge_steps(const Run& run, std::span<const StepCalls> steps, const std::vector<bool>& followed,
                       std::span<const FreedOp> freed, StreamId compute, std::span<const ProcessGroup> groups,
                       const StepTiming* before) {
  return Merge(run, steps, followed, freed, compute, groups, before).run();
}

}  // namespace foreshard::traces
