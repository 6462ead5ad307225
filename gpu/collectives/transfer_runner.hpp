// Puts transfer plans on CUDA streams: copies for the copy engines, flags as stream memory operations. No SM is used.
//
// Who: symm_mem_collectives.cpp. Thread safety: one thread at a time, on the device it was created on.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/base/error.hpp"
#include "gpu/collectives/transfer_plan.hpp"

namespace foreshard::gpu {

/// Where the ranks of the group keep what a plan names, as this process sees it. By rank of the group.
struct TransferAddresses {
  std::array<Address, kMaxPeers> input{};
  std::array<Address, kMaxPeers> output{};
  std::array<Address, kMaxPeers> staging{};
  std::array<Address, kMaxPeers> flags{};  ///< kFlags × kMaxPeers × kMaxSlots words
  std::uint32_t rank = 0;
};

/// The byte offset of a flag in a rank's flags, by who writes it.
[[nodiscard]] constexpr Bytes flag_offset(Flag flag, std::uint32_t writer, std::uint32_t slot) {
  return ((static_cast<Bytes>(flag) * kMaxPeers + writer) * kMaxSlots + slot) * sizeof(std::uint32_t);
}
inline constexpr Bytes kFlagBytes = Bytes{kFlags} * kMaxPeers * kMaxSlots * sizeof(std::uint32_t);

class TransferRunner {
 public:
  /// With side streams of the highest priority for up to `lanes` lanes.
  [[nodiscard]] static Result<std::unique_ptr<TransferRunner>> create(std::uint32_t lanes);
  ~TransferRunner();
  TransferRunner(const TransferRunner&) = delete;
  TransferRunner& operator=(const TransferRunner&) = delete;

  /// Puts the plan on `stream` and the side streams; `stream` waits for them. Errors: CUDA's; the legacy default
  /// stream, on which batched copies do not run.
  [[nodiscard]] Result<void> run(const TransferPlan& plan, const TransferAddresses& addresses, cudaStream_t stream);

  /// Stream memory operations of a plan's kind on one stream, in order.
  [[nodiscard]] static Result<void> signal(std::span<const TransferOp> ops, const TransferAddresses& addresses,
                                           cudaStream_t stream);

 private:
  TransferRunner() = default;
  [[nodiscard]] Result<void> issue(const std::vector<TransferOp>& ops, const TransferAddresses& addresses,
                                   cudaStream_t stream);
  [[nodiscard]] cudaStream_t stream_of(std::uint32_t lane, cudaStream_t stream) const {
    return lane == 0 ? stream : streams_[lane - 1];
  }

  std::vector<cudaStream_t> streams_;  ///< of lanes 1, 2, …
  std::vector<cudaEvent_t> done_;
  std::vector<cudaEvent_t> marks_;
  cudaEvent_t fork_ = nullptr;
};

}  // namespace foreshard::gpu
