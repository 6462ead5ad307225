#include "gpu/collectives/nccl_group.hpp"

#include <fmt/format.h>

#include <cstring>
#include <future>
#include <optional>
#include <thread>

#include "gpu/collectives/driver.hpp"

namespace foreshard::gpu {
namespace {

Result<ncclDataType_t> nccl_type(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return ncclFloat32;
    case DType::bfloat16:
      return ncclBfloat16;
    case DType::float16:
      return ncclFloat16;
    case DType::float64:
      return ncclFloat64;
    case DType::int64:
      return ncclInt64;
    case DType::int32:
      return ncclInt32;
    case DType::uint8:
    case DType::bool8:
      return ncclUint8;
    case DType::float8_e4m3fn:
    case DType::float8_e5m2:
      break;
  }
  return fail(ErrorKind::mismatch, "a dtype that NCCL does not know");
}

ncclRedOp_t nccl_reduction(Reduction reduction) {
  switch (reduction) {
    case Reduction::average:
      return ncclAvg;
    case Reduction::sum:
      return ncclSum;
    case Reduction::maximum:
      return ncclMax;
  }
  return ncclAvg;
}

struct Member {
  ncclComm_t communicator = nullptr;
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
};

/// To the next rank, from the one before, in one kernel.
ncclResult_t pass_on(const void* input, void* output, std::size_t count, ncclDataType_t type, const Member& member,
                     cudaStream_t stream) {
  const int next = static_cast<int>((member.rank + 1) % member.ranks);
  const int before = static_cast<int>((member.rank + member.ranks - 1) % member.ranks);
  if (const ncclResult_t code = ncclGroupStart(); code != ncclSuccess) return code;
  const ncclResult_t sent = ncclSend(input, count, type, next, member.communicator, stream);
  const ncclResult_t received = ncclRecv(output, count, type, before, member.communicator, stream);
  const ncclResult_t ended = ncclGroupEnd();
  return sent != ncclSuccess ? sent : received != ncclSuccess ? received : ended;
}

struct Made {
  ncclResult_t code = ncclSuccess;
  ncclComm_t communicator = nullptr;
};

}  // namespace

Result<void> check(ncclResult_t code, std::string_view call, ncclComm_t communicator) {
  if (code == ncclSuccess) return {};
  const ErrorKind kind = code == ncclRemoteError ? ErrorKind::rank_lost : ErrorKind::mismatch;
  const char* last = ncclGetLastError(communicator);
  const std::string detail = last != nullptr && *last != '\0' ? fmt::format(": {}", last) : std::string();
  return fail(kind, fmt::format("{}: {}{}", call, ncclGetErrorString(code), detail));
}

Result<std::string> nccl_unique_id() {
  ncclUniqueId id;
  FORESHARD_TRY(check(ncclGetUniqueId(&id), "ncclGetUniqueId"));
  return std::string(id.internal, sizeof id.internal);
}

Result<std::unique_ptr<NcclGroup>> NcclGroup::create(const NcclGroupOptions& o) {
  ncclUniqueId id{};
  if (o.id.size() != sizeof id.internal) return fail(ErrorKind::mismatch, "an NCCL id of the wrong size");
  std::memcpy(id.internal, o.id.data(), sizeof id.internal);
  int device = 0;
  FORESHARD_TRY(check(cudaGetDevice(&device), "cudaGetDevice"));
  auto promise = std::make_shared<std::promise<Made>>();
  std::future<Made> future = promise->get_future();
  std::thread([promise, id, device, o] {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    config.commName = o.name.c_str();
    if (o.zero_cta) config.CTAPolicy = NCCL_CTA_POLICY_ZERO;
    Made made;
    made.code = cudaSetDevice(device) == cudaSuccess
                    ? ncclCommInitRankConfig(&made.communicator, static_cast<int>(o.ranks), id,
                                             static_cast<int>(o.rank), &config)
                    : ncclUnhandledCudaError;
    promise->set_value(made);
  }).detach();
  if (future.wait_for(o.timeout) != std::future_status::ready)
    return fail(ErrorKind::rank_hung,
                fmt::format("NCCL's communicator '{}' was not ready within {} ms", o.name, o.timeout.count()));
  const Made made = future.get();
  FORESHARD_TRY(check(made.code, fmt::format("ncclCommInitRankConfig('{}')", o.name)));
  return std::unique_ptr<NcclGroup>(new NcclGroup(made.communicator, o.ranks, o.rank));
}

NcclGroup::~NcclGroup() {
  if (ncclComm_t communicator = communicator_.exchange(nullptr); communicator != nullptr)
    (void)ncclCommDestroy(communicator);
}

void NcclGroup::abort() {
  if (ncclComm_t communicator = communicator_.exchange(nullptr); communicator != nullptr)
    (void)ncclCommAbort(communicator);
}

Result<void> NcclGroup::issue(const CollectiveWork& work, cudaStream_t stream) {
  const ncclComm_t communicator = communicator_.load();
  if (communicator == nullptr) return fail(ErrorKind::rank_lost, "the communicator was given up");
  const Result<ncclDataType_t> type = nccl_type(work.dtype);
  FORESHARD_TRY(type);
  const void* input = reinterpret_cast<const void*>(work.input);
  void* output = reinterpret_cast<void*>(work.output);
  const std::size_t count = work.bytes / itemsize(work.dtype);
  const ncclRedOp_t op = nccl_reduction(work.reduction);
  switch (work.kind) {
    case CollectiveKind::all_gather:
      return check(ncclAllGather(input, output, count / ranks_, *type, communicator, stream), "ncclAllGather",
                   communicator);
    case CollectiveKind::reduce_scatter:
      return check(ncclReduceScatter(input, output, count / ranks_, *type, op, communicator, stream),
                   "ncclReduceScatter", communicator);
    case CollectiveKind::all_reduce:
      return check(ncclAllReduce(input, output, count, *type, op, communicator, stream), "ncclAllReduce", communicator);
    case CollectiveKind::all_to_all:
      return check(ncclAlltoAll(input, output, count / ranks_, *type, communicator, stream), "ncclAlltoAll",
                   communicator);
    case CollectiveKind::broadcast:
      return check(ncclBroadcast(input, output, count, *type, 0, communicator, stream), "ncclBroadcast", communicator);
    case CollectiveKind::reduce:
      return check(ncclReduce(input, output, count, *type, op, 0, communicator, stream), "ncclReduce", communicator);
    case CollectiveKind::send_recv:
      return check(pass_on(input, output, count, *type, {communicator, ranks_, rank_}, stream), "ncclSend, ncclRecv",
                   communicator);
  }
  return {};
}

Result<NcclRegistration> NcclGroup::enroll(NcclMemory kind, void* memory, Bytes bytes) {
  const ncclComm_t communicator = communicator_.load();
  if (communicator == nullptr) return fail(ErrorKind::rank_lost, "the communicator was given up");
  NcclRegistration made;
  made.kind = kind;
  if (kind == NcclMemory::buffer)
    FORESHARD_TRY(check(ncclCommRegister(communicator, memory, bytes, &made.handle), "ncclCommRegister", communicator));
  else
    FORESHARD_TRY(check(ncclCommWindowRegister(communicator, memory, bytes, &made.window, NCCL_WIN_COLL_SYMMETRIC),
                        "ncclCommWindowRegister", communicator));
  return made;
}

Result<void> NcclGroup::withdraw(const NcclRegistration& registration) {
  const ncclComm_t communicator = communicator_.load();
  if (communicator == nullptr) return {};
  if (registration.kind == NcclMemory::buffer)
    return check(ncclCommDeregister(communicator, registration.handle), "ncclCommDeregister", communicator);
  return check(ncclCommWindowDeregister(communicator, registration.window), "ncclCommWindowDeregister", communicator);
}

Result<void> NcclGroup::health() {
  const ncclComm_t communicator = communicator_.load();
  if (communicator == nullptr) return fail(ErrorKind::rank_lost, "the communicator was given up");
  ncclResult_t state = ncclSuccess;
  FORESHARD_TRY(check(ncclCommGetAsyncError(communicator, &state), "ncclCommGetAsyncError", communicator));
  return state == ncclInProgress ? Result<void>{} : check(state, "NCCL", communicator);
}

}  // namespace foreshard::gpu
