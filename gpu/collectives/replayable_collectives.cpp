#include "gpu/collectives/replayable_collectives.hpp"

#include <fmt/format.h>

#include <vector>

#include "core/device/pull_reduce_ctas.hpp"
#include "core/device/transport_choice.hpp"
#include "gpu/collectives/driver.hpp"
#include "gpu/collectives/stream_words.hpp"

namespace foreshard::gpu {
namespace {

constexpr std::uint32_t kMeetings = 2;
constexpr Bytes kFlagWords = Bytes{kCallKinds} * kMeetings * kMaxPeers;
/// What the reduction kernel is given in place of counters, after the flags, in words.
enum Word : std::uint32_t { zero = 0, ignored = 1, complete = 2, finished = 3, kWords = 4 };
constexpr Bytes kReplayControl = (kFlagWords + kWords) * sizeof(std::uint32_t);
// The kernel counts the bytes of a slice, and a stride of its grid past the end, in 32 bits.
constexpr Bytes kMaxSlice = 2 * kGiB;

}  // namespace

Result<std::unique_ptr<ReplayableCollectives>> ReplayableCollectives::create(SymmetricHeap& heap,
                                                                             std::vector<std::uint32_t> members,
                                                                             std::uint32_t rank, std::uint32_t* busy) {
  std::unique_ptr<ReplayableCollectives> made(new ReplayableCollectives(heap, std::move(members), rank, busy));
  FORESHARD_TRY(made->set_up());
  return made;
}

Result<void> ReplayableCollectives::set_up() {
  const auto control = heap_.allocate(kReplayControl);
  FORESHARD_TRY(control);
  control_ = reinterpret_cast<Address>(*control);
  FORESHARD_TRY(check(cudaMemset(*control, 0, kReplayControl), "cudaMemset"));
  FORESHARD_TRY(check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  return heap_.bootstrap().barrier("replayable collectives");
}

Bytes ReplayableCollectives::fixed_bytes() {
  return kReplayControl;
}

Address ReplayableCollectives::flag(std::uint32_t on, CallKind kind, std::uint32_t meeting,
                                    std::uint32_t writer) const {
  return there(control_, on) +
         ((static_cast<Bytes>(kind) * kMeetings + meeting) * kMaxPeers + writer) * sizeof(std::uint32_t);
}

Result<void> ReplayableCollectives::meet(CallKind kind, std::uint32_t meeting, cudaStream_t stream) const {
  std::vector<CUstreamBatchMemOpParams> ops;
  const auto say_busy = [&](std::uint32_t busy) {
    if (busy_ != nullptr)
      ops.push_back(write_word(reinterpret_cast<Address>(busy_ + static_cast<std::uint32_t>(kind)), busy));
  };
  if (meeting == 0) say_busy(1);
  const auto each_peer = [&](auto op_of) {
    for (std::uint32_t r = 0; r < ranks(); ++r)
      if (r != rank_) ops.push_back(op_of(r));
  };
  each_peer([&](std::uint32_t r) { return write_word(flag(r, kind, meeting, rank_), 1); });
  each_peer([&](std::uint32_t r) { return wait_word(flag(rank_, kind, meeting, r)); });
  each_peer([&](std::uint32_t r) { return write_word(flag(rank_, kind, meeting, r), 0); });
  if (meeting == 1) say_busy(0);
  return put_words(ops, stream);
}

Result<void> ReplayableCollectives::all_gather(const void* input, void* output, Bytes slice, cudaStream_t stream) {
  if (!heap_.contains(reinterpret_cast<Address>(output), slice * ranks()))
    return fail(ErrorKind::mismatch, "the output of a low-contention all-gather is not in symmetric memory");
  const Address own = reinterpret_cast<Address>(output) + rank_ * slice;
  const bool in_place = reinterpret_cast<Address>(input) == own;
  FORESHARD_TRY(meet(CallKind::all_gather, 0, stream));
  for (std::uint32_t i = 1; slice != 0 && i <= ranks(); ++i) {
    const std::uint32_t to = (rank_ + i) % ranks();  // itself last
    if (to == rank_ && in_place) continue;
    void* place = reinterpret_cast<void*>(there(own, to));
    FORESHARD_TRY(check(cudaMemcpyAsync(place, input, slice, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync"));
  }
  return meet(CallKind::all_gather, 1, stream);
}

/// All ranks' slices may be read when the kernel starts, and may be overwritten when it and the second meeting are
/// over: what it would wait for is a word that stays 0, asked to be at least 0.
Result<ReduceItem> ReplayableCollectives::item_of(const ScatterCall& call) const {
  const Bytes slice = call.elements * itemsize(call.input_type);
  const Address input = reinterpret_cast<Address>(call.input);
  if (!heap_.contains(input, slice * ranks()))
    return fail(ErrorKind::mismatch, "the input of a captured reduce-scatter is not in symmetric memory");
  if (slice > kMaxSlice)
    return fail(ErrorKind::mismatch,
                fmt::format("a captured reduce-scatter of {} bytes a rank: {} are the most", slice, kMaxSlice));
  auto* const words = reinterpret_cast<std::uint32_t*>(control_) + kFlagWords;
  ReduceItem item;
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    item.source[r] = reinterpret_cast<const void*>(there(input, r) + rank_ * slice);
    item.ready[r] = words + Word::zero;
    item.consumed[r] = words + Word::zero;
    item.answer[r] = words + Word::ignored;
    item.enter[r] = words + Word::ignored;
  }
  item.output = call.output;
  item.ranks = ranks();
  item.rank = rank_;
  item.first_chunk = ~0U;  // and one is 0
  item.direct = 1;
  item.chunks.count = 1;
  item.chunks.total = slice;
  const Address own = input + rank_ * slice;
  item.aligned = own % 16 == 0 && reinterpret_cast<Address>(call.output) % 16 == 0 ? 1 : 0;
  item.input_type = call.input_type;
  item.output_type = call.output_type;
  item.scale = call.scale;
  return item;
}

Result<void> ReplayableCollectives::reduce_scatter(const ScatterCall& call, cudaStream_t stream) {
  if (!reducible(call.input_type) || !reducible(call.output_type))
    return fail(ErrorKind::mismatch, "a reduce-scatter sums float32, bfloat16 and float16 only");
  if (call.elements == 0) return {};
  const auto item = item_of(call);
  FORESHARD_TRY(item);
  auto* const words = reinterpret_cast<std::uint32_t*>(control_) + kFlagWords;
  ReduceLinks links;
  links.complete = words + Word::complete;
  links.complete_host = words + Word::ignored;
  links.finished = words + Word::finished;
  links.abandon = words + Word::zero;
  ReduceLaunch launch;
  launch.ctas = PullReduceCtas{}.of(ranks(), itemsize(call.output_type) > itemsize(call.input_type));
  launch.ctas = (launch.ctas + launch.cluster - 1) / launch.cluster * launch.cluster;
  FORESHARD_TRY(meet(CallKind::reduce_scatter, 0, stream));
  // A launch whose item is complete does nothing: what the replay before this one has left.
  CUstreamBatchMemOpParams again = write_word(reinterpret_cast<Address>(links.complete), 0);
  FORESHARD_TRY(put_words({&again, 1}, stream));
  FORESHARD_TRY(launch_reduce(*item, links, launch, stream));
  return meet(CallKind::reduce_scatter, 1, stream);
}

}  // namespace foreshard::gpu
