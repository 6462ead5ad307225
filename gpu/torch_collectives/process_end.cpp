#include "gpu/torch_collectives/process_end.hpp"

#include <unistd.h>

#include <atomic>
#include <thread>

namespace foreshard::gpu {

void end_process_after(std::chrono::milliseconds time, int code) {
  static std::atomic<bool> begun{false};
  if (begun.exchange(true)) return;
  std::thread([time, code] {
    std::this_thread::sleep_for(time);
    ::_exit(code);
  }).detach();
}

}  // namespace foreshard::gpu
