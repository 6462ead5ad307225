#include "core/run/op_dependencies.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace foreshard {
namespace {

constexpr std::size_t kNoOp = OpDependencies::kNoOp;

class Resolver {
 public:
  explicit Resolver(const Run& run) : run_(run), place_(run.device_ops.size()) {}

  /// Both lists in the host's order. At one moment a launch comes before a record of its own stream and after a wait,
  /// but events stay in their own order.
  std::vector<OpDependencies> resolve(std::vector<std::size_t> ops, std::vector<std::size_t> events) {
    std::erase_if(events, [this](std::size_t event) {
      return !run_.events[event].stream.valid() || run_.events[event].kind == EventRecord::Kind::host_wait;
    });
    std::sort(ops.begin(), ops.end());
    std::sort(events.begin(), events.end());
    std::stable_sort(ops.begin(), ops.end(), [this](std::size_t a, std::size_t b) {
      return run_.device_ops[a].issue < run_.device_ops[b].issue;
    });
    std::stable_sort(events.begin(), events.end(),
                     [this](std::size_t a, std::size_t b) { return run_.events[a].time < run_.events[b].time; });
    std::size_t op = 0;
    for (const std::size_t index : events) {
      const EventRecord& event = run_.events[index];
      while (op < ops.size() && run_.device_ops[ops[op]].issue < event.time) launch(ops[op++]);
      if (event.kind == EventRecord::Kind::record)
        for (std::size_t end = last_at(ops, op, event); op < end;) launch(ops[op++]);
      note(event);
    }
    for (; op < ops.size(); ++op) launch(ops[op]);
    std::sort(out_.begin(), out_.end(), [](const auto& a, const auto& b) { return a.op < b.op; });
    return std::move(out_);
  }

 private:
  /// Behind the last of `ops`, from `begin` on, that the host launched on the event's stream at its very moment;
  /// `begin`: none.
  [[nodiscard]] std::size_t last_at(const std::vector<std::size_t>& ops, std::size_t begin,
                                    const EventRecord& event) const {
    std::size_t end = begin;
    for (std::size_t i = begin; i < ops.size() && run_.device_ops[ops[i]].issue == event.time; ++i)
      if (run_.device_ops[ops[i]].stream == event.stream) end = i + 1;
    return end;
  }

  struct Stream {
    std::size_t last = kNoOp;
    std::size_t ops = 0;
    std::set<std::size_t> waits;  // of the next op
    std::map<StreamId, std::size_t> waited;
  };

  void launch(std::size_t index) {
    const DeviceOpRecord& op = run_.device_ops[index];
    Stream& stream = streams_[op.stream];
    OpDependencies out{index, {}, stream.last};
    std::map<StreamId, std::size_t> latest;  // ops of a stream run in order, so the last one stands for all before it
    for (std::size_t source : stream.waits) {
      // Not yet launched when the event was recorded: the op before it on that stream is meant.
      while (source != kNoOp && run_.device_ops[source].end > op.start) source = place_[source].before;
      if (source == kNoOp || run_.device_ops[source].stream == op.stream) continue;
      const auto [at, made] = latest.emplace(run_.device_ops[source].stream, source);
      if (!made && place_[source].number > place_[at->second].number) at->second = source;
    }
    for (const auto& [of, source] : latest) {
      std::size_t& waited = stream.waited[of];  // 1 + number of the last op that this stream has waited for
      if (place_[source].number < waited) continue;
      waited = place_[source].number + 1;
      out.events.push_back(source);
    }
    std::sort(out.events.begin(), out.events.end());
    place_[index] = {stream.last, stream.ops++};
    stream.last = index;
    stream.waits.clear();
    out_.push_back(std::move(out));
  }

  void note(const EventRecord& event) {
    Stream& stream = streams_[event.stream];
    if (event.kind == EventRecord::Kind::record) {
      std::set<std::size_t>& sources = sources_[event.event];
      sources = stream.waits;
      if (stream.last != kNoOp) sources.insert(stream.last);
      return;
    }
    const auto found = sources_.find(event.event);
    if (found != sources_.end()) stream.waits.insert(found->second.begin(), found->second.end());
  }

  const Run& run_;
  std::map<StreamId, Stream> streams_;
  std::map<EventId, std::set<std::size_t>> sources_;
  /// On an op's own stream: the op before it, and how many.
  struct Place {
    std::size_t before = kNoOp;
    std::size_t number = 0;
  };
  std::vector<Place> place_;  // by op
  std::vector<OpDependencies> out_;
};

}  // namespace

std::vector<OpDependencies> op_dependencies(const Run& run, std::vector<std::size_t> ops,
                                            std::vector<std::size_t> events) {
  return Resolver(run).resolve(std::move(ops), std::move(events));
}

}  // namespace foreshard
