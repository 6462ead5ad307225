// The captured cost of the FSDP section that is open: its host time, and its items as kernels and copies.
//
// Who: both lowerings; PyTorch's plays the items, foreshard's takes their host time and their prices. An item belongs
// to a role, and a section's items of one role are issued once, with the first op that needs them.
#pragma once

#include <span>

#include "core/fsdp/fsdp_op.hpp"
#include "core/step/op_emitter.hpp"
#include "core/step/section_costs.hpp"

namespace foreshard {

/// The roles of the items that stand for `op` in a section, in the order of their issue; the last is the kernel or
/// collective that does the work. Empty: captures show no item of its own.
[[nodiscard]] std::span<const SectionRole> roles_of(const FsdpOp& op);

class SectionPlayer {
 public:
  /// All references must outlive this.
  SectionPlayer(const Workload& workload, const Settings& settings, OpEmitter& emitter, RunRecorder& recorder)
      : workload_(workload), costs_(workload, settings), emitter_(emitter), recorder_(recorder) {}

  void begin(Section section, ParamGroupId group, Pass pass);
  /// Spends the host time of the role's items, and puts nothing on a stream. The last of them; none: an empty item.
  SectionItem spend(SectionRole role);
  /// Puts the role's items on the stream, each after its host time.
  void play(SectionRole role, StreamId on);
  /// Spends what the section's end costs the host, and notes the annotation.
  void end();

  /// Of the open section.
  [[nodiscard]] std::span<const SectionItem> items() const { return section_->items; }
  [[nodiscard]] std::uint64_t missing() const { return costs_.misses(); }

 private:
  /// Whether this is the role's first time in the section.
  bool first(SectionRole role);

  const Workload& workload_;
  SectionCosts costs_;
  OpEmitter& emitter_;
  RunRecorder& recorder_;
  const SectionCost* section_ = nullptr;
  std::uint32_t played_ = 0;  // bit per SectionRole
  Nanoseconds start_;
};

}  // namespace foreshard
