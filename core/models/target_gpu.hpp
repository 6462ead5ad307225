// The properties of a GPU that change what PyTorch allocates and launches on it (SMs, compute capability).
//
// Who: callers of generate(); sim's machine profiles give theirs. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/quantity.hpp"
#include "core/settings/version_rules.hpp"

namespace foreshard {

struct TargetGpu {
  static constexpr std::uint32_t kHopper = 90;
  /// Tensor cores multiply e4m3 and e5m2 from Ada on (CUDA programming guide, compute capabilities).
  static constexpr std::uint32_t kFloat8 = 89;

  /// A number of SMs alone means Hopper.
  TargetGpu(std::uint32_t sms, std::uint32_t capability = kHopper)  // NOLINT(google-explicit-constructor)
      : sm_count(sms), compute_capability(capability) {}

  /// Whether code that is built for sm90 alone runs on it.
  [[nodiscard]] bool has_sm90_kernels() const { return compute_capability / 10 == kHopper / 10; }

  /// CublasHandlePool.cpp, parseChosenWorkspaceSize: 32 MiB on 9.0, and on later ones by PyTorch version; else 2 × 4
  /// MiB and 8 × 16 KiB.
  [[nodiscard]] Bytes cublas_workspace(std::string_view pytorch) const {
    const auto rule = cublas_rule();
    const bool later = rule && holds(*rule, pytorch);
    return has_sm90_kernels() || later ? 32 * kMiB : 8 * kMiB + 128 * kKiB;
  }
  /// The rule by which its cuBLAS workspaces differ between versions; nothing: they do not.
  [[nodiscard]] std::optional<RuleId> cublas_rule() const {
    constexpr std::uint32_t kThor = 110;
    constexpr std::uint32_t kNoLater = 130;
    if (compute_capability < kHopper + 10 || compute_capability >= kNoLater) return std::nullopt;
    return compute_capability / 10 == kThor / 10 ? RuleId::cublas_thor : RuleId::cublas_blackwell;
  }
  /// sdp_utils.cpp, check_prefer_cudnn_attention (PyTorch 2.11, cuDNN 9.9 and later): cuDNN's attention comes first on
  /// 9.0 and 10.0; elsewhere flash does.
  [[nodiscard]] bool prefers_cudnn_attention() const { return compute_capability == 90 || compute_capability == 100; }

  std::uint32_t sm_count;
  std::uint32_t compute_capability;  ///< ten times the major version, and the minor one
  Bytes l2 = 60 * kMiB;              ///< cudaDeviceProp.l2CacheSize; an H200's where only the SMs are given
};

}  // namespace foreshard
