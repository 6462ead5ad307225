// The streams and communicators of one rank's training process, made on a Device as PyTorch makes them.
#pragma once

#include <array>
#include <vector>

#include "core/device/device.hpp"
#include "core/fsdp/fsdp_backend.hpp"
#include "core/step/rank_mesh.hpp"
#include "core/step/run_recorder.hpp"

namespace foreshard {

class StepStreams {
 public:
  /// Makes FSDP2's streams and the mesh's communicators. All references must outlive this.
  StepStreams(const Workload& workload, const Settings& settings, const RankMesh& mesh, Device& device,
              RunRecorder& recorder);

  [[nodiscard]] StreamId operator[](StreamRole role) const { return streams_[static_cast<std::size_t>(role)]; }
  /// Of a CUDA graph's warm-up and capture, which PyTorch's allocator tells apart; its ops are the compute stream's
  /// here, since nothing else runs on that meanwhile. The compute stream where there is no graph.
  [[nodiscard]] StreamId capture() const { return capture_; }
  /// Op::user_stream: one of FSDP2's (core/fsdp/recorded_streams.hpp), or one of the program's own, made when first
  /// asked for, then called `name` or, without one, by its index.
  [[nodiscard]] StreamId user(std::uint8_t index, const std::string& name = {});
  /// Workload::process_groups[index], on the mesh of these settings; made when first asked for.
  [[nodiscard]] CommunicatorId process_group(std::uint32_t index);
  /// Int reshard: every unit builds a mesh, hence a communicator, of its own (fsdp2 semantics 1.6), when first used.
  /// Experts' gathers and reduce-scatters have one of the part of the mesh that they are sharded over.
  [[nodiscard]] CommunicatorId communicator(CommunicatorRole role, ParamGroupId group);

 private:
  [[nodiscard]] CommunicatorId create(CommunicatorOptions options, CommunicatorRole role, ParamGroupId group);
  /// The same of experts, made when first asked for.
  [[nodiscard]] CommunicatorId of_experts(CommunicatorRole role, ParamGroupId group);

  const Workload& workload_;
  const Settings& settings_;
  const RankMesh& mesh_;
  Device& device_;
  RunRecorder& recorder_;
  std::array<StreamId, kStreamRoles> streams_{};
  std::vector<StreamId> user_streams_;
  StreamId capture_ = kComputeStream;
  CommunicatorId shard_;
  CommunicatorId reduce_scatter_;  ///< `shard_`, unless reduce-scatters have one of their own
  CommunicatorId replicate_;
  CommunicatorId float8_scales_;  // made when first asked for
  CommunicatorId experts_;
  CommunicatorId experts_reduce_scatter_;
  std::vector<CommunicatorId> post_forward_;    // by unit
  std::vector<CommunicatorId> process_groups_;  // of the workload
};

}  // namespace foreshard
