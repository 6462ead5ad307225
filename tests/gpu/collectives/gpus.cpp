#include "tests/gpu/collectives/gpus.hpp"

#include <cuda_runtime_api.h>
#include <sys/wait.h>
#include <unistd.h>

namespace foreshard::gpu {

int count_gpus() {
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    ::_exit(cudaGetDeviceCount(&count) == cudaSuccess ? count : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

}  // namespace foreshard::gpu
