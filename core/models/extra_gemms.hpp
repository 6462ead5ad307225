// Matrices that a rank multiplies beside its training: other work in its process, put in front of each block's forward.
//
// Who: sim/predict, for ranks that are unlike the others. Pure and deterministic.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "core/models/host_calls.hpp"
#include "core/models/target_gpu.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

/// `count` products of m × k by k × n in bfloat16 in front of the forward of each block.
struct ExtraGemms {
  static constexpr std::uint32_t kMaxSide = 1U << 20U;
  static constexpr std::uint32_t kMaxCount = 1000;

  std::uint32_t m = 0;
  std::uint32_t n = 0;
  std::uint32_t k = 0;
  std::uint32_t count = 1;
  auto operator<=>(const ExtraGemms&) const = default;
};

/// "8192x8192x8192*2" (m × n × k): as the option says it.
[[nodiscard]] std::string text_of(const ExtraGemms& gemms);
/// Reads the same; without "*…" one. Fails (usage) where a number is none from 1 to the most.
[[nodiscard]] Result<ExtraGemms> parse_extra_gemms(const std::string& text);

/// "2 more products of 8192 × 8192 by 8192 × 8192 in front of each block's forward".
[[nodiscard]] std::string words(const ExtraGemms& gemms);

/// Puts them into every step of `workload`, which is adapted to its settings: behind FSDP2's pre-forward hook, where
/// module.register_forward_pre_hook() puts a user's own, on the compute stream, without times, so that a device prices
/// them. A unit of several blocks has those of all of them in front of it, and a forward that is made again in backward
/// has none. The host issues each as a forward's torch.mm by `host`, times `host_scale`. Each result is allocated, and
/// freed behind its product; the operands are not. Returns how many a step has. Fails (usage) where no FSDP unit is a
/// block.
[[nodiscard]] Result<std::size_t> add_extra_gemms(Workload& workload, const ExtraGemms& gemms, const HostCosts& host,
                                                  double host_scale, const TargetGpu& gpu);

}  // namespace foreshard
