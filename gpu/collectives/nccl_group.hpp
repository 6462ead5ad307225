// One NCCL communicator: made within a deadline, given up from any thread, with its registrations.
//
// Who: communicator.cpp. Thread safety: one thread at a time, except abort(), which ends a call that hangs in another.
// The communicator is blocking: non-blocking ones start a thread for every collective (group.cc, ncclGroupEndInternal).
// Making it runs on a thread of its own instead, so that a peer that never comes costs the deadline and no more.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "core/device/device.hpp"

namespace foreshard::gpu {

[[nodiscard]] Result<void> check(ncclResult_t code, std::string_view call, ncclComm_t communicator = nullptr);

struct NcclGroupOptions {
  std::string id;  ///< ncclUniqueId's bytes, the same on all ranks
  std::string name;
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  bool zero_cta = false;  ///< NCCL_CTA_POLICY_ZERO: copy engines where it can
  std::chrono::milliseconds timeout{60'000};
};

/// ncclGetUniqueId's bytes.
[[nodiscard]] Result<std::string> nccl_unique_id();

enum class NcclMemory : std::uint8_t { buffer = 0, window = 1 };

/// A registration, to be given back to the group that made it.
struct NcclRegistration {
  NcclMemory kind = NcclMemory::buffer;
  void* handle = nullptr;
  ncclWindow_t window = nullptr;
};

class NcclGroup {
 public:
  /// On the current device. Errors: rank_hung after the timeout, NCCL's.
  [[nodiscard]] static Result<std::unique_ptr<NcclGroup>> create(const NcclGroupOptions& options);
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  /// Puts the collective on the stream; `work` has real addresses. Does not look at work.transport.
  [[nodiscard]] Result<void> issue(const CollectiveWork& work, cudaStream_t stream);
  /// Registers memory of ncclMemAlloc; a window is collective over the group.
  [[nodiscard]] Result<NcclRegistration> enroll(NcclMemory kind, void* memory, Bytes bytes);
  [[nodiscard]] Result<void> withdraw(const NcclRegistration& registration);
  /// NCCL's asynchronous errors: a peer that died, a link that failed.
  [[nodiscard]] Result<void> health();
  /// ncclCommAbort: kernels end, calls return with errors. May be called from any thread, once or more.
  void abort();

 private:
  NcclGroup(ncclComm_t communicator, std::uint32_t ranks, std::uint32_t rank)
      : communicator_(communicator), ranks_(ranks), rank_(rank) {}
  std::atomic<ncclComm_t> communicator_;
  std::uint32_t ranks_;
  std::uint32_t rank_;
};

}  // namespace foreshard::gpu
