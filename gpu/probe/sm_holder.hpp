// Keeps some SMs from every other kernel for a while, as a collective of a few CTAs does: by CTAs that do nothing, or
// by ones that read GPUs' memory and write a part of that, as foreshard's own reduce-scatter does. Used by the probe
// alone; errors are DeviceFailures.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "core/base/quantity.hpp"

namespace foreshard::gpu {

class SmHolder {
 public:
  /// What a CTA does on its SM.
  enum class Load : std::uint8_t { none = 0, memory = 1 };
  static constexpr std::size_t kMaxSources = 8;
  /// Of each source: more than an L2 holds (H200: 60 MB), so that nothing of it is there when it is read again.
  static constexpr Bytes kSourceBytes = 128 * kMiB;

  /// CTAs of Load::memory read `sources` in turn, of which there are at most kMaxSources: this GPU's memory and its
  /// peers'. They outlive this. Without any, memory of this GPU's own.
  explicit SmHolder(std::span<const Address> sources);
  ~SmHolder();
  SmHolder(const SmHolder&) = delete;
  SmHolder& operator=(const SmHolder&) = delete;

  /// Holds `sms` SMs from when `stream` comes to this place …
  void hold(cudaStream_t stream, std::uint32_t sms, Load load);
  /// … until it comes to this one, but no longer than ten seconds. One hold() at a time, and never twice the same load
  /// without a synchronised device in between.
  void release(cudaStream_t stream, Load load);
  /// GB/s, read plus written, that CTAs of Load::memory moved, all of a hold() together; 0: none did. Requires a
  /// synchronised device.
  [[nodiscard]] double bandwidth() const;

 private:
  static constexpr std::size_t kLoads = 2;

  [[nodiscard]] std::uint32_t* released(Load load) const { return released_ + static_cast<std::size_t>(load); }

  std::array<Address, kMaxSources> sources_{};
  std::uint32_t source_count_ = 0;
  cudaStream_t own_ = nullptr;
  cudaEvent_t here_ = nullptr;
  // Device memory.
  std::uint32_t* released_ = nullptr;  ///< by Load: 0 while its SMs are held
  void* from_ = nullptr;               ///< the source where there is no other
  void* to_ = nullptr;
  struct Moved* moved_ = nullptr;
};

}  // namespace foreshard::gpu
