#include "gpu/cuda/cuda_device.hpp"

#include <algorithm>
#include <optional>

#include "gpu/cuda/device_failure.hpp"

namespace foreshard::gpu {
namespace {

void* pointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT: a device address
}

/// A collective of one rank: its output is its input.
Result<void> copy_through(const CollectiveWork& work, cudaStream_t stream) {
  if (work.input == work.output) return {};
  return check(cudaMemcpyAsync(pointer(work.output), pointer(work.input), work.bytes, cudaMemcpyDeviceToDevice, stream),
               "cudaMemcpyAsync");
}

}  // namespace

Result<std::unique_ptr<CudaDevice>> CudaDevice::create(Executor& executor, DeviceMemory& memory,
                                                       CudaDeviceOptions options) {
  return guarded([&]() -> Result<std::unique_ptr<CudaDevice>> {
    std::unique_ptr<CudaDevice> device(new CudaDevice(executor, memory, std::move(options)));
    static_cast<void>(device->create_stream({"compute", 0}));
    return device;
  });
}

CudaDevice::CudaDevice(Executor& executor, DeviceMemory& memory, CudaDeviceOptions options)
    : executor_(executor), options_(std::move(options)), clock_(options_.timing), staging_(memory) {}

CudaDevice::~CudaDevice() {
  graph_.release();
  static_cast<void>(cudaDeviceSynchronize());
  for (cudaStream_t stream : streams_) static_cast<void>(cudaStreamDestroy(stream));
}

void CudaDevice::check_health() {
  if (options_.healthy) require(options_.healthy());
}

StreamId CudaDevice::create_stream(const StreamOptions& options) {
  int lowest = 0;
  int highest = 0;
  require(cudaDeviceGetStreamPriorityRange(&lowest, &highest), "cudaDeviceGetStreamPriorityRange");
  cudaStream_t stream = nullptr;
  require(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, std::clamp(options.priority, highest, lowest)),
          "cudaStreamCreateWithPriority");
  streams_.push_back(stream);
  return StreamId{static_cast<std::uint32_t>(streams_.size() - 1)};
}

CommunicatorId CudaDevice::create_communicator(const CommunicatorOptions& options) {
  Group group;
  group.ranks = options.ranks;
  if (options.ranks > 1) {
    if (!options_.make_group)
      throw DeviceFailure(
          {ErrorKind::usage, "a group of several ranks on a device that has no others", options.name, {}});
    group.run = require(options_.make_group(options));
  }
  groups_.push_back(std::move(group));
  return CommunicatorId{static_cast<std::uint32_t>(groups_.size() - 1)};
}

template <class Put>
OpId CudaDevice::add_node(StreamId stream, LabelId label, const Put& put, std::optional<CommunicatorId> communicator) {
  const OpId op = clock_.node(stream, communicator);
  graph_.count_op();
  if (graph_.state() == LaunchedGraph::State::replaying) return op;
  if (options_.on_op) options_.on_op(label);
  const Result<void> done = guarded([&]() -> Result<void> {
    FORESHARD_TRY(put(handle(stream)));
    return check(cudaPeekAtLastError(), "the op's launch");
  });
  graph_.require_captured(done, handle(stream), options_.name_of ? options_.name_of(label) : std::string());
  return op;
}

template <class Put>
OpId CudaDevice::add(StreamId stream, LabelId label, const Put& put, std::optional<CommunicatorId> communicator) {
  if (graph_.inside()) return add_node(stream, label, put, communicator);
  if (options_.on_op) options_.on_op(label);
  const cudaStream_t on = handle(stream);
  const OpId op = clock_.begin(stream, on);
  require(put(on));
  require(cudaPeekAtLastError(), "the op's launch");
  clock_.end(op, on, communicator);
  return op;
}

void CudaDevice::host_work(Nanoseconds length) {
  if (!options_.pace_host) return;
  const Nanoseconds until = paced_ + length;
  do paced_ = clock_.now();
  while (paced_ < until);
}

OpId CudaDevice::launch(StreamId stream, const KernelLaunch& kernel) {
  return add(stream, kernel.cost.label, [&](cudaStream_t on) {
    return kernel.kernel == nullptr ? executor_.emulate(kernel.cost, on)
                                    : executor_.run(*kernel.kernel, kernel.addresses, on);
  });
}

OpId CudaDevice::copy(StreamId stream, const CopyWork& work) {
  return add(stream, work.label, [&](cudaStream_t on) -> Result<void> {
    staging_.copy(work, on);
    return {};
  });
}

// NCCL orders the kernels of a communicator by itself only on one stream; ours have no such order. The event behind
// each collective makes every back end keep the rule of the seam.
OpId CudaDevice::collective(StreamId stream, CommunicatorId communicator, const CollectiveWork& work) {
  Group& group = groups_[communicator.value];
  if (group.last.valid() && group.last_stream != stream) stream_wait_event(stream, group.last);
  const CollectiveWork whole = work.input != 0 && work.output != 0 ? work : staging_.with_addresses(work, group.ranks);
  const auto items = [&] { return group.run.resident_items ? group.run.resident_items() : 0; };
  const std::uint32_t before = items();
  const OpId op = add(
      stream, work.label,
      [&](cudaStream_t on) { return group.run.issue ? group.run.issue(whole, on) : copy_through(whole, on); },
      communicator);
  if (items() != before && clock_.timing() == Timing::activities)
    resident_.push_back({op, communicator, before, items()});
  group.last = record_event(stream);
  group.last_stream = stream;
  return op;
}

EventId CudaDevice::record_event(StreamId stream) {
  if (!graph_.inside()) return events_.record(stream, handle(stream));
  const EventId event = events_.completed();
  graph_.record(event, handle(stream));
  return event;
}

bool CudaDevice::event_complete(EventId event) {
  return events_.complete(event);
}

void CudaDevice::synchronize_event(EventId event) {
  events_.synchronize(event);
  check_health();
}

void CudaDevice::stream_wait_event(StreamId stream, EventId event) {
  if (graph_.inside())
    graph_.wait(handle(stream), event);
  else
    events_.wait(handle(stream), event);
}

void CudaDevice::forget_order() {
  for (Group& group : groups_) group.last = {};
}

void CudaDevice::begin_graph_launch() {
  forget_order();
  clock_.begin_launch();
  graph_.begin(streams_);
}

void CudaDevice::end_graph_launch() {
  graph_.end(streams_);
  graph_.join(streams_);
  clock_.launch(handle(kComputeStream), [this] { graph_.launch(); });
  graph_.fork(streams_);
  forget_order();
}

std::uint64_t CudaDevice::place_resident(std::span<OpTiming> timings) {
  std::uint64_t left = 0;
  // From the GPU's clock to CUPTI's: by the last launch that did its own item.
  std::optional<std::int64_t> offset;
  for (const ResidentOp& resident : resident_) {
    OpTiming& timing = timings[resident.op.value];
    const GroupCollectives& group = groups_[resident.communicator.value].run;
    const ItemTime first = group.item_time(resident.first);
    const ItemTime last = group.item_time(resident.end - 1);
    if (first.number != resident.first + 1 || last.number != resident.end || last.end == 0) {
      ++left;
      continue;
    }
    if (first.launch == first.number) offset = timing.start.count - static_cast<std::int64_t>(first.begin);
    if (!offset) {
      ++left;
      continue;
    }
    timing.start = {static_cast<std::int64_t>(first.begin) + *offset};
    timing.end = {static_cast<std::int64_t>(last.end) + *offset};
  }
  resident_.clear();
  return left;
}

void CudaDevice::synchronize() {
  require(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  check_health();
  events_.all_complete();
  clock_.settle([this](std::span<OpTiming> timings) { return place_resident(timings); });
}

}  // namespace foreshard::gpu
