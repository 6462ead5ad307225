#include "gpu/collectives/symm_mem_collectives.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>

#include "core/base/check.hpp"
#include "core/device/pull_reduce_ctas.hpp"
#include "core/device/transport_choice.hpp"
#include "gpu/collectives/driver.hpp"

namespace foreshard::gpu {
namespace {

constexpr Bytes kCounterBytes = (kMaxSlots + 2) * sizeof(std::uint32_t);  // slots, items resident and immediate
constexpr Bytes kControlBytes = kFlagBytes + kCounterBytes + sizeof(std::uint64_t);
static_assert((kFlagBytes + kCounterBytes) % sizeof(std::uint64_t) == 0);
// The kernel counts the bytes of a chunk, and a stride of its grid past the end, in 32 bits.
constexpr Bytes kMaxDirect = 2 * kGiB;
/// Above every counter that a run reaches, and as the same byte four times.
constexpr unsigned char kAbandoned = 0x3f;

bool aligned(Address address) {
  return address % 16 == 0;
}

TransferOp own_signal(TransferOp::Kind kind, std::uint32_t rank, std::uint32_t slot, std::uint32_t value) {
  TransferOp op;
  op.kind = kind;
  op.flag = Flag::worker;
  op.peer = rank;
  op.slot = slot;
  op.value = value;
  return op;
}

/// Whether `device` reaches the GPU of this PCI bus id over NVLink, by what CUDA says of atomics; not if this process
/// cannot see that GPU.
bool atomics_reach(int device, const std::string& bus_id) {
  int peer = 0;
  int native = 0;
  if (cudaDeviceGetByPCIBusId(&peer, bus_id.c_str()) == cudaSuccess) {
    if (peer == device) return true;
    if (cudaDeviceGetP2PAttribute(&native, cudaDevP2PAttrNativeAtomicSupported, device, peer) == cudaSuccess)
      return native != 0;
  }
  (void)cudaGetLastError();  // an invisible GPU is no failure
  return false;
}

}  // namespace

/// Pinned host memory that the reduction kernel reads and writes.
struct SymmMemCollectives::HostShared {
  ReduceItem ring[kItemRing];
  ItemTime times[kItemTimes];
  alignas(64) std::atomic<std::uint32_t> complete;
  alignas(64) std::atomic<std::uint32_t> abandon;
  alignas(64) unsigned char poison[kFlagBytes];
};

SymmMemCollectives::SymmMemCollectives(SymmetricHeap& heap, std::vector<std::uint32_t> members, std::uint32_t rank,
                                       const SymmMemTuning& tuning)
    : heap_(heap), members_(std::move(members)), rank_(rank), tuning_(tuning) {}

Result<std::unique_ptr<SymmMemCollectives>> SymmMemCollectives::create(SymmetricHeap& heap,
                                                                       std::vector<std::uint32_t> members,
                                                                       std::uint32_t rank,
                                                                       const SymmMemTuning& tuning) {
  if (members.empty() || members.size() > kMaxPeers)
    return fail(ErrorKind::usage,
                fmt::format("the low-contention collectives serve 1 to {} ranks, not {}", kMaxPeers, members.size()));
  FORESHARD_CHECK(rank < members.size() && tuning.scatter.slots <= kMaxSlots, "a rank of the group; slots that fit");
  std::unique_ptr<SymmMemCollectives> own(new SymmMemCollectives(heap, std::move(members), rank, tuning));
  FORESHARD_TRY(own->set_up());
  return own;
}

Result<void> SymmMemCollectives::set_up() {
  const auto control = heap_.allocate(kControlBytes);
  FORESHARD_TRY(control);
  control_ = *control;
  fixed_bytes_ = kControlBytes;
  FORESHARD_TRY(check(cudaMemset(control_, 0, kControlBytes), "cudaMemset"));
  FORESHARD_TRY(make_inboxes());
  FORESHARD_TRY(find_links());
  FORESHARD_TRY(check(cudaDeviceSynchronize(), "cudaDeviceSynchronize"));
  FORESHARD_TRY(heap_.bootstrap().barrier("own collectives"));

  void* host = nullptr;
  FORESHARD_TRY(check(cudaHostAlloc(&host, sizeof(HostShared), cudaHostAllocMapped), "cudaHostAlloc"));
  std::memset(host, 0, sizeof(HostShared));
  host_ = static_cast<HostShared*>(host);
  std::memset(host_->poison, kAbandoned, sizeof host_->poison);

  addresses_.rank = rank_;
  addresses_.flags = copies_of(control_);
  auto* counters = reinterpret_cast<std::uint32_t*>(addresses_.flags[rank_] + kFlagBytes);
  links_.counters = counters;
  links_.finished = counters + kMaxSlots;
  links_.decision = reinterpret_cast<std::uint64_t*>(counters + kMaxSlots + 2);
  links_.started = flag(rank_, Flag::worker, rank_);
  links_.complete = links_.started + 1;
  links_.ring = host_->ring;
  links_.complete_host = reinterpret_cast<std::uint32_t*>(&host_->complete);
  links_.abandon = reinterpret_cast<const std::uint32_t*>(&host_->abandon);
  links_.times = host_->times;
  links_.linger_ns = tuning_.linger_ns;
  immediate_links_ = links_;
  immediate_links_.finished = counters + kMaxSlots + 1;
  immediate_links_.complete = links_.started + 2;
  immediate_links_.complete_host = links_.started + 3;
  immediate_links_.times = nullptr;
  immediate_links_.linger_ns = 0;

  for (auto* runner : {&gather_runner_, &scatter_runner_}) {
    auto made = TransferRunner::create(2);
    FORESHARD_TRY(made);
    *runner = std::move(*made);
  }
  int low = 0;
  int high = 0;
  FORESHARD_TRY(check(cudaDeviceGetStreamPriorityRange(&low, &high), "cudaDeviceGetStreamPriorityRange"));
  FORESHARD_TRY(check(cudaStreamCreateWithPriority(&worker_, cudaStreamNonBlocking, high), "cudaStreamCreate"));
  FORESHARD_TRY(check(cudaStreamCreateWithPriority(&rescue_, cudaStreamNonBlocking, high), "cudaStreamCreate"));
  return check(cudaEventCreateWithFlags(&started_, cudaEventDisableTiming), "cudaEventCreate");
}

Bytes SymmMemCollectives::half_inbox(CollectiveKind kind) const {
  const Bytes most = kind == CollectiveKind::all_gather ? tuning_.exchange_gather : tuning_.exchange_scatter;
  return most == 0 ? 0 : exchange_half(most);
}

bool SymmMemCollectives::exchanges(CollectiveKind kind, Bytes bytes) const {
  return joined_ && ranks() > 1 && is_small(kind, bytes, tuning_.exchange_gather, tuning_.exchange_scatter);
}

Result<void> SymmMemCollectives::make_inboxes() {
  const Bytes bytes = 2 * (half_inbox(CollectiveKind::all_gather) + half_inbox(CollectiveKind::reduce_scatter));
  if (bytes == 0) return {};
  const auto inboxes = heap_.allocate(bytes);
  FORESHARD_TRY(inboxes);
  fixed_bytes_ += bytes;
  inboxes_ = copies_of(*inboxes);
  return check(cudaMemset(*inboxes, 0, bytes), "cudaMemset");
}

Result<void> SymmMemCollectives::find_links() {
  if (tuning_.exchange_gather == 0 && tuning_.exchange_scatter == 0) return {};
  int device = 0;
  FORESHARD_TRY(check(cudaGetDevice(&device), "cudaGetDevice"));
  std::array<char, 32> name{};
  FORESHARD_TRY(check(cudaDeviceGetPCIBusId(name.data(), name.size(), device), "cudaDeviceGetPCIBusId"));
  const auto devices = heap_.bootstrap().all_gather("GPUs of own collectives", name.data());
  FORESHARD_TRY(devices);
  const std::uint32_t first = heap_.bootstrap().rank() - heap_.bootstrap().local_rank();
  bool joined = true;
  for (const std::uint32_t member : members_) joined = joined && atomics_reach(device, (*devices)[first + member]);
  const auto all = heap_.bootstrap().all_gather("links of own collectives", joined ? "1" : "0");
  FORESHARD_TRY(all);
  joined_ = std::all_of(members_.begin(), members_.end(),
                        [&](std::uint32_t member) { return (*all)[first + member] == "1"; });
  return {};
}

ExchangeItem SymmMemCollectives::exchange_of(const void* input, void* output, Bytes slice, CollectiveKind kind) {
  const bool gathers = kind == CollectiveKind::all_gather;
  ExchangeItem item;
  item.input = input;
  item.output = output;
  item.slice = slice;
  item.call = ++exchanged_[gathers ? 0 : 1];
  item.ranks = ranks();
  item.rank = rank_;
  item.abandon = links_.abandon;
  const Bytes before = gathers ? 0 : 2 * half_inbox(CollectiveKind::all_gather);
  const Bytes offset = before + item.call % 2 * half_inbox(kind);
  for (std::uint32_t r = 0; r < ranks(); ++r) item.inbox[r] = reinterpret_cast<char*>(inboxes_[r] + offset);
  return item;
}

Result<void> SymmMemCollectives::make_staging() {
  if (staging_ != nullptr) return {};
  // Groups of different sizes may stage side by side: the largest decides what every rank of the host allocates.
  const Bytes bytes = tuning_.scatter.staging(heap_.bootstrap().local_ranks());
  const auto staging = heap_.allocate(bytes);
  FORESHARD_TRY(staging);
  staging_ = *staging;
  fixed_bytes_ += bytes;
  addresses_.staging = copies_of(staging_);
  return {};
}

SymmMemCollectives::~SymmMemCollectives() {
  if (worker_ != nullptr) (void)cudaStreamDestroy(worker_);
  if (rescue_ != nullptr) (void)cudaStreamDestroy(rescue_);
  if (started_ != nullptr) (void)cudaEventDestroy(started_);
  if (host_ != nullptr) (void)cudaFreeHost(host_);
}

std::uint32_t* SymmMemCollectives::flag(std::uint32_t on, Flag which, std::uint32_t writer) const {
  return reinterpret_cast<std::uint32_t*>(addresses_.flags[on] + flag_offset(which, writer, 0));
}

std::array<Address, kMaxPeers> SymmMemCollectives::copies_of(const void* memory) const {
  std::array<Address, kMaxPeers> copies{};
  const Address own = reinterpret_cast<Address>(memory);
  for (std::uint32_t r = 0; r < ranks(); ++r) copies[r] = heap_.translate(own, members_[r]).value_or(0);
  copies[rank_] = own;
  return copies;
}

Result<void> SymmMemCollectives::all_gather(const void* input, void* output, Bytes slice, cudaStream_t stream) {
  const bool in_place = static_cast<const char*>(input) == static_cast<char*>(output) + rank_ * slice;
  if (!heap_.contains(reinterpret_cast<Address>(output), slice * ranks()))
    return fail(ErrorKind::mismatch, "the output of a low-contention all-gather is not in symmetric memory");
  if (exchanges(CollectiveKind::all_gather, slice * ranks()))
    return launch_exchange_gather(exchange_of(input, output, slice, CollectiveKind::all_gather), tuning_.exchange_ctas,
                                  stream);
  addresses_.input = copies_of(input);
  addresses_.output = copies_of(output);
  return gather_runner_->run(plan_gather({ranks(), rank_, {{0, slice}}, in_place, ++gathers_}), addresses_, stream);
}

Result<void> SymmMemCollectives::all_gather(const void* input, std::span<const ShardedTensor> tensors,
                                            cudaStream_t stream) {
  FORESHARD_CHECK(!tensors.empty(), "an all-gather of no tensor");
  const Address first = tensors.front().address;
  GatherShape shape{ranks(), rank_, {}, reinterpret_cast<Address>(input) == first, 0};
  Bytes bytes = 0;
  Bytes from = 0;
  for (const ShardedTensor& tensor : tensors) {
    FORESHARD_CHECK(tensor.address >= first, "the first tensor lies lowest");
    shape.pieces.push_back({tensor.address - first, tensor.part, from});
    from += tensor.part;
    bytes = std::max(bytes, tensor.address - first + tensor.part * ranks());
  }
  if (!heap_.contains(first, bytes))
    return fail(ErrorKind::mismatch, "the tensors of a low-contention all-gather are not in one symmetric allocation");
  shape.sequence = ++gathers_;
  addresses_.input = copies_of(input);
  addresses_.output = copies_of(reinterpret_cast<const void*>(first));
  return gather_runner_->run(plan_gather(shape), addresses_, stream);
}

ScatterPath SymmMemCollectives::scatter_path(const ScatterCall& call) const {
  const Bytes slice = call.elements * itemsize(call.input_type);
  if (exchanges(CollectiveKind::reduce_scatter, slice * ranks())) return ScatterPath::exchanged;
  const bool direct = slice * ranks() <= tuning_.direct_up_to && slice <= kMaxDirect &&
                      heap_.contains(reinterpret_cast<Address>(call.input), slice * ranks());
  return direct ? ScatterPath::direct : ScatterPath::staged;
}

Result<void> SymmMemCollectives::reduce_scatter(const ScatterCall& call, cudaStream_t stream) {
  if (!reducible(call.input_type) || !reducible(call.output_type))
    return fail(ErrorKind::mismatch, "a reduce-scatter sums float32, bfloat16 and float16 only");
  if (call.elements == 0) return {};
  const Bytes slice = call.elements * itemsize(call.input_type);
  const ScatterPath path = scatter_path(call);
  if (path == ScatterPath::exchanged) {
    ExchangeItem item = exchange_of(call.input, call.output, slice, CollectiveKind::reduce_scatter);
    item.input_type = call.input_type;
    item.output_type = call.output_type;
    item.scale = call.scale;
    return launch_exchange_reduce(item, tuning_.exchange_ctas, stream);
  }
  const bool staged = path == ScatterPath::staged;
  if (staged) FORESHARD_TRY(make_staging());
  ReduceItem item = item_of(call);
  if (staged)
    add_staged(item, slice);
  else
    add_direct(item, call, slice);
  if (!staged) return reduce_direct(item, slice, stream);
  FORESHARD_TRY(start_persistent(item, stream));
  FORESHARD_TRY(push(call, slice, stream));
  const TransferOp complete = own_signal(TransferOp::Kind::wait, rank_, 1, items_);
  return TransferRunner::signal({&complete, 1}, addresses_, stream);
}

ReduceItem SymmMemCollectives::item_of(const ScatterCall& call) const {
  ReduceItem item;
  item.output = call.output;
  item.ranks = ranks();
  item.rank = rank_;
  item.input_type = call.input_type;
  item.output_type = call.output_type;
  item.scale = call.scale;
  const char* own = static_cast<const char*>(call.input) + rank_ * call.elements * itemsize(call.input_type);
  item.source[rank_] = own;
  item.aligned = aligned(reinterpret_cast<Address>(call.output)) && aligned(reinterpret_cast<Address>(own)) ? 1 : 0;
  return item;
}

void SymmMemCollectives::add_staged(ReduceItem& item, Bytes slice) const {
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    if (r != rank_)
      item.source[r] = reinterpret_cast<const void*>(addresses_.staging[rank_] + staging_offset(tuning_.scatter, r, 0));
    item.ready[r] = flag(rank_, Flag::arrived, r);
    item.answer[r] = flag(r, Flag::credit, rank_);
  }
  item.chunks = cut_slices(slice, tuning_.scatter);
  item.slot_bytes = tuning_.scatter.slot();
  item.slots = tuning_.scatter.slots;
  item.first_chunk = chunks_;
}

void SymmMemCollectives::add_direct(ReduceItem& item, const ScatterCall& call, Bytes slice) {
  const std::array<Address, kMaxPeers> inputs = copies_of(call.input);
  for (std::uint32_t r = 0; r < ranks(); ++r) item.source[r] = reinterpret_cast<const void*>(inputs[r] + rank_ * slice);
  enter_direct(item);
  item.chunks.count = 1;
  item.chunks.total = slice;
}

/// Peers say that their inputs may be read, and this rank when it has read them.
void SymmMemCollectives::enter_direct(ReduceItem& item) {
  for (std::uint32_t r = 0; r < ranks(); ++r) {
    item.ready[r] = flag(rank_, Flag::entered, r);
    item.enter[r] = flag(r, Flag::entered, rank_);
    item.answer[r] = flag(r, Flag::consumed, rank_);
    item.consumed[r] = flag(rank_, Flag::consumed, r);
  }
  item.direct = 1;
  item.first_chunk = directs_++;
}

void SymmMemCollectives::add_tensors(ReduceItem& item, std::span<const ShardedTensor> tensors) {
  enter_direct(item);
  item.tensors = item.chunks.count = item.chunks.tail = static_cast<std::uint32_t>(tensors.size());
  for (std::size_t k = 0; k < tensors.size(); ++k) {
    const ShardedTensor& tensor = tensors[k];
    const Bytes first = std::min(rank_ * tensor.part, tensor.bytes);
    const std::array<Address, kMaxPeers> copies = copies_of(reinterpret_cast<const void*>(tensor.address));
    for (std::uint32_t r = 0; r < ranks(); ++r) item.tensor[k][r] = reinterpret_cast<const void*>(copies[r] + first);
    item.tensor_bytes[k] = static_cast<std::uint32_t>(std::min(tensor.part, tensor.bytes - first));
    item.chunks.tail_begin[k] = item.chunks.total;
    item.chunks.total += tensor.part;
    if (!aligned(tensor.address + first) || !aligned(tensor.part)) item.aligned = 0;
  }
}

Result<void> SymmMemCollectives::reduce_direct(ReduceItem& item, Bytes slice, cudaStream_t stream) {
  if (slice * ranks() <= tuning_.brief_up_to) return immediate(item, slice, stream);
  FORESHARD_TRY(start_persistent(item, stream));
  const TransferOp complete = own_signal(TransferOp::Kind::wait, rank_, 1, items_);
  return TransferRunner::signal({&complete, 1}, addresses_, stream);
}

Result<void> SymmMemCollectives::reduce_scatter(const ScatterCall& call, std::span<const ShardedTensor> tensors,
                                                cudaStream_t stream) {
  if (!reducible(call.input_type) || !reducible(call.output_type))
    return fail(ErrorKind::mismatch, "a reduce-scatter sums float32, bfloat16 and float16 only");
  for (const ShardedTensor& tensor : tensors) {
    if (!heap_.contains(tensor.address, tensor.bytes))
      return fail(ErrorKind::mismatch, "a gradient that a reduce-scatter reads is not in symmetric memory");
    if (tensor.part > kMaxDirect)
      return fail(ErrorKind::mismatch, fmt::format("a gradient of {} bytes a rank: a reduce-scatter reads up to {}",
                                                   tensor.part, kMaxDirect));
  }
  ScatterCall some = call;
  while (!tensors.empty()) {
    const auto run = tensors.first(std::min<std::size_t>(tensors.size(), kMaxTail));
    some.input = reinterpret_cast<const void*>(run.front().address);
    ReduceItem item = item_of(some);
    item.aligned = aligned(reinterpret_cast<Address>(some.output)) ? 1 : 0;
    add_tensors(item, run);
    const Bytes slice = item.chunks.total;
    FORESHARD_TRY(reduce_direct(item, slice, stream));
    some.output = static_cast<char*>(some.output) + slice / itemsize(call.input_type) * itemsize(call.output_type);
    tensors = tensors.subspan(run.size());
  }
  return {};
}

/// The same for all items of one pair of types: a resident launch takes no others.
ReduceLaunch SymmMemCollectives::launch_of(const ReduceItem& item) const {
  ReduceLaunch launch = tuning_.reduce;
  if (launch.ctas == 0)
    launch.ctas = PullReduceCtas{}.of(ranks(), itemsize(item.output_type) > itemsize(item.input_type));
  launch.ctas = (launch.ctas + launch.cluster - 1) / launch.cluster * launch.cluster;
  return launch;
}

Result<void> SymmMemCollectives::immediate(ReduceItem& item, Bytes slice, cudaStream_t stream) {
  item.number = immediates_++;
  // Small slices leave CTAs without a tile; each still costs its launch and its part in the end.
  ReduceLaunch launch = launch_of(item);
  const Bytes tiles = (slice * ranks() + kReduceTile - 1) / kReduceTile;
  if (tiles < launch.ctas)
    launch.ctas = static_cast<std::uint32_t>((tiles + launch.cluster - 1) / launch.cluster) * launch.cluster;
  return launch_reduce(item, immediate_links_, launch, stream);
}

Result<void> SymmMemCollectives::post(const ReduceItem& item) {
  // The slot's former item is done: the kernel may read a slot as long as its item is not complete.
  while (static_cast<std::int32_t>(items_ - host_->complete.load(std::memory_order_acquire)) >=
         static_cast<std::int32_t>(kItemRing)) {
    if (host_->abandon.load(std::memory_order_relaxed) != 0)
      return fail(ErrorKind::rank_lost, "a reduce-scatter was given up because a rank is lost");
    ::sched_yield();
  }
  host_->ring[items_ % kItemRing] = item;
  return {};
}

Result<void> SymmMemCollectives::start_persistent(ReduceItem& item, cudaStream_t stream) {
  item.number = items_;
  FORESHARD_TRY(post(item));
  const TransferOp reached = own_signal(TransferOp::Kind::write, rank_, 0, ++items_);
  FORESHARD_TRY(TransferRunner::signal({&reached, 1}, addresses_, stream));
  FORESHARD_TRY(check(cudaEventRecord(started_, stream), "cudaEventRecord"));
  FORESHARD_TRY(check(cudaStreamWaitEvent(worker_, started_, 0), "cudaStreamWaitEvent"));
  return launch_reduce(item, links_, launch_of(item), worker_);
}

Result<void> SymmMemCollectives::push(const ScatterCall& call, Bytes slice, cudaStream_t stream) {
  addresses_.input = copies_of(call.input);
  const TransferPlan plan = plan_scatter({ranks(), rank_, slice, chunks_, rounds_}, tuning_.scatter);
  const ScatterChunks chunks = cut_slices(slice, tuning_.scatter);
  chunks_ += chunks.count;
  rounds_ += count_rounds(chunks, tuning_.scatter);
  return scatter_runner_->run(plan, addresses_, stream);
}

ItemTime SymmMemCollectives::item_time(std::uint32_t number) const {
  return host_->times[number % kItemTimes];
}

void SymmMemCollectives::abandon() {
  host_->abandon.store(1, std::memory_order_release);
  (void)cudaMemcpyAsync(control_, host_->poison, kFlagBytes, cudaMemcpyHostToDevice, rescue_);
  // What this rank polls at its peers' places.
  for (std::uint32_t r = 0; r < ranks(); ++r)
    (void)cudaMemcpyAsync(flag(r, Flag::posted, r), host_->poison, 2 * sizeof(std::uint32_t), cudaMemcpyHostToDevice,
                          rescue_);
}

}  // namespace foreshard::gpu
