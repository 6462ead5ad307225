#include "gpu/cuda/staging.hpp"

#include <algorithm>

#include "core/device/transport_traits.hpp"
#include "gpu/cuda/device_failure.hpp"

namespace foreshard::gpu {
namespace {

constexpr Bytes kPiece = 64 * kMiB;  // long enough for a copy engine to reach its rate (a few MiB on PCIe 5)

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT: a device address
}

}  // namespace

Staging::~Staging() {
  static_cast<void>(cudaDeviceSynchronize());
  if (host_ != nullptr) static_cast<void>(cudaFreeHost(host_));
  try {
    const auto give_back = [&](Buffer& buffer) {
      if (buffer.address != 0) memory_.free(buffer.address);
    };
    give_back(copies_);
    for (std::size_t kind = 0; kind < 3; ++kind) {
      give_back(inputs_[kind]);
      give_back(outputs_[kind]);
    }
  } catch (const DeviceFailure&) {
    // The device failed before: that error is on its way already.
  }
}

Address Staging::grown(Buffer& buffer, MemoryKind kind, Bytes size) {
  if (buffer.size >= size) return buffer.address;
  const Bytes wanted = round_up(size, 2 * kMiB);
  if (buffer.address != 0) {
    require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    memory_.free(buffer.address);
    bytes_ -= buffer.size;
    buffer = {};
  }
  const auto address = memory_.allocate(kind, wanted);
  if (!address)
    throw DeviceFailure(
        {ErrorKind::out_of_memory, "no memory is left for the buffers that stand in for operands", {}, {}});
  buffer = {*address, wanted};
  bytes_ += wanted;
  return *address;
}

void Staging::copy(const CopyWork& work, cudaStream_t stream) {
  const bool on_device = work.kind == CopyKind::device_to_device || work.kind == CopyKind::peer_to_peer;
  const Address device = grown(copies_, MemoryKind::device, 2 * kPiece);
  if (!on_device && host_ == nullptr) require(cudaMallocHost(&host_, kPiece), "cudaMallocHost");
  for (Bytes done = 0; done < work.bytes; done += kPiece) {
    const Bytes bytes = std::min(kPiece, work.bytes - done);
    void* to = work.kind == CopyKind::device_to_host ? host_ : pointer(device);
    const void* from = pointer(device + kPiece);
    if (work.kind == CopyKind::host_to_device) from = host_;
    require(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
  }
}

CollectiveWork Staging::with_addresses(CollectiveWork work, std::uint32_t ranks) {
  const MemoryKind kind = memory_of(work.transport);
  const auto place = static_cast<std::size_t>(kind);
  // What stands in for operands may be a few bytes more, so that any number of ranks divides it.
  if (work.input == 0 && work.output == 0) work.bytes = round_up(work.bytes, itemsize(work.dtype) * ranks);
  const Bytes part = ceil_div(work.bytes, ranks);
  if (work.input == 0)
    work.input = grown(inputs_[place], kind, work.kind == CollectiveKind::all_gather ? part : work.bytes);
  if (work.output == 0)
    work.output = grown(outputs_[place], kind, work.kind == CollectiveKind::reduce_scatter ? part : work.bytes);
  return work;
}

}  // namespace foreshard::gpu
