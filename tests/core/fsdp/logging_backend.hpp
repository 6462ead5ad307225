// A FsdpBackend that writes down what FullyShard asks of it, one line a call, and answers from a script.
//
// Memory lines: "a KIND UNIT[.PARAMETER] BYTES STREAM", "f KIND UNIT[.PARAMETER]", "f grad UNIT.PARAMETER",
// "record_stream KIND UNIT STREAM". Order lines: "record STREAM -> N", "wait STREAM N", "sync N". Work lines:
// "collective KIND UNIT COMMUNICATOR STREAM BYTES[ sum| max]". Units and parameters are numbers; a parameter's is its
// place in its unit. Behind the unit of a whole group's buffer stands "[pg=N]" where it is not the unit's first.
#pragma once

#include <fmt/format.h>

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/fsdp/fully_shard.hpp"

namespace foreshard::test {

class LoggingBackend final : public FsdpBackend {
 public:
  explicit LoggingBackend(const std::vector<UnitPlan>& plans) {
    for (const UnitPlan& plan : plans) {
      std::size_t place = 0;
      for (const ParamGroupPlan& group : plan.groups)
        for (std::size_t i = 0; i < group.parameters.size(); ++i) places_.push_back({plan.id.value, place++});
    }
    gradients_.assign(places_.size(), false);
  }

  /// Lines of memory alone.
  [[nodiscard]] const std::vector<std::string>& memory() const { return memory_; }
  /// Every line.
  [[nodiscard]] const std::vector<std::string>& all() const { return all_; }
  void clear() {
    memory_.clear();
    all_.clear();
  }

  /// Autograd's part: gradients of these parameters are there until FSDP drops them.
  void make_gradients(const UnitPlan& plan) {
    for (const ParamGroupPlan& group : plan.groups)
      for (const ParameterPlan& p : group.parameters) gradients_[p.id.value] = true;
  }
  void make_gradient(ParameterId parameter) { gradients_[parameter.value] = true; }
  void every_block_takes_a_segment(bool yes) { new_segments_ = yes; }
  [[nodiscard]] std::size_t live() const {
    std::size_t count = 0;
    for (const Live& b : buffers_) count += b.live && !b.gradient_of.valid() ? 1U : 0U;
    return count;
  }

  Allocation allocate(const BufferRequest& r) override {
    if (r.bytes == 0) return {};
    const std::string name = name_of(r);
    note(fmt::format("a {} {} {}{}", name, r.bytes, word(r.stream),
                     r.memory == MemoryKind::symmetric ? " symmetric" : ""),
         true);
    return {add({name, true, {}}), new_segments_};
  }
  void free(BufferRef buffer) override {
    if (!buffer.valid()) return;
    Live& b = buffers_.at(buffer.value);
    note(b.live ? "f " + b.name : "DOUBLE FREE " + b.name, true);
    b.live = false;
    if (b.gradient_of.valid()) gradients_.at(b.gradient_of.value) = false;
  }
  void record_stream(BufferRef buffer, StreamRole stream) override {
    if (buffer.valid()) note(fmt::format("record_stream {} {}", buffers_.at(buffer.value).name, word(stream)), true);
  }
  std::optional<BufferRef> gradient(ParameterId parameter) override {
    if (!gradients_.at(parameter.value)) return std::nullopt;
    return add({fmt::format("grad {}", place(parameter)), true, parameter});
  }

  EventId record_event(StreamRole stream) override {
    note(fmt::format("record {} -> {}", word(stream), events_), false);
    return EventId{events_++};
  }
  void wait_event(StreamRole stream, EventId event) override {
    note(event.value < events_ ? fmt::format("wait {} {}", word(stream), event.value) : "WAIT FOR NO EVENT", false);
  }
  void synchronize_event(EventId event) override { note(fmt::format("sync {}", event.value), false); }
  void begin_section(Section, ParamGroupId, Pass) override { ++open_; }
  void end_section() override { --open_; }
  void issue(const FsdpOp& op, StreamRole stream) override {
    if (open_ != 1) note("WORK OUTSIDE A SECTION", false);
    std::visit([&](const auto& o) { note_op(o, stream); }, op);
  }

  static std::string_view word(StreamRole role) {
    static constexpr std::array<std::string_view, kStreamRoles> words{"cur", "CI", "AG", "RS", "AR", "PG", "OP"};
    return words[static_cast<std::size_t>(role)];
  }

 private:
  struct Place {
    std::uint32_t unit;
    std::size_t index;
  };
  struct Live {
    std::string name;
    bool live = true;
    ParameterId gradient_of;  // of autograd's: it is there again when backward makes it anew
  };

  BufferRef add(Live buffer) {
    buffers_.push_back(std::move(buffer));
    return BufferRef{static_cast<std::uint32_t>(buffers_.size() - 1)};
  }
  [[nodiscard]] bool readable(BufferRef buffer) const { return !buffer.valid() || buffers_.at(buffer.value).live; }
  /// What an op reads and writes must not have been freed.
  void need(std::initializer_list<BufferRef> operands) {
    for (const BufferRef buffer : operands)
      if (!readable(buffer)) note("OP ON FREED " + buffers_.at(buffer.value).name, true);
  }
  void need(const std::vector<BufferRef>& operands) {
    for (const BufferRef buffer : operands) need({buffer});
  }
  void note_collective(std::string_view kind, ParamGroupId group, CommunicatorRole over, const CollectiveWork& work,
                       StreamRole stream) {
    static constexpr std::array<std::string_view, 5> groups{"shard", "replicate", "small", "scatter", "scales"};
    note(fmt::format("collective {} {} {} {} {}{}", kind, group.unit.value, groups[static_cast<std::size_t>(over)],
                     word(stream), work.bytes,
                     work.reduction == Reduction::sum       ? " sum"
                     : work.reduction == Reduction::maximum ? " max"
                                                            : ""),
         false);
  }
  void note_op(const CopyIn& op, StreamRole stream) {
    need(op.parts);
    need({op.block, op.float8.amaxes, op.float8.scales});
    if (op.kept) note(fmt::format("kernel copy_in {} {}", op.group.unit.value, word(stream)), false);
  }
  void note_op(const AllGather& op, StreamRole stream) {
    need({op.block, op.input});
    note_collective("AG", op.group, op.over, op.work, stream);
  }
  void note_op(const CopyOut& op, StreamRole stream) {
    need(op.unsharded);
    need({op.block});
    note(fmt::format("kernel split {}", word(stream)), false);
  }
  void note_op(const CopyOutShards& op, StreamRole stream) {
    need(op.unsharded);
    note(fmt::format("kernel split {}", word(stream)), false);
  }
  void note_op(const KeepPart& op, StreamRole stream) {
    need({op.unsharded, op.part});
    note(fmt::format("kernel copy {}", word(stream)), false);
  }
  void note_op(const AddGradients& op, StreamRole) {
    for (const AddGradients::Sum& sum : op.sums) need({sum.accumulated, sum.gradient});
  }
  void note_op(const CastGradient& op, StreamRole) { need({op.gradient, op.accumulated}); }
  void note_op(const ChunkCat& op, StreamRole stream) {
    for (const ChunkCat::Input& input : op.inputs) need({input.gradient});
    need({op.output});
    note(fmt::format("kernel copy {}", word(stream)), false);
  }
  void note_op(const ReduceScatter& op, StreamRole stream) {
    need({op.input, op.output});
    for (const ChunkCat::Input& input : op.gradients) need({input.gradient});
    note_collective("RS", op.group, CommunicatorRole::shard, op.work, stream);
  }
  void note_op(const CopyReduced& op, StreamRole) { need({op.input, op.output}); }
  void note_op(const AllReduce& op, StreamRole stream) {
    need({op.gradients});
    note_collective("AR", op.group, CommunicatorRole::replicate, op.work, stream);
  }
  void note_op(const CastBack& op, StreamRole) { need({op.input, op.output}); }
  void note_op(const AddReduced& op, StreamRole) { need({op.sharded_gradients, op.reduced}); }
  void note_op(const OffloadGradients& op, StreamRole) { need({op.sharded_gradients}); }
  void note_op(const StepOptimizer& op, StreamRole stream) {
    need({op.sharded_gradients});
    note(fmt::format("kernel optimizer {} {}", op.group.unit.value, word(stream)), false);
  }
  void note_op(const ShardAmaxes& op, StreamRole stream) {
    need({op.amaxes});
    note(fmt::format("kernel amaxes {} {}", op.group.unit.value, word(stream)), false);
  }
  void note_op(const ReduceAmaxes& op, StreamRole stream) {
    need({op.amaxes});
    note_collective("MAX", op.group, op.over, op.work, stream);
  }

  [[nodiscard]] std::string place(ParameterId parameter) const {
    const Place& p = places_.at(parameter.value);
    return fmt::format("{}.{}", p.unit, p.index);
  }
  [[nodiscard]] std::string name_of(const BufferRequest& r) const {
    static constexpr std::array<std::string_view, 20> kinds{"flat", "h2d", "cast", "AG",  "U",   "ms",    "clone",
                                                            "RI",   "mc",  "RO",   "out", "acc", "array", "div",
                                                            "PC",   "KI",  "FA",   "FS",  "GC",  "DC"};
    const std::string group = r.group.index > 0 ? fmt::format("[pg={}]", r.group.index) : std::string();
    const std::string where = r.parameter.valid() ? place(r.parameter) : fmt::format("{}{}", r.group.unit.value, group);
    return fmt::format("{} {}", kinds[static_cast<std::size_t>(r.buffer)], where);
  }
  void note(std::string line, bool memory) {
    if (memory) memory_.push_back(line);
    all_.push_back(std::move(line));
  }

  std::vector<Place> places_;
  std::vector<bool> gradients_;
  std::vector<Live> buffers_;
  std::vector<std::string> memory_;
  std::vector<std::string> all_;
  std::uint32_t events_ = 0;
  int open_ = 0;
  bool new_segments_ = false;
};

}  // namespace foreshard::test
