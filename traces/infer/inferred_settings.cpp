#include "traces/infer/inferred_settings.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "core/device/collective_names.hpp"
#include "core/device/transport_traits.hpp"
#include "core/settings/settings_table.hpp"
#include "core/shard/copy_metadata.hpp"
#include "traces/capture/range_meaning.hpp"
#include "traces/infer/prefetch_order.hpp"
#include "traces/infer/process_groups.hpp"

namespace foreshard::traces {
namespace {

constexpr std::uint32_t kMaxGpusOfHost = 8;  // HGX and DGX hosts, and cloud instances of them

/// The setting's value as its settings table writes it.
void say(Inference& out, std::string_view key, std::string from, bool settled = true) {
  out.set({std::string(key), value_of(out.settings, key), std::move(from), settled});
}

std::string name_of_unit(const std::string& unit) {
  return unit.empty() ? "the root" : "unit " + unit;
}

const RecordedUnit* first_gathered(const Inference& out) {
  for (const RecordedUnit& unit : out.recorded)
    if (unit.gather.block > 0) return &unit;
  return nullptr;
}

/// The communicator of a collective of this kind and size; invalid: not in the trace.
CommunicatorId communicator_of(const InferInput& input, CollectiveKind kind, Bytes bytes) {
  if (input.trace == nullptr || bytes == 0) return {};
  for (const TraceCollective& c : input.trace->collectives)
    if (c.kind == kind && c.bytes == bytes && c.communicator.valid() &&
        c.communicator.value < input.trace->communicators.size())
      return c.communicator;
  return {};
}

/// Its group; none: not in the trace.
std::optional<ProcessGroup> group_of(const InferInput& input, CollectiveKind kind, Bytes bytes) {
  const CommunicatorId communicator = communicator_of(input, kind, bytes);
  if (!communicator.valid()) return std::nullopt;
  return process_groups_of(input.trace->communicators)[communicator.value];
}

/// The distance of neighbours in FSDP2's group: the ranks of the mesh's inner dimensions. 0: not known.
std::uint32_t inner_ranks(const InferInput& input, const Inference& out, std::uint32_t shard_ranks) {
  for (const RecordedUnit& unit : out.recorded) {
    const auto group = group_of(input, CollectiveKind::reduce_scatter, unit.reduction.input);
    if (group && group->ranks == shard_ranks) return group->stride;
  }
  return 0;
}

/// Ranks of the group that all-reduces a unit's gradient shards: its members are a shard group apart, which tells it
/// from a tensor-parallel all-reduce of as many bytes. 0: none does.
std::uint32_t all_reducing_ranks(const InferInput& input, const Inference& out, std::uint32_t group_ranks) {
  const std::uint64_t world = input.trace != nullptr ? input.trace->world_size.value_or(0) : 0;
  for (const RecordedUnit& unit : out.recorded) {
    const auto group = group_of(input, CollectiveKind::all_reduce, unit.reduction.output);
    if (!group || group->stride != group_ranks) continue;
    if (world == 0 || world % (std::uint64_t{group->ranks} * group_ranks) == 0)
      return static_cast<std::uint32_t>(std::min<std::uint64_t>(group->ranks, kMaxRanks));
  }
  return 0;
}

/// GPUs a host: the trace lists those of the host that recorded.
void split_world(const InferInput& input, std::uint32_t world, Inference& out) {
  auto listed = input.trace == nullptr ? 0 : static_cast<std::uint32_t>(input.trace->devices.size());
  if (listed == 1) listed = 0;  // a launcher may show each process its own GPU alone
  std::uint32_t gpus = world;
  if (listed > 0 && listed < world && world % listed == 0) gpus = listed;
  if (listed == 0 && world > kMaxGpusOfHost && world % kMaxGpusOfHost == 0) gpus = kMaxGpusOfHost;
  out.settings.gpus = gpus;
  out.settings.nodes = world / gpus;
  // With more GPUs than ranks the job may use a part of several hosts.
  const bool settled = listed == gpus && out.other_ranks == 1;
  const std::string where = listed > 0 ? fmt::format("the trace lists {} GPUs of its host", listed)
                                       : fmt::format("hosts of up to {} GPUs", kMaxGpusOfHost);
  say(out, "gpus", fmt::format("{} ranks; {}", world, where), settled && listed > 0);
  say(out, "nodes", fmt::format("{} ranks; {}", world, where), settled && listed > 0);
}

}  // namespace

std::string value_of(const Settings& settings, std::string_view key) {
  for (const auto& [name, value] : setting_options(settings))
    if (name == key) return value;
  return {};
}

void infer_world(const InferInput& input, const ElementTypes& types, Inference& out) {
  if (types.ranks == 0) return;
  const std::uint32_t inner = inner_ranks(input, out, types.ranks);
  const std::uint32_t reduced = all_reducing_ranks(input, out, types.ranks * std::max(inner, 1U));
  const bool elsewhere = std::any_of(out.recorded.begin(), out.recorded.end(),
                                     [](const RecordedUnit& u) { return u.reduction.cast_elsewhere; });
  const std::uint32_t world = input.trace != nullptr ? input.trace->world_size.value_or(0) : 0;
  std::uint32_t replicate = std::max(reduced, 1u);
  std::string from = "no gradient shard is all-reduced";
  bool settled = input.trace != nullptr;
  if (reduced > 1) {
    from = fmt::format("gradient shards are all-reduced over {} ranks", reduced);
  } else if (elsewhere) {
    const bool divides = world > types.ranks && world % types.ranks == 0;
    replicate = divides ? world / types.ranks : 2;
    settled = divides;
    from = "gradient shards are cast back on a stream of their own, after an all-reduce";
  }
  out.settings.replicate = replicate;
  std::uint32_t own = types.ranks * replicate;
  if (types.ranks > 1) out.neighbours_apart = inner;
  if (inner > 1 && types.ranks > 1 && world > 0 && world % (std::uint64_t{own} * inner) == 0) {
    out.settings.tensor_parallel = inner;
    own *= inner;
    say(out, "tensor_parallel", fmt::format("FSDP's ranks are {} apart: the mesh has an inner dimension", inner), true);
    out.unsettled.push_back(
        fmt::format("what the inner mesh dimension of {} ranks does (tensor parallelism) stays as "
                    "recorded: another number of ranks changes the program",
                    inner));
  }
  if (world > own && world % own == 0) {
    out.other_ranks = world / own;
    out.unsettled.push_back(
        fmt::format("{} ranks are {} meshes of {} for FSDP: what another mesh dimension does (tensor, "
                    "context or pipeline parallelism) stays as recorded",
                    world, out.other_ranks, own));
  }
  split_world(input, own, out);
  say(out, "replicate", from, settled);
}

void infer_dtypes(const ElementTypes& types, Inference& out) {
  if (types.casts) out.settings.param_dtype = types.compute;
  if (types.reduce != types.compute) out.settings.reduce_dtype = types.reduce;
  const RecordedUnit* unit = first_gathered(out);
  if (unit == nullptr) return;
  const std::string size = types.from_trace     ? fmt::format("the trace's all-gathers are of {}", name(types.compute))
                           : types.word_assumed ? "of the two dtypes of two bytes, bfloat16 is taken"
                                                : fmt::format("{} is taken", name(types.compute));
  say(out, "param_dtype",
      types.casts ? fmt::format("{} gathers {} bytes of a cast of {}; {}", name_of_unit(unit->name), unit->gather.block,
                                unit->gather.flat_cast, size)
                  : fmt::format("shards are gathered without a cast; {}", size),
      !types.word_assumed && !types.size_assumed);
  const auto reducing = std::find_if(out.recorded.begin(), out.recorded.end(),
                                     [](const RecordedUnit& u) { return u.reduction.input > 0; });
  if (reducing == out.recorded.end()) return say(out, "reduce_dtype", "nothing is reduced", false);
  say(out, "reduce_dtype",
      fmt::format("{} reduces {} bytes where its parameters have {}", name_of_unit(reducing->name),
                  reducing->reduction.input, reducing->gather.block),
      !types.size_assumed && !types.reduce_assumed);
}

void infer_reshard(Inference& out) {
  const auto kind_of = [](const RecordedUnit& unit) {
    if (unit.clones > 0) return Reshard{Reshard::Kind::group, unit.clones};
    return Reshard{unit.kept ? Reshard::Kind::never : Reshard::Kind::always, 0};
  };
  std::map<std::string, std::size_t> count;
  const RecordedUnit* root = nullptr;
  for (const RecordedUnit& unit : out.recorded) {
    if (unit.gather.block == 0) continue;
    if (unit.name.empty()) root = &unit;
    if (!unit.name.empty()) ++count[name(kind_of(unit))];
  }
  if (root == nullptr && count.empty()) return;
  if (count.empty()) ++count[name(kind_of(*root))];
  const auto most =
      std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  Reshard common;
  for (const RecordedUnit& unit : out.recorded)
    if (unit.gather.block > 0 && name(kind_of(unit)) == most->first) common = kind_of(unit);
  out.settings.reshard_after_forward = common;
  for (const RecordedUnit& unit : out.recorded) {
    if (unit.gather.block == 0 || kind_of(unit) == common) continue;
    if (unit.name.empty() && unit.kept)
      out.settings.root_reshard_explicit = false;
    else
      out.settings.reshard_of_unit[unit.name] = kind_of(unit);
  }
  say(out, "reshard_after_forward",
      fmt::format("{} of {} units {} after forward", most->second,
                  count.size() == 1 ? most->second : out.recorded.size(),
                  common.kind == Reshard::Kind::always  ? "free their parameters"
                  : common.kind == Reshard::Kind::never ? "keep their parameters"
                                                        : "keep a part of their parameters"));
  if (!out.settings.reshard_of_unit.empty()) say(out, "reshard_of_unit", "the other units do otherwise");
  if (root == nullptr) return;
  const bool decides = common.kind != Reshard::Kind::never;
  say(out, "root_reshard_explicit",
      decides ? fmt::format("the root {} its parameters after forward", root->kept ? "keeps" : "frees")
              : "no unit is resharded after forward: true and false do the same",
      decides);
}

/// Members of a list unit are named one behind the other, joined by ", " (FSDPParamGroup._module_fqn).
void infer_units_per_group(Inference& out) {
  std::map<std::uint32_t, std::size_t> count;
  for (const RecordedUnit& unit : out.recorded) {
    if (unit.name.empty()) continue;
    std::uint32_t members = 1;
    for (std::size_t at = unit.name.find(", "); at != std::string::npos; at = unit.name.find(", ", at + 2)) ++members;
    ++count[members];
  }
  if (count.empty()) return;
  const auto most =
      std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  const bool alone =
      std::count_if(count.begin(), count.end(), [&](const auto& c) { return c.second == most->second; }) == 1;
  out.settings.units_per_group = most->first;
  say(out, "units_per_group", alone ? "modules that most units' names list" : "as many units' names list others",
      alone);
}

void infer_prefetch(const InferInput& input, Inference& out) {
  std::vector<std::string> units;
  for (const RecordedUnit& unit : out.recorded) units.push_back(unit.name);
  PrefetchOrder order = prefetch_order(input.ranges, units);
  out.settings.forward_prefetch = order.forward;
  out.settings.backward_prefetch = order.backward;
  out.settings.prefetch_lists = std::move(order.lists);
  const auto& lists = out.settings.prefetch_lists;
  say(out, "forward_prefetch",
      order.forward           ? "FSDP::forward_prefetch ranges after each unit's pre-forward"
      : lists.forward.empty() ? "there is no FSDP::forward_prefetch range"
                              : "no one depth: see prefetch_lists");
  say(out, "backward_prefetch",
      order.backward           ? "FSDP::backward_prefetch ranges after each unit's pre-backward"
      : lists.backward.empty() ? "FSDP::backward_prefetch ranges come inside pre-backward alone"
                               : "no one depth: see prefetch_lists");
  if (!lists.forward.empty() || !lists.backward.empty())
    say(out, "prefetch_lists", "FSDP's prefetch ranges after each unit's hooks");
}

namespace {

/// Whether a block of one of `sizes`, requested inside a range of `kind`, came back late. One is enough: where the GPU
/// waits for its host, it has passed nearly every block by the next request, and the allocator then writes the block's
/// return directly behind its free, record_stream or not (process_events, 2.11).
bool came_back_late(const InferInput& input, RangeKind kind, const std::set<Bytes>& sizes) {
  std::vector<std::pair<Nanoseconds, Nanoseconds>> ranges;
  for (const Range& range : input.ranges)
    if (meaning_of(range.name).kind == kind) ranges.emplace_back(range.start, range.end);
  const auto inside = [&](Nanoseconds time) {
    const auto next = std::upper_bound(ranges.begin(), ranges.end(), time,
                                       [](Nanoseconds t, const auto& range) { return t < range.first; });
    return next != ranges.begin() && time <= std::prev(next)->second;
  };
  return std::any_of(input.events.begin(), input.events.end(), [&](const CaptureEvent& e) {
    return e.late && sizes.contains(e.size) && e.partner != CaptureEvent::kNone && inside(input.events[e.partner].time);
  });
}

bool gathers_come_back_late(const InferInput& input, const Inference& out) {
  std::set<Bytes> blocks;
  for (const RecordedUnit& unit : out.recorded)
    if (unit.gather.block > 0) blocks.insert(unit.gather.block);
  return came_back_late(input, RangeKind::all_gather, blocks);
}

bool reductions_come_back_late(const InferInput& input, const Inference& out) {
  std::set<Bytes> inputs;
  for (const RecordedUnit& unit : out.recorded)
    if (unit.reduction.input > 0) inputs.insert(unit.reduction.input);
  return came_back_late(input, RangeKind::reduce, inputs);
}

bool in_private_pool(const Snapshot& snapshot, Address address) {
  return std::any_of(snapshot.segments.begin(), snapshot.segments.end(), [&](const SnapshotSegment& s) {
    return address >= s.address && address - s.address < s.total_size &&
           (s.pool_id.first != 0 || s.pool_id.second != 0);
  });
}

/// How the trace's collectives of that kind moved the units' buffers; none: no trace, or none of them in it.
std::optional<Transport> traced_transport(const InferInput& input, const Inference& out, CollectiveKind kind) {
  if (input.trace == nullptr) return std::nullopt;
  std::optional<Transport> found;
  for (const DeviceOpRecord& op : input.trace->run.device_ops) {
    if (op.kind != DeviceOpRecord::Kind::collective || op.collective != kind || op.bytes == 0) continue;
    const bool of_unit = std::any_of(out.recorded.begin(), out.recorded.end(), [&](const RecordedUnit& u) {
      return op.bytes == (kind == CollectiveKind::all_gather ? u.gather.block : u.reduction.input);
    });
    if (of_unit && (!found || op.transport == Transport::copy_engine)) found = op.transport;
  }
  return found;
}

/// A trace of another run: its gathers are none of the units', or need memory that the units' blocks are not in.
std::string disagreement_of(const InferInput& input, const Inference& out, bool in_pool) {
  if (input.trace == nullptr) return {};
  std::vector<Bytes> gathered;
  for (const TraceCollective& c : input.trace->collectives)
    if (c.kind == CollectiveKind::all_gather && c.bytes > 0) gathered.push_back(c.bytes);
  const bool any = std::any_of(gathered.begin(), gathered.end(), [&](Bytes bytes) {
    return std::any_of(out.recorded.begin(), out.recorded.end(),
                       [&](const RecordedUnit& u) { return u.gather.block == bytes; });
  });
  if (!gathered.empty() && !any) return fmt::format("gathers {} bytes, which no unit's block has", gathered.front());
  const auto traced = traced_transport(input, out, CollectiveKind::all_gather);
  if (traced && memory_of(*traced) == MemoryKind::symmetric && !in_pool)
    return fmt::format("gathers by {}, but the snapshot's gather blocks are in no memory pool of their own",
                       name(*traced));
  return {};
}

void infer_transport(const InferInput& input, CollectiveKind kind, std::string_view key, bool in_pool, Transport& to,
                     Inference& out) {
  const auto traced = traced_transport(input, out, kind);
  to = traced.value_or(in_pool ? Transport::symmetric : Transport::nccl);
  if (to == Transport::nccl && in_pool) to = Transport::nccl_registered;
  const char* pool = in_pool ? "its buffers lie in a memory pool of their own" : "its buffers lie in the default pool";
  if (!traced)
    return say(out, key, fmt::format("{}{}", pool, in_pool ? "; the trace would tell kernels from copy engines" : ""),
               !in_pool);
  say(out, key,
      fmt::format("the trace's {}; {}",
                  to == Transport::copy_engine ? "gathers are peer copies"
                  : to == Transport::symmetric ? "kernels are NCCL's symmetric ones"
                                               : "kernels are NCCL's",
                  pool));
}

}  // namespace

void infer_reduce_scatter_group(const InferInput& input, Inference& out) {
  for (const RecordedUnit& unit : out.recorded) {
    const auto gathers = communicator_of(input, CollectiveKind::all_gather, unit.gather.block);
    const auto scatters = communicator_of(input, CollectiveKind::reduce_scatter, unit.reduction.input);
    if (!gathers.valid() || !scatters.valid() || gathers == scatters) continue;
    const auto& groups = input.trace->communicators;
    if (groups[gathers.value].size != groups[scatters.value].size) continue;
    out.settings.separate_reduce_scatter_group = true;
    return say(out, "separate_reduce_scatter_group",
               fmt::format("{} is gathered by process group {} and reduced by {}", name_of_unit(unit.name),
                           groups[gathers.value].name, groups[scatters.value].name));
  }
}

void infer_buffers(const InferInput& input, Inference& out) {
  const RecordedUnit* unit = first_gathered(out);
  if (unit == nullptr) return;
  const bool gathers_late = gathers_come_back_late(input, out);
  const bool reduces_late = reductions_come_back_late(input, out);
  out.settings.unshard_async = unit->gather.stream == 0;
  say(out, "unshard_async",
      out.settings.unshard_async ? "gather blocks are requested on the compute stream"
                                 : "gather blocks are requested on a stream of their own");
  if (gathers_late) out.settings.release = Release::record_stream;
  if (reduces_late) out.settings.reduce_scatter_release = Release::record_stream;
  say(out, "release",
      fmt::format("gather blocks come back {}{}",
                  gathers_late ? "late: they are marked by record_stream" : "as soon as they are freed",
                  reduces_late ? "; inputs of reduce-scatters come back late" : ""));
  const auto address = [&](std::uint32_t request) {
    return request == CaptureEvent::kNone ? Address{0} : input.events[request].address;
  };
  const bool in_pool = in_private_pool(input.snapshot, address(unit->gather.block_request));
  out.disagreement = disagreement_of(input, out, in_pool);
  infer_transport(input, CollectiveKind::all_gather, "all_gather", in_pool, out.settings.all_gather, out);
  const auto reducing = std::find_if(out.recorded.begin(), out.recorded.end(),
                                     [](const RecordedUnit& u) { return u.reduction.input > 0; });
  if (reducing == out.recorded.end()) return;
  infer_transport(input, CollectiveKind::reduce_scatter, "reduce_scatter",
                  in_private_pool(input.snapshot, address(reducing->reduction.input_request)),
                  out.settings.reduce_scatter, out);
}

void infer_steps(const InferInput& input, Inference& out) {
  const auto hooks = find_hooks(input.ranges, out.units);
  if (!hooks) {
    out.why_not = hooks.error().what;
    return;
  }
  std::uint32_t microbatches = 0;
  std::size_t steps = 0;
  std::size_t reductions = 0;
  const auto reducing =
      std::find_if(out.recorded.begin(), out.recorded.end(), [](const RecordedUnit& u) { return u.reduces; });
  for (const StepPlaces& step : hooks->steps) {
    if (!step.complete) continue;
    ++steps;
    for (std::size_t i = step.first; i < step.first + step.count; ++i)
      microbatches = std::max(microbatches, static_cast<std::uint32_t>(hooks->places[i].microbatch) + 1);
    for (const Range& range : input.ranges) {
      if (range.start < step.begin || range.start >= step.end || reducing == out.recorded.end()) continue;
      const RangeMeaning meaning = meaning_of(range.name);
      if (meaning.kind == RangeKind::reduce && meaning.unit == reducing->name) ++reductions;
    }
  }
  if (steps == 0) {
    out.why_not = "the snapshot records no whole training step";
    return;
  }
  out.settings.accumulate = std::max(microbatches, 1u);
  say(out, "accumulate", fmt::format("{} forwards with a backward in each of {} steps", microbatches, steps));
  if (microbatches < 2) return;
  out.settings.accumulate_with_sync = reductions >= steps * microbatches;
  say(out, "accumulate_with_sync", fmt::format("a unit reduces {} times in {} steps", reductions, steps));
}

void infer_sm_count(const InferInput& input, std::span<const std::uint32_t> known, const ElementTypes& types,
                    Inference& out) {
  if (input.trace != nullptr)
    for (const TraceDevice& device : input.trace->devices)
      if (device.id == input.trace->device && device.sm_count > 0) {
        out.sm_count = device.sm_count;
        return out.set({"sm_count", std::to_string(device.sm_count), "the trace's deviceProperties"});
      }
  for (const std::uint32_t count : known) {
    bool fits = types.ranks > 0;
    for (const RecordedUnit& unit : out.recorded) {
      if (unit.gather.block == 0) continue;
      std::vector<Bytes> chunks;
      for (const Bytes bytes : unit.gather.unsharded) chunks.push_back(bytes / types.ranks);
      fits &= split_metadata_bytes(chunks, types.ranks, count) == unit.gather.metadata;
    }
    if (!fits) continue;
    out.sm_count = count;
    return out.set({"sm_count", std::to_string(count), "the sizes of the copy-outs' metadata fit", false});
  }
}

}  // namespace foreshard::traces
