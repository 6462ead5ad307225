// An Issuer that writes down what FullyShard asks of it, one line a call, and answers from a script.
//
// Memory lines: "a KIND UNIT[.PARAMETER] BYTES STREAM", "f KIND UNIT[.PARAMETER]", "f grad UNIT.PARAMETER",
// "record_stream KIND UNIT STREAM". Order lines: "record STREAM -> N", "wait STREAM N", "sync N". Work lines:
// "collective KIND UNIT COMMUNICATOR STREAM BYTES". Units and parameters are numbers; a parameter's is its place
// in its unit.
#pragma once

#include <fmt/format.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/fsdp/fully_shard.hpp"

namespace foreshard::test {

class LoggingIssuer final : public Issuer {
 public:
  explicit LoggingIssuer(const std::vector<UnitPlan>& plans) {
    for (const UnitPlan& plan : plans)
      for (std::size_t i = 0; i < plan.parameters.size(); ++i) places_.push_back({plan.id.value, i});
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
    for (const ParameterPlan& p : plan.parameters) gradients_[p.id.value] = true;
  }
  void make_gradient(ParameterId parameter) { gradients_[parameter.value] = true; }
  void every_block_takes_a_segment(bool yes) { new_segments_ = yes; }
  [[nodiscard]] std::size_t live() const {
    std::size_t count = 0;
    for (const Live& b : buffers_) count += b.live ? 1U : 0U;
    return count;
  }

  BufferRef allocate(const BufferRequest& r) override {
    if (r.bytes == 0) return {};
    const std::string name = name_of(r);
    buffers_.push_back({name, true});
    note(fmt::format("a {} {} {}{}", name, r.bytes, word(r.stream),
                     r.memory == MemoryKind::symmetric ? " symmetric" : ""),
         true);
    return BufferRef{static_cast<std::uint32_t>(buffers_.size() - 1)};
  }
  void free(BufferRef buffer) override {
    if (!buffer.valid()) return;
    Live& b = buffers_.at(buffer.value);
    note(b.live ? "f " + b.name : "DOUBLE FREE " + b.name, true);
    b.live = false;
  }
  void record_stream(BufferRef buffer, StreamRole stream) override {
    if (buffer.valid()) note(fmt::format("record_stream {} {}", buffers_.at(buffer.value).name, word(stream)), true);
  }
  bool took_new_segment() override { return new_segments_; }
  bool has_gradient(ParameterId parameter) override { return gradients_.at(parameter.value); }
  void free_gradient(ParameterId parameter, Bytes) override {
    const bool there = gradients_.at(parameter.value);
    gradients_[parameter.value] = false;
    note(fmt::format("{}f grad {}", there ? "" : "DOUBLE ", place(parameter)), true);
  }

  EventId record_event(StreamRole stream) override {
    note(fmt::format("record {} -> {}", word(stream), events_), false);
    return EventId{events_++};
  }
  void wait_event(StreamRole stream, EventId event) override {
    note(event.value < events_ ? fmt::format("wait {} {}", word(stream), event.value) : "WAIT FOR NO EVENT", false);
  }
  void synchronize_event(EventId event) override { note(fmt::format("sync {}", event.value), false); }
  void begin_section(Section, UnitId, Pass) override { ++open_; }
  void end_section() override { --open_; }
  void issue(SectionRole role, StreamRole stream) override {
    if (open_ != 1) note("WORK OUTSIDE A SECTION", false);
    if (role == SectionRole::split || role == SectionRole::chunk_cat || role == SectionRole::clone)
      note(fmt::format("kernel {} {}", role == SectionRole::split ? "split" : "copy", word(stream)), false);
  }
  void issue_collective(StreamRole stream, CommunicatorRole communicator, UnitId unit,
                        const CollectiveWork& work) override {
    static constexpr std::array<std::string_view, 3> kinds{"AG", "RS", "AR"};
    static constexpr std::array<std::string_view, 3> groups{"shard", "replicate", "small"};
    note(fmt::format("collective {} {} {} {} {}", kinds[static_cast<std::size_t>(work.kind)], unit.value,
                     groups[static_cast<std::size_t>(communicator)], word(stream), work.bytes),
         false);
  }

  static std::string_view word(StreamRole role) {
    static constexpr std::array<std::string_view, kStreamRoles> words{"cur", "CI", "AG", "RS", "AR", "PG"};
    return words[static_cast<std::size_t>(role)];
  }

 private:
  struct Place {
    std::uint32_t unit;
    std::size_t index;
  };
  struct Live {
    std::string name;
    bool live;
  };

  [[nodiscard]] std::string place(ParameterId parameter) const {
    const Place& p = places_.at(parameter.value);
    return fmt::format("{}.{}", p.unit, p.index);
  }
  [[nodiscard]] std::string name_of(const BufferRequest& r) const {
    static constexpr std::array<std::string_view, 13> kinds{"flat", "h2d", "cast", "AG",  "U",   "ms",   "clone",
                                                            "RI",   "mc",  "RO",   "out", "acc", "array"};
    const std::string where = r.parameter.valid() ? place(r.parameter) : fmt::format("{}", r.unit.value);
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
