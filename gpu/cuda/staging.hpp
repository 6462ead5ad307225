// Memory that stands in for operands that a program does not name: what emulated copies move and emulated collectives
// gather. Not of the caching allocator: plan's peaks do not count it either.
//
// Who: CudaDevice. One thread. Buffers grow and stay; bytes() says what they take of the GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "core/device/device.hpp"
#include "core/device/device_memory.hpp"

namespace foreshard::gpu {

class Staging {
 public:
  /// `memory` gives the stand-ins of collectives, of whatever kind their transport wants; outlives this.
  explicit Staging(DeviceMemory& memory) : memory_(memory) {}
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Puts the copy on the stream: host memory is pinned, and a copy longer than the buffers goes over them repeatedly.
  void copy(const CopyWork& work, cudaStream_t stream);
  /// `work` with stand-ins for the addresses it lacks, for a group of `ranks`. A collective on another stream may use
  /// the same memory at the same time: what is in it has no meaning.
  [[nodiscard]] CollectiveWork with_addresses(CollectiveWork work, std::uint32_t ranks);

  [[nodiscard]] Bytes bytes() const { return bytes_; }

 private:
  struct Buffer {
    Address address = 0;
    Bytes size = 0;
  };
  [[nodiscard]] Address grown(Buffer& buffer, MemoryKind kind, Bytes size);

  DeviceMemory& memory_;
  void* host_ = nullptr;  // pinned
  Buffer copies_;         // both ends of device-to-device copies, the device's end of others
  Buffer inputs_[3];      // by MemoryKind
  Buffer outputs_[3];
  Bytes bytes_ = 0;
};

}  // namespace foreshard::gpu
