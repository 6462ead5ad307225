// Ranks as threads of one process, each with its PeerSockets: for the tests of gpu/torch_collectives that need no GPU.
#pragma once

#include <chrono>
#include <functional>

#include "gpu/torch_collectives/peer_sockets.hpp"

namespace foreshard::gpu {

/// Runs `body` on a thread for each rank, with connected sockets; returns each rank's result, the error of opening or
/// connecting where there was one.
[[nodiscard]] std::vector<Result<void>> run_threads(std::uint32_t ranks, std::chrono::milliseconds timeout,
                                                    const std::function<Result<void>(PeerSockets&)>& body);

}  // namespace foreshard::gpu
