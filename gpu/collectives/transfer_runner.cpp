#include "gpu/collectives/transfer_runner.hpp"

#include <algorithm>

#include "core/base/check.hpp"
#include "gpu/collectives/driver.hpp"

namespace foreshard::gpu {
namespace {

constexpr std::size_t kMaxMemOps = 64;  // of one cuStreamBatchMemOp

Address address_of(const Place& place, const TransferAddresses& addresses) {
  const auto& base = place.buffer == Buffer::input    ? addresses.input
                     : place.buffer == Buffer::output ? addresses.output
                                                      : addresses.staging;
  FORESHARD_CHECK(base[place.rank] != 0, "a plan names a buffer that the call does not have");
  return base[place.rank] + place.offset;
}

Result<void> copy_batch(std::span<const TransferOp> ops, const TransferAddresses& addresses, cudaStream_t stream) {
  std::vector<void*> to;
  std::vector<const void*> from;
  std::vector<std::size_t> sizes;
  for (const TransferOp& op : ops) {
    to.push_back(reinterpret_cast<void*>(address_of(op.to, addresses)));
    from.push_back(reinterpret_cast<const void*>(address_of(op.from, addresses)));
    sizes.push_back(op.bytes);
  }
  // A batch cannot be captured (call_trace.hpp); copies one by one can.
  cudaStreamCaptureStatus capturing{};
  FORESHARD_TRY(check(cudaStreamIsCapturing(stream, &capturing), "cudaStreamIsCapturing"));
  if (capturing != cudaStreamCaptureStatusNone) {
    for (std::size_t i = 0; i < to.size(); ++i)
      FORESHARD_TRY(
          check(cudaMemcpyAsync(to[i], from[i], sizes[i], cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync"));
    return {};
  }
  cudaMemcpyAttributes attributes{};
  attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
  attributes.flags = cudaMemcpyFlagPreferOverlapWithCompute;
  std::size_t first = 0;
  return check(cudaMemcpyBatchAsync(to.data(), from.data(), sizes.data(), to.size(), &attributes, &first, 1, stream),
               "cudaMemcpyBatchAsync");
}

}  // namespace

Result<std::unique_ptr<TransferRunner>> TransferRunner::create(std::uint32_t lanes) {
  std::unique_ptr<TransferRunner> runner(new TransferRunner);
  int low = 0;
  int high = 0;
  FORESHARD_TRY(check(cudaDeviceGetStreamPriorityRange(&low, &high), "cudaDeviceGetStreamPriorityRange"));
  FORESHARD_TRY(check(cudaEventCreateWithFlags(&runner->fork_, cudaEventDisableTiming), "cudaEventCreate"));
  for (std::uint32_t mark = 0; mark < kMaxMarks; ++mark) {
    cudaEvent_t event = nullptr;
    FORESHARD_TRY(check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
    runner->marks_.push_back(event);
  }
  for (std::uint32_t lane = 1; lane < lanes; ++lane) {
    cudaStream_t stream = nullptr;
    cudaEvent_t event = nullptr;
    FORESHARD_TRY(check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, high), "cudaStreamCreate"));
    runner->streams_.push_back(stream);
    FORESHARD_TRY(check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreate"));
    runner->done_.push_back(event);
  }
  return runner;
}

TransferRunner::~TransferRunner() {
  for (cudaStream_t stream : streams_) (void)cudaStreamDestroy(stream);
  for (cudaEvent_t event : done_) (void)cudaEventDestroy(event);
  for (cudaEvent_t event : marks_) (void)cudaEventDestroy(event);
  if (fork_ != nullptr) (void)cudaEventDestroy(fork_);
}

Result<void> TransferRunner::signal(std::span<const TransferOp> ops, const TransferAddresses& addresses,
                                    cudaStream_t stream) {
  const Driver& api = **driver();
  while (!ops.empty()) {
    std::array<CUstreamBatchMemOpParams, kMaxMemOps> batch;
    const std::size_t count = std::min(ops.size(), kMaxMemOps);
    std::fill_n(batch.begin(), count, CUstreamBatchMemOpParams{});
    for (std::size_t i = 0; i < count; ++i) {
      const TransferOp& op = ops[i];
      if (op.kind == TransferOp::Kind::write) {
        batch[i].operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
        batch[i].writeValue.address = addresses.flags[op.peer] + flag_offset(op.flag, addresses.rank, op.slot);
        batch[i].writeValue.value = op.value;
        batch[i].writeValue.flags = CU_STREAM_WRITE_VALUE_DEFAULT;  // after all work before it, and its writes
      } else {
        batch[i].operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
        batch[i].waitValue.address =
            addresses.flags[op.there ? op.peer : addresses.rank] + flag_offset(op.flag, op.peer, op.slot);
        batch[i].waitValue.value = op.value;
        batch[i].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
      }
    }
    FORESHARD_TRY(
        check(api.stream_batch_mem_op(stream, static_cast<unsigned>(count), batch.data(), 0), "cuStreamBatchMemOp"));
    ops = ops.subspan(count);
  }
  return {};
}

Result<void> TransferRunner::issue(const std::vector<TransferOp>& ops, const TransferAddresses& addresses,
                                   cudaStream_t stream) {
  using Kind = TransferOp::Kind;
  const auto is_flag = [](Kind kind) { return kind == Kind::write || kind == Kind::wait; };
  for (std::size_t first = 0; first < ops.size();) {
    const TransferOp& op = ops[first];
    const cudaStream_t lane = stream_of(op.lane, stream);
    std::size_t last = first + 1;
    if (op.kind == Kind::mark) {
      FORESHARD_TRY(check(cudaEventRecord(marks_[op.slot], lane), "cudaEventRecord"));
    } else if (op.kind == Kind::follow) {
      FORESHARD_TRY(check(cudaStreamWaitEvent(lane, marks_[op.slot], 0), "cudaStreamWaitEvent"));
    } else {
      while (last < ops.size() && ops[last].lane == op.lane &&
             (is_flag(op.kind) ? is_flag(ops[last].kind) : ops[last].kind == Kind::copy))
        ++last;
      const std::span<const TransferOp> run(ops.data() + first, last - first);
      FORESHARD_TRY(is_flag(op.kind) ? signal(run, addresses, lane) : copy_batch(run, addresses, lane));
    }
    first = last;
  }
  return {};
}

Result<void> TransferRunner::run(const TransferPlan& plan, const TransferAddresses& addresses, cudaStream_t stream) {
  if (stream == nullptr || stream == cudaStreamLegacy)
    return fail(ErrorKind::usage, "copy-engine collectives do not run on the legacy default stream");
  FORESHARD_CHECK(plan.lanes <= streams_.size() + 1, "a plan has more lanes than the runner");
  FORESHARD_TRY(issue(plan.before, addresses, stream));
  if (plan.lanes > 1) FORESHARD_TRY(check(cudaEventRecord(fork_, stream), "cudaEventRecord"));
  for (std::uint32_t lane = 1; lane < plan.lanes; ++lane)
    FORESHARD_TRY(check(cudaStreamWaitEvent(stream_of(lane, stream), fork_, 0), "cudaStreamWaitEvent"));
  FORESHARD_TRY(issue(plan.body, addresses, stream));
  for (std::uint32_t lane = 1; lane < plan.lanes; ++lane) {
    FORESHARD_TRY(check(cudaEventRecord(done_[lane - 1], stream_of(lane, stream)), "cudaEventRecord"));
    FORESHARD_TRY(check(cudaStreamWaitEvent(stream, done_[lane - 1], 0), "cudaStreamWaitEvent"));
  }
  return issue(plan.after, addresses, stream);
}

}  // namespace foreshard::gpu
