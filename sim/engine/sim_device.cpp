#include "sim/engine/sim_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/kernel/kernel_cost.hpp"
#include "sim/compute/prices.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

RunningOp kernel_running_op(StreamId stream, KernelClass kernel_class, const KernelDemand& demand) {
  if (kernel_class == KernelClass::memset) return {};
  return {stream == kComputeStream ? RunningOp::Role::main_kernel : RunningOp::Role::side_kernel, demand, {}};
}

RunningOp copy_running_op(const MachineProfile& machine, StreamId stream, CopyKind kind, Bytes bytes,
                          Nanoseconds work) {
  switch (kind) {
    case CopyKind::device_to_device:  // moves bytes through the SMs and HBM like an elementwise kernel
      return kernel_running_op(stream, KernelClass::memory_bound, kernel_demand(machine, KernelWork{}));
    case CopyKind::peer_to_peer:
      return {RunningOp::Role::collective, {}, peer_copy_demand(machine, bytes, work)};
    case CopyKind::host_to_device:
    case CopyKind::device_to_host:
      break;
  }
  return {};
}

}  // namespace

SimDevice::SimDevice(const MachineProfile& machine, const CollectiveCost& collectives, const SimOptions& options)
    : machine_(machine),
      collectives_(collectives),
      options_(options),
      launch_queue_(options.launch_queue.value_or(machine.launch_queue)),
      engine_(machine),
      first_collective_wait_(options.first_collective_wait) {
  create_stream({"compute", 0});
}

StreamId SimDevice::create_stream(const StreamOptions& options) {
  stream_names_.push_back(options.name);
  return engine_.add_stream();
}

CommunicatorId SimDevice::create_communicator(const CommunicatorOptions& options) {
  communicators_.push_back({options, false});
  return engine_.add_communicator();
}

OpId SimDevice::launch_cost(StreamId stream, const KernelWork& work) {
  wait_for_room(stream);
  EngineOp op{.stream = stream,
              .communicator = {},
              .running_op = {},
              .issue = host_now_,
              .work = std::min(work.work, kLongestOp)};
  if (needs_price(work)) {
    const KernelPrice price = price_kernel(
        machine_, work, options_.labels != nullptr ? options_.labels->text(work.label) : std::string_view());
    op.work = price.time;
    op.running_op = kernel_running_op(stream, price.kernel_class, kernel_demand(machine_, work, price));
  } else {
    op.running_op = kernel_running_op(stream, work.kernel_class, kernel_demand(machine_, work));
  }
  return engine_.submit(op);
}

OpId SimDevice::launch(StreamId stream, const KernelLaunch& kernel) {
  if (kernel.kernel == nullptr) return launch_cost(stream, kernel.cost);
  if (kernel.kernel->op == KernelOp::fused) {
    wait_for_room(stream);
    return engine_.submit(
        {.stream = stream, .communicator = {}, .running_op = {}, .issue = host_now_, .work = {}, .nothing = true});
  }
  KernelWork moved = kernel.cost;
  if (moved.math.kind == KernelMath::Kind::bytes && moved.math.m == 0) moved.bytes = operand_bytes(*kernel.kernel);
  return launch_cost(stream, moved);
}

OpId SimDevice::copy(StreamId stream, const CopyWork& work) {
  wait_for_room(stream);
  const Nanoseconds time = price(machine_, work);
  return engine_.submit({.stream = stream,
                         .communicator = {},
                         .running_op = copy_running_op(machine_, stream, work.kind, work.bytes, time),
                         .issue = host_now_,
                         .work = time,
                         .is_copy = true});
}

void SimDevice::remember(const CollectiveRequest& request, const CollectivePrice& cost,
                         const std::string& communicator) {
  if (!cost.caveat.empty() && std::find(caveats_.begin(), caveats_.end(), cost.caveat) == caveats_.end())
    caveats_.push_back(cost.caveat);
  if (cost.path.empty()) return;
  auto ran = std::find_if(collectives_ran_.begin(), collectives_ran_.end(), [&](const CollectiveRan& other) {
    return other.kind == request.kind && other.asked == request.transport && other.communicator == communicator;
  });
  if (ran == collectives_ran_.end())
    ran = collectives_ran_.insert(ran, {request.kind, communicator, request.transport, 0, {}, {}, {}});
  if (request.bytes <= ran->bytes) return;
  ran->bytes = request.bytes;
  ran->path = cost.path;
  ran->why_not_asked = cost.why_not_asked;
  ran->first_use = collectives_.first_use(request);
}

OpId SimDevice::collective(StreamId stream, CommunicatorId communicator, const CollectiveWork& work) {
  wait_for_room(stream);
  const Communicator& among = communicators_[communicator.value];
  CollectiveRequest request{work.kind, work.transport, work.bytes, among.options.ranks, among.options.ranks_per_node};
  request.reduction = work.reduction;
  request.upcasts = work.output_dtype && itemsize(*work.output_dtype) > itemsize(work.dtype);
  request.dtype = work.dtype;
  request.lowering = options_.lowering;
  const CollectivePrice cost = collectives_.price(request);
  remember(request, cost, among.options.name);
  const OpId op = engine_.submit(
      {.stream = stream,
       .communicator = communicator,
       .running_op = {RunningOp::Role::collective, {}, collective_demand(machine_, request, cost)},
       .issue = host_now_,
       .work = std::min(cost.time + std::exchange(first_collective_wait_, {}), kLongestOp),
       .lengthens_gaps = work.kind == CollectiveKind::all_gather && cost.uses == CollectiveResource::ring,
       .endless = among.peers_lost});
  host_work(cost.host);  // beyond a plain NCCL call, which the program's own host work covers
  return op;
}

template <class Done>
bool SimDevice::run_until(Done done) {
  engine_.advance(host_now_);
  while (!done()) {
    if (engine_.advance_once()) continue;
    if (!deadlock_) report_deadlock();
    return false;
  }
  return true;
}

void SimDevice::wait_for_room(StreamId stream) {
  if (launch_queue_ == 0 || engine_.unfinished(stream) < launch_queue_) return;
  if (!run_until([&] { return engine_.unfinished(stream) < launch_queue_; })) return;
  if (engine_.now() <= host_now_) return;
  host_blocked_ += engine_.now() - host_now_;
  host_now_ = engine_.now();
}

bool SimDevice::event_complete(EventId event) {
  engine_.advance(host_now_);
  return engine_.complete(event);
}

/// The host goes on a little after what it waited for; at once where it did not have to wait.
void SimDevice::wake_at(Nanoseconds time) {
  if (time <= host_now_) return;
  host_now_ = options_.host_free ? time : time + machine_.latencies.synchronize;
}

void SimDevice::synchronize_event(EventId event) {
  if (run_until([&] { return engine_.complete(event); })) wake_at(engine_.completion(event));
}

void SimDevice::synchronize() {
  if (run_until([&] { return engine_.unfinished() == 0; })) wake_at(engine_.now());
}

void SimDevice::host_work(Nanoseconds length) {
  if (options_.host_free) return;
  const Nanoseconds spent = options_.host_scale == 1 ? length : length.scaled(options_.host_scale);
  host_now_ += spent;
  host_worked_ += spent;
}

void SimDevice::report_deadlock() {
  Deadlock report{engine_.now(), engine_.stuck(), {}};
  for (const Stuck& entry : report.stuck) {
    report.text += fmt::format("stream {}: op {} ", stream_name(entry.stream), entry.op.value);
    if (entry.reason == Stuck::Reason::peers)
      report.text += "waits for ranks that do not come\n";
    else
      report.text +=
          fmt::format("waits for op {} on stream {} ({})\n", entry.waits_for.value, stream_name(entry.waits_for_on),
                      entry.reason == Stuck::Reason::event ? "an event" : "same communicator");
  }
  deadlock_ = std::move(report);
}

}  // namespace foreshard::sim
