// Ranks as forked processes of one host, with an Exchange over socket pairs: for the tests and the benchmark of
// gpu/collectives, which need nothing of gpu/launch.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gpu/bootstrap/bootstrap.hpp"

namespace foreshard::gpu {

/// Forks `ranks` processes, runs `body` in each and waits for them; 0 when all returned 0. When one fails, or after
/// `timeout_s`, the others are killed. The calling process must not have used CUDA.
[[nodiscard]] int run_ranks(std::uint32_t ranks, int timeout_s, const std::function<int(Bootstrap&)>& body);

}  // namespace foreshard::gpu
