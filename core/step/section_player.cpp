#include "core/step/section_player.hpp"

#include <array>

namespace foreshard {
namespace {

using R = SectionRole;
constexpr std::array kCopyIn{R::offload_copy, R::cast, R::copy_in};
constexpr std::array kCopyOut{R::metadata_copy, R::split, R::cat};
constexpr std::array kCopyOutShards{R::offload_copy, R::cast, R::split};
constexpr std::array kChunkCat{R::cat, R::metadata_copy, R::chunk_cat};
constexpr std::array kCollective{R::collective};
constexpr std::array kAllReduce{R::all_reduce};
constexpr std::array kKeepPart{R::clone};
constexpr std::array kAddGradients{R::gradient_add};
constexpr std::array kCastGradient{R::gradient_cast};
constexpr std::array kCastBack{R::cast_back};
constexpr std::array kOffload{R::offload_copy};
constexpr std::array kAmax{R::amax};
constexpr std::array kCopyReduced{R::copy_reduced};

using Roles = std::span<const SectionRole>;

struct RolesOf {
  Roles operator()(const CopyIn&) const { return kCopyIn; }
  Roles operator()(const AllGather&) const { return kCollective; }
  Roles operator()(const CopyOut&) const { return kCopyOut; }
  Roles operator()(const CopyOutShards&) const { return kCopyOutShards; }
  Roles operator()(const KeepPart&) const { return kKeepPart; }
  Roles operator()(const AddGradients&) const { return kAddGradients; }
  Roles operator()(const CastGradient&) const { return kCastGradient; }
  Roles operator()(const ChunkCat&) const { return kChunkCat; }
  Roles operator()(const ReduceScatter&) const { return kCollective; }
  Roles operator()(const CopyReduced&) const { return kCopyReduced; }
  Roles operator()(const AllReduce&) const { return kAllReduce; }
  Roles operator()(const CastBack&) const { return kCastBack; }
  Roles operator()(const AddReduced&) const { return kAddGradients; }
  Roles operator()(const OffloadGradients&) const { return kOffload; }
  Roles operator()(const StepOptimizer&) const { return {}; }
  Roles operator()(const ShardAmaxes&) const { return kAmax; }
  Roles operator()(const ReduceAmaxes&) const { return kAllReduce; }
};

}  // namespace

std::span<const SectionRole> roles_of(const FsdpOp& op) {
  return std::visit(RolesOf{}, op);
}

void SectionPlayer::begin(Section section, ParamGroupId group, Pass pass) {
  section_ = &costs_.find(section, group, pass);
  played_ = 0;
  start_ = recorder_.now();
  emitter_.begin_section(*section_, workload_.units[group.unit.value].name);
}

bool SectionPlayer::first(SectionRole role) {
  const std::uint32_t bit = 1U << static_cast<unsigned>(role);
  const bool played = (played_ & bit) != 0;
  played_ |= bit;
  return !played;
}

SectionItem SectionPlayer::spend(SectionRole role) {
  const bool costs = first(role);
  SectionItem last;
  for (const SectionItem& item : section_->items) {
    if (item.role != role) continue;
    if (costs) emitter_.host_work(item.host_before);
    last = item;
  }
  return last;
}

void SectionPlayer::play(SectionRole role, StreamId on) {
  if (!first(role)) return;
  for (const SectionItem& item : section_->items) {
    if (item.role != role) continue;
    emitter_.host_work(item.host_before);
    if (role == SectionRole::metadata_copy || role == SectionRole::offload_copy) {
      const bool out = role == SectionRole::offload_copy && section_->section == Section::reduce;
      const CopyKind kind = out ? CopyKind::device_to_host : CopyKind::host_to_device;
      emitter_.copy(on, {kind, item.bytes, item.work, item.label}, section_->unit);
    } else {
      emitter_.kernel(on, {item.kernel_class, item.work, item.bytes, 0, item.label}, section_->unit);
    }
  }
}

void SectionPlayer::end() {
  emitter_.host_work(section_->host_after);
  emitter_.end_section();
  recorder_.section(*section_, workload_.units[section_->unit.value].name, start_);
  section_ = nullptr;
}

}  // namespace foreshard
