#include "sim/engine/sim_device.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/device/host_stopped.hpp"
#include "core/kernel/kernel_cost.hpp"
#include "sim/compute/prices.hpp"
#include "sim/engine/strided_groups.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

/// Nodes and edges of a graph follow one another in time, so that a Run tells which came first
/// (core/run/op_dependencies.hpp).
constexpr Nanoseconds kGraphEdge{2};
constexpr std::uint32_t kOfGraph = 1U << 30U;  ///< of DeviceLog's `same_as`: prices are fewer

RunningOp kernel_running_op(StreamPlace place, KernelClass kernel_class, const KernelDemand& demand) {
  if (kernel_class == KernelClass::memset) return {};
  const auto role = place == StreamPlace::compute ? RunningOp::Role::main_kernel : RunningOp::Role::side_kernel;
  return {role, demand, {}, place == StreamPlace::in_turn};
}

RunningOp copy_running_op(const MachineProfile& machine, StreamPlace place, CopyKind kind, Bytes bytes,
                          Nanoseconds work) {
  switch (kind) {
    case CopyKind::device_to_device:  // moves bytes through the SMs and HBM like an elementwise kernel
      return kernel_running_op(place, KernelClass::memory_bound, kernel_demand(machine, KernelWork{}));
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
      engine_(machine, table_,
              {.joint = options.script != nullptr,
               .kernel_work = options.kernel_work,
               .script = options.script,
               .kernel_draws = {},
               .paced = options.paced}),
      prices_(machine, options.labels),
      first_collective_wait_(options.first_collective_wait) {
  create_stream({"compute", 0});
}

StreamId SimDevice::create_stream(const StreamOptions& options) {
  stream_names_.push_back(options.name);
  stream_places_.push_back(stream_places_.empty()  ? StreamPlace::compute
                           : options.priority >= 0 ? StreamPlace::in_turn
                                                   : StreamPlace::first);
  if (stream_names_.size() > 1) note(DeviceLog::Kind::add_stream);  // the first is there from the beginning
  return table_.add_stream();
}

CommunicatorId SimDevice::create_communicator(const CommunicatorOptions& options) {
  communicators_.push_back({options, false});
  if (options_.log != nullptr) options_.log->add_communicator(options);
  return table_.add_communicator();
}

OpId SimDevice::submit(EngineOp&& op, std::uint32_t same_as, std::uint32_t* running_op) {
  if (in_graph_) {
    host_work(machine_.latencies.graph_node);
    op.of_graph = true;
    if (same_as != DeviceLog::kOnce) same_as |= kOfGraph;
  }
  if (!op.of_graph) wait_for_room(op.stream);
  if (options_.log != nullptr) options_.log->submit(op, same_as);
  const OpId id = table_.submit(op, running_op != nullptr ? *running_op : kNoRunningOp);
  if (running_op != nullptr) *running_op = table_.op(id).running_op;
  engine_.issue(host_now_);
  host_worked_at_.push_back(host_worked_);
  return id;
}

std::uint32_t& SimDevice::running_op_of(std::uint32_t price, StreamId stream) {
  const std::size_t place = kStreamPlaces * std::size_t{price} + static_cast<std::size_t>(stream_places_[stream.value]);
  if (place >= running_ops_.size()) running_ops_.resize(place + kStreamPlaces, kNoRunningOp);
  return running_ops_[place];
}

OpId SimDevice::launch_cost(StreamId stream, const KernelWork& work) {
  EngineOp op{.stream = stream, .communicator = {}, .running_op = {}, .work = {}};
  op.is_copy = in_graph_ && work.kernel_class == KernelClass::memset;
  if (needs_price(work)) {
    const KernelPrices::Priced& price = prices_.of(work);
    op.work = price.time;
    std::uint32_t& known = running_op_of(price.index, stream);
    if (known == kNoRunningOp || options_.log != nullptr)
      op.running_op = kernel_running_op(stream_places_[stream.value], price.kernel_class, price.demand);
    return submit(std::move(op), price.index, &known);
  }
  op.work = std::min(work.work, kLongestOp);
  op.running_op = kernel_running_op(stream_places_[stream.value], work.kernel_class, kernel_demand(machine_, work));
  return submit(std::move(op));
}

OpId SimDevice::launch(StreamId stream, const KernelLaunch& kernel) {
  if (kernel.kernel == nullptr) return launch_cost(stream, kernel.cost);
  if (kernel.kernel->op == KernelOp::fused)
    return submit({.stream = stream, .communicator = {}, .running_op = {}, .work = {}, .nothing = true});
  KernelWork moved = kernel.cost;
  if (moved.math.kind == KernelMath::Kind::bytes && moved.math.m == 0) moved.bytes = operand_bytes(*kernel.kernel);
  return launch_cost(stream, moved);
}

OpId SimDevice::copy(StreamId stream, const CopyWork& work) {
  const Nanoseconds time = price(machine_, work);
  return submit({.stream = stream,
                 .communicator = {},
                 .running_op = copy_running_op(machine_, stream_places_[stream.value], work.kind, work.bytes, time),
                 .work = time,
                 .is_copy = true});
}

void SimDevice::remember(const CollectiveRequest& request, const CollectivePrice& cost,
                         const std::string& communicator) {
  if (!cost.caveat.empty()) {
    auto same = std::find_if(derived_.begin(), derived_.end(), [&](const auto& d) { return d.caveat == cost.caveat; });
    if (same == derived_.end()) same = derived_.insert(same, {cost.caveat, {}, cost.cannot_run, cost.within});
    same->alone += cost.time;
  }
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

const SimDevice::PricedCollective& SimDevice::priced(const CollectiveRequest& request) {
  const auto [found, added] = collective_prices_.try_emplace(request);
  if (!added) return found->second;
  found->second.price = collectives_.price(request);
  found->second.demand = collective_demand(machine_, request, found->second.price);
  return found->second;
}

OpId SimDevice::collective(StreamId stream, CommunicatorId communicator, const CollectiveWork& work) {
  const Communicator& among = communicators_[communicator.value];
  CollectiveRequest request{work.kind, work.transport, work.bytes, among.options.ranks, among.options.ranks_per_node};
  request.reduction = work.reduction;
  request.upcasts = work.output_dtype && itemsize(*work.output_dtype) > itemsize(work.dtype);
  request.dtype = work.dtype;
  request.tensors = static_cast<std::uint32_t>(work.tensors.size());
  request.captured = in_graph_;
  request.lowering = options_.lowering;
  request.node_stride = among.options.node_stride;
  request.all_nodes = among.options.all_nodes;
  if (options_.rank) {
    const StridedGroups groups = groups_of(among.options);
    request.first_rank = groups.first(*options_.rank);
    request.rank_stride = groups.stride;
    request.node_ranks = options_.node_ranks;
  }
  const auto& [cost, demand] = priced(request);
  remember(request, cost, among.options.name);
  if (options_.log != nullptr) options_.log->price(request);
  const OpId op =
      submit({.stream = stream,
              .communicator = communicator,
              .running_op = {RunningOp::Role::collective, {}, demand},
              .work = std::min(cost.time + std::exchange(first_collective_wait_, {}), kLongestOp),
              .lengthens_gaps = work.kind == CollectiveKind::all_gather && cost.uses == CollectiveResource::ring,
              .endless = among.peers_lost});
  if (!in_graph_) host_work(cost.host);  // beyond a plain NCCL call, which the program's own host work covers
  return op;
}

template <class Done>
void SimDevice::run_until(Done done) {
  engine_.advance(host_now_);
  while (!done()) {
    if (engine_.advance_once()) continue;
    if (!deadlock_) report_deadlock();
    throw HostStopped{};
  }
}

void SimDevice::wait_for_room(StreamId stream) {
  if (launch_queue_ == 0 || engine_.unfinished(stream) < launch_queue_) return;
  run_until([&] { return engine_.unfinished(stream) < launch_queue_; });
  if (engine_.now() <= host_now_) return;
  host_blocked_ += engine_.now() - host_now_;
  host_now_ = engine_.now();
}

EventId SimDevice::record_event(StreamId stream) {
  if (in_graph_) host_work(kGraphEdge);
  note(DeviceLog::Kind::record, stream.value);
  return table_.record(stream);
}

void SimDevice::stream_wait_event(StreamId stream, EventId event) {
  if (in_graph_) host_work(kGraphEdge);
  note(DeviceLog::Kind::wait, stream.value, event.value);
  table_.wait(stream, event);
}

bool SimDevice::event_complete(EventId event) {
  if (options_.log != nullptr) options_.log->looked_at_time();
  engine_.advance(host_now_);
  return engine_.complete(event);
}

/// The host goes on a little after what it waited for; at once where it did not have to wait.
void SimDevice::wake_at(Nanoseconds time) {
  if (time <= host_now_) return;
  host_now_ = options_.host_free ? time : time + machine_.latencies.synchronize;
}

void SimDevice::synchronize_event(EventId event) {
  note(DeviceLog::Kind::synchronize_event, 0, event.value);
  if (options_.waits_free) return;
  run_until([&] { return engine_.complete(event); });
  wake_at(engine_.completion(event));
}

void SimDevice::synchronize() {
  note(DeviceLog::Kind::synchronize);
  run_until([&] { return engine_.unfinished() == 0; });
  wake_at(engine_.now());
}

void SimDevice::host_work(Nanoseconds length) {
  note(DeviceLog::Kind::host_work, 0, length.count);
  if (options_.host_free) return;
  const Nanoseconds spent = options_.host_scale == 1 ? length : length.scaled(options_.host_scale);
  host_now_ += spent;
  host_worked_ += spent;
}

void SimDevice::driver_call(Nanoseconds length) {
  note(DeviceLog::Kind::driver_call, 0, length.count);
  if (!options_.host_free) host_now_ += length;
}

std::vector<Nanoseconds> SimDevice::replay(const DeviceLog& log, std::optional<OpId> until) {
  const auto is_over = [&] {
    return until && until->value < timings().size() && timings()[until->value].end != OpTiming::kNever;
  };
  std::vector<Nanoseconds> times;
  std::vector<std::uint32_t> running_ops(log.ops().size(), kNoRunningOp);
  for (const DeviceLog::Call& call : log.calls()) {
    const EventId event{static_cast<std::uint32_t>(call.b)};
    switch (call.kind) {
      case DeviceLog::Kind::add_stream:
        create_stream({});
        break;
      case DeviceLog::Kind::add_communicator:
        create_communicator(log.communicators()[call.a]);
        break;
      case DeviceLog::Kind::submit:
        submit(EngineOp(log.ops()[call.a]), DeviceLog::kOnce, &running_ops[call.a]);
        break;
      case DeviceLog::Kind::record:
        static_cast<void>(record_event(StreamId{call.a}));
        break;
      case DeviceLog::Kind::wait:
        stream_wait_event(StreamId{call.a}, event);
        break;
      case DeviceLog::Kind::synchronize_event:
        synchronize_event(event);
        break;
      case DeviceLog::Kind::synchronize:
        synchronize();
        break;
      case DeviceLog::Kind::host_work:
        host_work({call.b});
        break;
      case DeviceLog::Kind::driver_call:
        driver_call({call.b});
        break;
      case DeviceLog::Kind::host_now:
        times.push_back(host_now());
        if (is_over()) return times;
        break;
    }
  }
  return times;
}

IssuedWork SimDevice::issued_between(OpId after, OpId until) const {
  std::int64_t compute = 0;
  std::vector<std::int64_t> links(table_.communicators());
  for (std::uint32_t id = after.value + 1; id <= until.value; ++id) {
    const OpTable::Op& op = table_.ops()[id];
    if (op.communicator.valid())
      links[op.communicator.value] += op.work >> kWorkShift;
    else if (op.stream == kComputeStream)
      compute += op.work >> kWorkShift;
  }
  const auto most = std::max_element(links.begin(), links.end());
  return {{compute}, {most == links.end() ? 0 : *most}, host_worked_at_[until.value] - host_worked_at_[after.value]};
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
