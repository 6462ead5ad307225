#include "core/kernel/kernel_name.hpp"

#include <algorithm>
#include <initializer_list>

namespace foreshard {
namespace {

bool contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

bool contains_any(std::string_view text, std::initializer_list<std::string_view> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) { return contains(text, part); });
}

// Fused attention: PyTorch's flash and memory-efficient kernels, cuDNN's sdpa. Their small companions
// (dot product of dO and O, conversion of dQ, head reduction) only stream memory.
bool is_attention(std::string_view name) {
  return contains_any(name, {"sdpa", "flash", "fmha", "attention"}) &&
         !contains_any(name, {"dot_do_o", "convert_dq", "reduce_head", "combine_kernel"});
}

// cuBLAS and cuBLASLt ("nvjet_sm90_…", "sm80_xmma_gemm_…", "cutlass_80_simt_sgemm_…", "gemmSN_NN_kernel",
// "sgemm_largek_lds64", "ampere_bf16_s16816gemm_…"), CUTLASS; without split-K's reductions.
bool is_gemm(std::string_view name) {
  return contains_any(name, {"nvjet", "cutlass", "gemm", "xmma", "cublas", "s1688", "s16816", "wgrad", "dgrad"}) &&
         !contains_any(name, {"splitKreduce", "splitk_reduce", "elementwise", "gemv"});
}

// The smaller side of an output tile, from "tilesize128x32x8" or "sgemm_128x32_8x5"; 0 where it does not say.
std::uint32_t smaller_tile(std::string_view name) {
  std::size_t at = name.find("tilesize");
  at = at != std::string_view::npos ? at + 8 : name.find("gemm_");
  if (at == std::string_view::npos) return 0;
  const auto number = [&](std::size_t& i) {
    std::uint32_t value = 0;
    for (; i < name.size() && name[i] >= '0' && name[i] <= '9' && value < 100000; ++i)
      value = value * 10 + static_cast<std::uint32_t>(name[i] - '0');
    return value;
  };
  while (at < name.size() && (name[at] < '0' || name[at] > '9')) ++at;
  const std::uint32_t rows = number(at);
  if (at >= name.size() || name[at] != 'x') return 0;
  const std::uint32_t columns = number(++at);
  return std::min(rows, columns);
}

// fp32 GEMMs of few rows read or write one large matrix once: cuBLAS then takes its small-N and large-K
// kernels, or tiles of 32 (seen at 4 rows, 10,240 columns).
bool is_streaming(std::string_view name) {
  if (contains_any(name, {"gemmSN", "gemmk1", "largek"})) return true;
  const bool fp32 = contains_any(name, {"f32f32_f32", "sgemm"});
  const std::uint32_t tile = smaller_tile(name);
  return fp32 && tile > 0 && tile <= 32;
}

}  // namespace

bool is_nccl_kernel(std::string_view name) {
  return name.starts_with("nccl");
}
bool is_peer_copy(std::string_view name) {
  return name.starts_with("Memcpy PtoP");
}
bool is_foreach_kernel(std::string_view name) {
  return contains(name, "multi_tensor_apply_kernel");
}

CopyKind copy_kind(std::string_view name) {
  if (name.starts_with("Memcpy HtoD")) return CopyKind::host_to_device;
  if (name.starts_with("Memcpy DtoH")) return CopyKind::device_to_host;
  if (name.starts_with("Memcpy PtoP")) return CopyKind::peer_to_peer;
  return CopyKind::device_to_device;
}

KernelClass kernel_class(const KernelShape& kernel) {
  if (is_attention(kernel.name)) return KernelClass::attention;
  if (!is_gemm(kernel.name)) return KernelClass::memory_bound;
  if (is_streaming(kernel.name)) return KernelClass::gemm_streaming;
  // One wave of tiles that no longer fits beside a ring of 24 CTAs, or only on other clusters, takes a second
  // wave: measured 1.70 (96 tiles in clusters of 8) to 1.95 (128 tiles), whether it lasts 5 us or 92. Kernels
  // of as many CTAs as SMs are persistent and lose only their share of SMs.
  const std::uint64_t tiles = std::uint64_t{kernel.grid[0]} * kernel.grid[1] * kernel.grid[2];
  const bool one_wave = tiles * 2 > kernel.sm_count && tiles < kernel.sm_count;
  if (one_wave) return KernelClass::gemm_single_wave;
  return KernelClass::gemm;
}

}  // namespace foreshard
