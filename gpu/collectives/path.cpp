#include "gpu/collectives/path.hpp"

#include <fmt/format.h>

#include "core/device/transport_traits.hpp"

namespace foreshard::gpu {

Transport transport_of(const CallTrace& trace, Transport asked) {
  if (!trace.failed.empty()) return asked;
  for (const std::string& kernel : trace.kernels) {
    if (kernel.find("ncclSym") != std::string::npos) return Transport::symmetric;
    if (kernel.find("ncclDevKernel") != std::string::npos)
      return asked == Transport::nccl_registered ? asked : Transport::nccl;
  }
  return trace.kernels.empty() && trace.copies != 0 && !outside_nccl(asked) ? Transport::copy_engine : asked;
}

std::string text(const CallTrace& trace) {
  if (!trace.failed.empty()) return "not read back: " + trace.failed;
  std::string out;
  for (const std::string& kernel : trace.kernels) out += (out.empty() ? "kernel " : ", ") + kernel;
  if (trace.kernels.empty()) out = "no kernel";
  if (trace.copies != 0) out += fmt::format(", {} copies", trace.copies);
  if (trace.flag_batches != 0) out += fmt::format(", {} flag batches", trace.flag_batches);
  return out;
}

std::string text(const PathReport& r) {
  std::string out = fmt::format("{}: {}", name(r.kind), name(r.ran));
  if (r.ran != r.asked) out += fmt::format(" instead of {}", name(r.asked));
  if (!r.reason.empty()) out += " because " + r.reason;
  return out + fmt::format(" ({}), {} calls", r.seen, r.calls);
}

}  // namespace foreshard::gpu
