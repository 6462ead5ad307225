#include "tests/gpu/torch_collectives/threads_as_ranks.hpp"

#include <thread>

namespace foreshard::gpu {

std::vector<Result<void>> run_threads(std::uint32_t ranks, std::chrono::milliseconds timeout,
                                      const std::function<Result<void>(PeerSockets&)>& body) {
  std::vector<std::unique_ptr<PeerSockets>> sockets;
  std::vector<std::string> addresses;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    sockets.push_back(PeerSockets::open(rank, ranks, timeout).value());
    addresses.push_back(sockets.back()->address());
  }
  std::vector<Result<void>> results(ranks);
  std::vector<std::thread> threads;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    threads.emplace_back([&, rank] {
      results[rank] = sockets[rank]->connect(addresses);
      if (results[rank]) results[rank] = body(*sockets[rank]);
      sockets[rank].reset();
    });
  for (std::thread& thread : threads) thread.join();
  return results;
}

}  // namespace foreshard::gpu
