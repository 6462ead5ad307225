// Sizes as nccl-tests writes them: "128M" is 128 · 2^20 bytes (nccl-tests src/common.cu, parsesize).
//
// Who: the readers of measurements, and `foreshard collectives` for sizes on the command line. Pure.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::sim {

/// "512", "64k", "128M", "1G", "1T" in powers of 1024, either case; else as parse_bytes ("16MiB", "80GB"). Refused
/// (usage): what is neither.
[[nodiscard]] Result<Bytes> parse_nccl_size(std::string_view text);

/// Several, with commas between them, in their order.
[[nodiscard]] Result<std::vector<Bytes>> parse_nccl_sizes(std::string_view text);

}  // namespace foreshard::sim
