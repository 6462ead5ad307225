// Writes a workload's setup program: what a training script allocates from process start to its first step.
#pragma once

#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::model {

/// Where the segment lies that the process has before its first request.
inline constexpr Address kFirstSegment = Address{1} << 40;

class SetupWriter {
 public:
  SetupWriter(const Settings& settings, const std::vector<Unit>& units, const std::vector<ParameterId>& order,
              bool keep_kernels)
      : settings_(settings), units_(units), order_(order), keep_kernels_(keep_kernels) {}

  /// A block of the script's; its handle for free().
  TensorId alloc(Bytes bytes, MemoryCategory category = MemoryCategory::other);
  /// This rank's shard of a parameter, on the device (none under CPU offload).
  TensorId alloc_shard(ParameterId parameter);
  void free(TensorId tensor);
  /// What the block just allocated holds from then on, as one contiguous tensor.
  void filled_with(Kernel what, std::vector<std::uint64_t> shape, DType dtype);
  /// A tensor that the steps read; they find it by its number, in this order (WrappedModel::from_setup).
  void hand_over(TensorId tensor) { handed_over_.push_back(tensor); }
  /// alloc and free at once.
  void scratch(Bytes bytes);

  /// The first fully_shard of a process.
  void first_wrap();
  /// model.to_empty(device) of a model built on the meta device: shards in model.parameters() order.
  void to_empty();
  /// nn.init.normal_ on every parameter, then set_custom_all_gather where the settings ask for symmetric memory.
  void init_normal();

  [[nodiscard]] const std::vector<ParameterId>& order() const { return order_; }
  [[nodiscard]] const std::vector<Unit>& units() const { return units_; }
  [[nodiscard]] const Settings& settings() const { return settings_; }
  [[nodiscard]] const std::vector<TensorId>& handed_over() const { return handed_over_; }
  [[nodiscard]] Program finish() { return std::move(program_); }

 private:
  /// Gathers in symmetric memory begin with a barrier, whose tensor takes the place of the one before the recording.
  void custom_gathers();

  const Settings& settings_;
  const std::vector<Unit>& units_;
  const std::vector<ParameterId>& order_;
  Program program_;
  std::vector<TensorId> handed_over_;
  std::uint32_t next_ = 0;
  bool keep_kernels_;
};

}  // namespace foreshard::model
