// "/rates": what single copies and kernels achieve.
#include <array>

#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {

void read_rates(ProfileReader& reader, const nlohmann::json& rates, MachineProfile& profile) {
  static constexpr std::array<std::string_view, 10> kKeys{
      "hbm",       "pcie",      "peer",          "memory_bound",    "gather_copy",
      "gemm_bf16", "gemm_fp32", "copy_overhead", "kernel_overhead", "attention_share"};
  reader.known_keys(rates, "/rates", kKeys);
  Rates& out = profile.rates;
  const std::array<double*, 5> bandwidths{&out.hbm, &out.pcie, &out.peer, &out.memory_bound, &out.gather_copy};
  for (std::size_t i = 0; i < bandwidths.size(); ++i)
    *bandwidths[i] = 1e9 * reader.constant(rates, "/rates", kKeys[i], "GB/s");
  out.gemm_bf16 = 1e12 * reader.constant(rates, "/rates", "gemm_bf16", "TFLOP/s");
  out.gemm_fp32 = 1e12 * reader.constant(rates, "/rates", "gemm_fp32", "TFLOP/s");
  out.attention_share = reader.constant(rates, "/rates", "attention_share", "ratio");
  out.copy_overhead = reader.time(rates, "/rates", "copy_overhead");
  out.kernel_overhead = reader.time(rates, "/rates", "kernel_overhead");
}

}  // namespace foreshard::sim
