#include "core/step/step_streams.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/fsdp/recorded_streams.hpp"
#include "core/settings/mesh_groups.hpp"
#include "core/workload/program_group.hpp"

namespace foreshard {

StepStreams::StepStreams(const Workload& workload, const Settings& settings, const RankMesh& mesh, Device& device,
                         RunRecorder& recorder)
    : workload_(workload),
      settings_(settings),
      mesh_(mesh),
      device_(device),
      recorder_(recorder),
      post_forward_(workload.units.size()),
      process_groups_(workload.process_groups.size()) {
  // Priorities: FSDPCommContext.lazy_init (copy-in, all-gather, reduce-scatter high; all-reduce default);
  // a process group's own stream has the default priority.
  const std::array<StreamOptions, kStreamRoles> options{{{"compute", 0},
                                                         {"all-gather copy-in", -1},
                                                         {"all-gather", -1},
                                                         {"reduce-scatter", -1},
                                                         {"all-reduce", 0},
                                                         {"process group", 0},
                                                         {"optimizer", 0}}};
  streams_[0] = kComputeStream;
  recorder_.add_stream(kComputeStream, options[0]);
  const std::size_t roles = settings_.optimizer_overlap != OptimizerOverlap::none ? kStreamRoles : kFsdpStreams;
  for (std::size_t i = 1; i < roles; ++i) {
    streams_[i] = device_.create_stream(options[i]);
    recorder_.add_stream(streams_[i], options[i]);
  }
  if (settings_.cuda_graph) {
    const StreamOptions capture{"graph capture", 0};
    capture_ = device_.create_stream(capture);
    recorder_.add_stream(capture_, capture);
  }
  const ParamGroupId root{kRootUnit, 0};
  shard_ = create(shard_group(settings_), CommunicatorRole::shard, root);
  // FSDPModule.set_separate_reduce_scatter_group (2.13): new_group of the same ranks.
  reduce_scatter_ = shard_;
  if (settings_.separate_reduce_scatter_group) {
    CommunicatorOptions own = shard_group(settings_);
    own.name = "reduce-scatter";
    reduce_scatter_ = create(std::move(own), CommunicatorRole::reduce_scatter, root);
  }
  if (settings_.replicate > 1) replicate_ = create(replicate_group(settings_), CommunicatorRole::replicate, root);
}

CommunicatorId StepStreams::create(CommunicatorOptions options, CommunicatorRole role, ParamGroupId group) {
  options.members = mesh_.members(role, group);
  return device_.create_communicator(options);
}

StreamId StepStreams::user(std::uint8_t index, const std::string& name) {
  if (index == 0) return kComputeStream;
  if (index >= kFirstFsdpStream && index < kFirstFsdpStream + kStreamRoles) return streams_[index - kFirstFsdpStream];
  while (user_streams_.size() < index) {
    const std::size_t number = user_streams_.size() + 1;
    const bool named = number == index && !name.empty();
    const StreamOptions options{named ? fmt::format("{} ({})", name, number) : fmt::format("user {}", number), 0};
    user_streams_.push_back(device_.create_stream(options));
    recorder_.add_stream(user_streams_.back(), options);
  }
  return user_streams_[index - 1U];
}

CommunicatorId StepStreams::process_group(std::uint32_t index) {
  CommunicatorId& own = process_groups_[index];
  if (!own.valid()) {
    const ProcessGroup group = on_mesh(workload_.process_groups[index], workload_.settings, settings_);
    if (group.of_shards && group.ranks == settings_.shard_ranks()) return own = shard_;
    CommunicatorOptions options = program_group(group, settings_);
    const std::uint32_t first = mesh_.rank() - mesh_.rank() / group.stride % group.ranks * group.stride;
    for (std::uint32_t i = 0; i < group.ranks; ++i) options.members.push_back(first + i * group.stride);
    own = device_.create_communicator(options);
  }
  return own;
}

CommunicatorId StepStreams::of_experts(CommunicatorRole role, ParamGroupId group) {
  const bool apart = role == CommunicatorRole::reduce_scatter && settings_.separate_reduce_scatter_group;
  CommunicatorId& own = apart ? experts_reduce_scatter_ : experts_;
  if (own.valid()) return own;
  CommunicatorOptions options = expert_shard_group(settings_);
  if (apart) options.name += " reduce-scatter";
  return own = create(std::move(options), role, group);
}

CommunicatorId StepStreams::communicator(CommunicatorRole role, ParamGroupId group) {
  if (role == CommunicatorRole::replicate) return replicate_;
  if (role == CommunicatorRole::float8_scales) {
    CommunicatorOptions own = shard_group(settings_);
    own.name = "float8 scales";
    if (!float8_scales_.valid()) float8_scales_ = create(std::move(own), role, group);
    return float8_scales_;
  }
  if (role != CommunicatorRole::post_forward) {
    if (mesh_.shard(group).ranks != mesh_.shard().ranks) return of_experts(role, group);
    return role == CommunicatorRole::shard ? shard_ : reduce_scatter_;
  }
  CommunicatorId& own = post_forward_[group.unit.value];
  if (!own.valid()) {
    CommunicatorOptions options = post_forward_group(settings_, mesh_.ranks(role, group));
    options.name += ' ' + workload_.units[group.unit.value].name;
    own = create(std::move(options), role, group);
  }
  return own;
}

}  // namespace foreshard
