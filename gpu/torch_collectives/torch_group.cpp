#include "gpu/torch_collectives/torch_group.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <thread>

#include "gpu/collectives/driver.hpp"
#include "gpu/collectives/stream_words.hpp"

namespace foreshard::gpu {
namespace {

constexpr std::chrono::milliseconds kLook{50};  // between two looks at the peers

std::uint32_t number(CallKind kind) {
  return static_cast<std::uint32_t>(kind);
}

}  // namespace

struct TorchGroup::Progress {
  std::uint32_t done[kCallKinds];  ///< calls that ended, of those that were not captured
  std::uint32_t busy[kCallKinds];  ///< 1: a replayed call is on its way
};

Result<std::unique_ptr<TorchGroup>> TorchGroup::open(const TorchGroupSettings& settings) {
  if (settings.ranks < 2 || settings.ranks > kMaxPeers || settings.rank >= settings.ranks)
    return fail(ErrorKind::usage, fmt::format("rank {} of {}; groups of 2 to {} ranks are served", settings.rank,
                                              settings.ranks, kMaxPeers));
  FORESHARD_TRY(check(cudaSetDevice(settings.device), "cudaSetDevice"));
  FORESHARD_TRY(driver());
  FORESHARD_TRY(reduce_runs_here());
  std::unique_ptr<TorchGroup> group(new TorchGroup(settings));
  auto sockets =
      PeerSockets::open(settings.rank, settings.ranks, std::min(settings.connect, settings.limits.timeout / 2));
  FORESHARD_TRY(sockets);
  group->sockets_ = std::move(*sockets);
  return group;
}

Result<void> TorchGroup::connect(const std::vector<std::string>& addresses) {
  const std::lock_guard lock(mutex_);
  FORESHARD_TRY(check(cudaSetDevice(settings_.device), "cudaSetDevice"));
  FORESHARD_TRY(sockets_->connect(addresses));
  auto records = CallRecords::create(*sockets_);
  FORESHARD_TRY(records);
  records_ = std::move(*records);
  std::size_t free = 0;
  std::size_t total = 0;
  FORESHARD_TRY(check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo"));
  auto heap = SymmetricHeap::create(*sockets_, total);
  FORESHARD_TRY(heap);
  heap_ = std::move(*heap);
  std::vector<std::uint32_t> members;
  for (std::uint32_t r = 0; r < settings_.ranks; ++r) members.push_back(r);
  auto eager = SymmMemCollectives::create(*heap_, members, settings_.rank, SymmMemTuning{});
  FORESHARD_TRY(eager);
  eager_ = std::move(*eager);
  void* progress = nullptr;
  FORESHARD_TRY(check(cudaHostAlloc(&progress, sizeof(Progress), cudaHostAllocMapped), "cudaHostAlloc"));
  std::memset(progress, 0, sizeof(Progress));
  progress_ = static_cast<Progress*>(progress);
  auto replayable = ReplayableCollectives::create(*heap_, std::move(members), settings_.rank, progress_->busy);
  FORESHARD_TRY(replayable);
  replayable_ = std::move(*replayable);
  for (Lane& lane : lanes_)
    for (cudaEvent_t* event : {&lane.last, &lane.last_captured})
      FORESHARD_TRY(check(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreate"));
  sockets_->set_timeout(settings_.limits.timeout);
  return {};
}

TorchGroup::~TorchGroup() {
  // CUDA waits for the device to free memory: nobody is to wait for this rank meanwhile.
  if (sockets_ != nullptr) sockets_->leave();
  for (Lane& lane : lanes_)
    for (cudaEvent_t event : {lane.last, lane.last_captured})
      if (event != nullptr) (void)cudaEventDestroy(event);
  replayable_.reset();
  eager_.reset();
  if (progress_ != nullptr) (void)cudaFreeHost(progress_);
}

Result<void> TorchGroup::usable() {
  if (lost_.load()) return fail(ErrorKind::rank_lost, "the group was given up because a rank is lost");
  if (replayable_ == nullptr) return fail(ErrorKind::usage, "the group is not connected");
  if (const auto peer = sockets_->gone()) {
    ++refused_;
    return fail(ErrorKind::rank_lost, fmt::format("rank {} of the group has ended", *peer));
  }
  return check(cudaSetDevice(settings_.device), "cudaSetDevice");
}

Result<void*> TorchGroup::allocate(Bytes bytes) {
  const std::lock_guard lock(mutex_);
  FORESHARD_TRY(usable());
  if (unallocatable_) return tl::unexpected<Error>(*unallocatable_);
  // Mapping memory puts nothing on a stream: a capture of this thread, or a global one, need not end for it.
  auto mode = cudaStreamCaptureModeRelaxed;
  FORESHARD_TRY(check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode"));
  auto memory = heap_->allocate(bytes);
  FORESHARD_TRY(check(cudaThreadExchangeStreamCaptureMode(&mode), "cudaThreadExchangeStreamCaptureMode"));
  if (memory || (memory.error().kind == ErrorKind::out_of_memory && heap_->in_step())) return memory;
  unallocatable_ = memory.error();
  if (unallocatable_->kind == ErrorKind::out_of_memory)
    unallocatable_->kind = ErrorKind::mismatch;  // of this rank alone
  return tl::unexpected<Error>(*unallocatable_);
}

bool TorchGroup::contains(const void* memory, Bytes bytes) {
  const std::lock_guard lock(mutex_);
  return heap_ != nullptr && heap_->contains(reinterpret_cast<Address>(memory), bytes);
}

Result<void> TorchGroup::follow(Lane& lane, cudaStream_t stream, unsigned long long capture) {
  if (lane.stream == nullptr || lane.stream == stream) return {};
  // What is outside a capture cannot be waited for in it; whoever captures synchronises before.
  if (lane.capture != capture) return {};
  return check(cudaStreamWaitEvent(stream, capture != 0 ? lane.last_captured : lane.last, 0), "cudaStreamWaitEvent");
}

Result<void> TorchGroup::finish(Lane& lane, CallKind kind, cudaStream_t stream, unsigned long long capture) {
  if (capture == 0) {
    const auto done = reinterpret_cast<Address>(&progress_->done[number(kind)]);
    CUstreamBatchMemOpParams ended = write_word(done, ++lane.calls);
    issued_[number(kind)].store(lane.calls);
    FORESHARD_TRY(put_words({&ended, 1}, stream));
  }
  lane.stream = stream;
  lane.capture = capture;
  return check(cudaEventRecord(capture != 0 ? lane.last_captured : lane.last, stream), "cudaEventRecord");
}

template <class Eager, class Captured>
Result<void> TorchGroup::issue(const CallRecord& record, cudaStream_t stream, Eager eager, Captured captured) {
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  FORESHARD_TRY(check(cudaStreamGetCaptureInfo(stream, &status, &id), "cudaStreamGetCaptureInfo"));
  const unsigned long long capture = status == cudaStreamCaptureStatusNone ? 0 : id;
  Lane& lane = lanes_[number(record.kind)];
  CallRecord mine = record;
  mine.captured = capture != 0 ? 1 : 0;
  FORESHARD_TRY(records_->agree(mine));
  FORESHARD_TRY(follow(lane, stream, capture));
  FORESHARD_TRY(capture != 0 ? captured() : eager());
  return finish(lane, record.kind, stream, capture);
}

Result<void> TorchGroup::all_gather(const void* input, void* output, Bytes slice, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  FORESHARD_TRY(usable());
  const CallRecord record{CallKind::all_gather, 0, heap_->place(reinterpret_cast<Address>(output)), slice};
  return issue(
      record, stream, [&] { return eager_->all_gather(input, output, slice, stream); },
      [&] { return replayable_->all_gather(input, output, slice, stream); });
}

Result<void> TorchGroup::reduce_scatter(const ScatterCall& call, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  FORESHARD_TRY(usable());
  const CallRecord record{CallKind::reduce_scatter, 0, heap_->place(reinterpret_cast<Address>(call.input)),
                          call.elements * itemsize(call.input_type)};
  return issue(
      record, stream, [&] { return eager_->reduce_scatter(call, stream); },
      [&] { return replayable_->reduce_scatter(call, stream); });
}

GroupProgress TorchGroup::progress() const {
  GroupProgress now;
  for (std::uint32_t kind = 0; kind < kCallKinds; ++kind) {
    LaneProgress& lane = now.lanes[kind];
    lane.done = std::atomic_ref<std::uint32_t>(progress_->done[kind]).load();
    lane.issued = issued_[kind].load();  // after done, which does not pass it
    lane.replaying = std::atomic_ref<std::uint32_t>(progress_->busy[kind]).load() != 0;
  }
  now.gone = sockets_->gone();
  now.refused = refused_.load();
  return now;
}

Result<void> TorchGroup::watch(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  if (progress_ == nullptr) return fail(ErrorKind::usage, "the group is not connected");
  for (;;) {
    if (lost_.load()) return fail(ErrorKind::rank_lost, "the group was given up");
    const auto now = std::chrono::steady_clock::now();
    if (auto kept = timers_.look(progress(), now); !kept) {
      lost_.store(true);
      return kept;
    }
    if (now >= end) return {};
    std::this_thread::sleep_for(kLook);
  }
}

}  // namespace foreshard::gpu
