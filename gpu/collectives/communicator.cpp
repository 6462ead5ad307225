#include "gpu/collectives/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "gpu/collectives/call_trace.hpp"
#include "gpu/collectives/driver.hpp"

namespace foreshard::gpu {
namespace {

constexpr Bytes kWindowAlignment = 4096;  // NCCL_WIN_REQUIRED_ALIGNMENT

/// Bytes of a call's input and output.
std::pair<Bytes, Bytes> buffer_bytes(const CollectiveWork& work, Bytes ranks) {
  switch (work.kind) {
    case CollectiveKind::all_gather:
      return {work.bytes / ranks, work.bytes};
    case CollectiveKind::reduce_scatter:
      return {work.bytes, work.bytes / ranks};
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_to_all:
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::send_recv:
      break;
  }
  return {work.bytes, work.bytes};
}

ScatterCall scatter_call(const CollectiveWork& work, std::uint32_t ranks) {
  ScatterCall call;
  call.input = reinterpret_cast<const void*>(work.input);
  call.output = reinterpret_cast<void*>(work.output);
  call.elements = work.bytes / ranks / itemsize(work.dtype);
  call.input_type = work.dtype;
  call.output_type = work.output_dtype.value_or(work.dtype);
  call.scale = work.reduction == Reduction::average ? 1.0F / static_cast<float>(ranks) : 1.0F;
  return call;
}

}  // namespace

Communicator::Communicator(Bootstrap& bootstrap, SymmetricHeap* heap, CommunicatorSettings settings, std::uint32_t rank)
    : bootstrap_(bootstrap), heap_(heap), settings_(std::move(settings)), rank_(rank) {}

Result<std::unique_ptr<Communicator>> Communicator::create(Bootstrap& bootstrap, SymmetricHeap* heap,
                                                           CommunicatorSettings settings) {
  const auto& members = settings.members;
  const auto self = std::find(members.begin(), members.end(), bootstrap.rank());
  if (self == members.end())
    return fail(ErrorKind::usage,
                fmt::format("rank {} is no member of its group '{}'", bootstrap.rank(), settings.name));
  const auto rank = static_cast<std::uint32_t>(self - members.begin());
  std::unique_ptr<Communicator> made(new Communicator(bootstrap, heap, std::move(settings), rank));
  FORESHARD_TRY(made->set_up());
  return made;
}

bool Communicator::wants(Transport transport) const {
  return std::find(settings_.transports.begin(), settings_.transports.end(), transport) != settings_.transports.end();
}

Result<std::string> Communicator::agree_on_id(const std::string& what) {
  std::string id;
  if (rank_ == 0) {
    auto made = nccl_unique_id();
    if (!made) return made;
    id = std::move(*made);
  }
  const auto all = bootstrap_.all_gather(what, id);
  FORESHARD_TRY(all);
  return (*all)[settings_.members[0]];
}

Result<void> Communicator::set_up() {
  const std::uint32_t first = bootstrap_.rank() - bootstrap_.local_rank();
  std::vector<std::uint32_t> local;
  for (const std::uint32_t member : settings_.members)
    if (member >= first && member < first + bootstrap_.local_ranks()) local.push_back(member - first);
  one_host_ = local.size() == settings_.members.size();
  // Plain NCCL serves what the others cannot, so it is always there.
  for (const Transport transport : kEnumValues<Transport>) {
    if (outside_nccl(transport) || (transport != Transport::nccl && !wants(transport))) continue;
    const std::string full_name = fmt::format("{}/{}", settings_.name, name(transport));
    const auto id = agree_on_id(full_name);
    FORESHARD_TRY(id);
    auto group =
        NcclGroup::create({*id, full_name, ranks(), rank_, transport == Transport::copy_engine, settings_.timeout});
    FORESHARD_TRY(group);
    groups_[static_cast<std::size_t>(transport)] = std::move(*group);
  }
  if (std::none_of(settings_.transports.begin(), settings_.transports.end(), outside_nccl) || heap_ == nullptr ||
      !one_host_ || ranks() > kMaxPeers)
    return {};
  auto own = SymmMemCollectives::create(*heap_, local, rank_, settings_.own);
  FORESHARD_TRY(own);
  own_ = std::move(*own);
  if (!settings_.captured) return {};
  auto replayable = ReplayableCollectives::create(*heap_, std::move(local), rank_, nullptr);
  FORESHARD_TRY(replayable);
  replayable_ = std::move(*replayable);
  return {};
}

Communicator::~Communicator() {
  for (Segment& segment : segments_) give_back(segment);
}

bool Communicator::held(Transport transport, Address address, Bytes bytes) const {
  auto after = std::upper_bound(segments_.begin(), segments_.end(), address,
                                [](Address a, const Segment& segment) { return a < segment.base; });
  if (after == segments_.begin()) return false;
  const Segment& segment = *--after;
  return segment.transport == transport && address + bytes <= segment.base + segment.bytes;
}

TransportFacts Communicator::facts(const CollectiveWork& work) const {
  TransportFacts facts;
  facts.lowering = Lowering::foreshard;
  facts.ranks = ranks();
  facts.one_host = one_host_;
  facts.peer_memory = own_ != nullptr;
  const auto [input, output] = buffer_bytes(work, ranks());
  if (outside_nccl(work.transport))
    facts.registered = heap_ != nullptr && heap_->contains(work.output, output);
  else if (work.transport != Transport::nccl)
    facts.registered = held(work.transport, work.input, input) && held(work.transport, work.output, output);
  return facts;
}

PathReport& Communicator::account(const CollectiveWork& work, const TransportChoice& chosen) {
  auto [at, fresh] = paths_.try_emplace({work.kind, work.transport});
  PathReport& report = at->second;
  if (fresh) {
    report.kind = work.kind;
    report.asked = work.transport;
    report.ran = chosen.transport;
    report.reason = chosen.why;
  } else if (report.reason.empty() && !chosen.why.empty()) {
    report.reason = fmt::format("of call {} on, {}", report.calls + 1, chosen.why);
    report.ran = chosen.transport;
  }
  ++report.calls;
  return report;
}

Result<void> Communicator::issue(const CollectiveWork& work, cudaStream_t stream) {
  if (given_up_.load()) return fail(ErrorKind::rank_lost, fmt::format("the group '{}' was given up", settings_.name));
  if (work.input == 0 || work.output == 0) return fail(ErrorKind::usage, "a collective without its buffers");
  if (work.transport != Transport::nccl && !wants(work.transport))
    return fail(ErrorKind::usage,
                fmt::format("the group '{}' was made without the transport {}", settings_.name, name(work.transport)));
  if (work.bytes % (itemsize(work.dtype) * (has_parts(work.kind) ? ranks() : 1)) != 0)
    return fail(ErrorKind::usage, fmt::format("{} bytes do not divide among {} ranks", work.bytes, ranks()));
  const TransportChoice chosen = choose_transport(work, facts(work));
  PathReport& report = account(work, chosen);
  if (outside_nccl(chosen.transport)) return issue_own(work, stream);
  if (!work.tensors.empty())
    return fail(ErrorKind::mismatch,
                fmt::format("NCCL moves one buffer, not {} tensors, and our own collectives cannot run here: {}",
                            work.tensors.size(), chosen.why),
                {}, "leave out --all-gather-layout and --reduce-scatter-input");
  if (work.output_dtype.value_or(work.dtype) != work.dtype)
    return fail(ErrorKind::mismatch,
                fmt::format("NCCL cannot reduce {} into {}, and our own reduce-scatter cannot run here: {}",
                            foreshard::name(work.dtype), foreshard::name(*work.output_dtype), chosen.why),
                {}, "take another --reduce-scatter, or one reduce dtype with the gradients'");
  // The buffers are those of the transport asked for, also where another of NCCL's kernels serves the call.
  const bool kept = chosen.transport != Transport::nccl;
  NcclGroup& group = *group_of(kept ? work.transport : Transport::nccl);
  FORESHARD_TRY(group.issue(work, stream));
  // After the first call, which makes what NCCL makes on first use and a capture must not.
  if (report.calls == 1 && settings_.trace_paths) {
    const CallTrace trace = trace_call([&](cudaStream_t probe) { return group.issue(work, probe); });
    report.seen = text(trace);
    report.ran = transport_of(trace, chosen.transport);
    if (report.ran != chosen.transport && report.reason.empty()) report.reason = "NCCL chose so";
  }
  return {};
}

Result<void> Communicator::issue_tensors(const CollectiveWork& work, PathReport& report, cudaStream_t stream) {
  const bool gathers = work.kind == CollectiveKind::all_gather;
  if (report.seen.empty())
    report.seen = gathers ? "own: copies into the parameters" : "kernel foreshard_reduce reads the peers' gradients";
  return gathers ? own_->all_gather(reinterpret_cast<const void*>(work.input), work.tensors, stream)
                 : own_->reduce_scatter(scatter_call(work, ranks()), work.tensors, stream);
}

Result<void> Communicator::capture_own(const CollectiveWork& work, cudaStream_t stream) {
  if (!work.tensors.empty())
    return fail(ErrorKind::usage, "collectives of several tensors are not built for a CUDA graph");
  if (replayable_ == nullptr)
    return fail(ErrorKind::usage, fmt::format("the group '{}' was made for no captures", settings_.name));
  if (work.kind != CollectiveKind::all_gather) return replayable_->reduce_scatter(scatter_call(work, ranks()), stream);
  return replayable_->all_gather(reinterpret_cast<const void*>(work.input), reinterpret_cast<void*>(work.output),
                                 work.bytes / ranks(), stream);
}

Result<void> Communicator::issue_own(const CollectiveWork& work, cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  FORESHARD_TRY(check(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing"));
  if (status != cudaStreamCaptureStatusNone) return capture_own(work, stream);
  PathReport& report = paths_[{work.kind, work.transport}];
  if (!work.tensors.empty()) return issue_tensors(work, report, stream);
  const auto say = [&](std::string_view way) {
    if (report.seen.find(way) == std::string::npos) report.seen += (report.seen.empty() ? "" : "; ") + std::string(way);
  };
  if (work.kind == CollectiveKind::all_gather) {
    const Bytes slice = work.bytes / ranks();
    const void* input = reinterpret_cast<const void*>(work.input);
    void* output = reinterpret_cast<void*>(work.output);
    FORESHARD_TRY(own_->all_gather(input, output, slice, stream));
    if (own_->exchanges(work.kind, work.bytes))
      say("kernel foreshard_exchange_gather");
    else if (settings_.trace_paths && !std::exchange(gather_traced_, true))
      say(text(trace_call([&](cudaStream_t probe) { return own_->all_gather(input, output, slice, probe); })));
    return {};
  }
  const ScatterCall call = scatter_call(work, ranks());
  const ScatterPath path = own_->scatter_path(call);
  say(path == ScatterPath::exchanged ? "kernel foreshard_exchange_reduce"
      : path == ScatterPath::direct  ? "kernel foreshard_reduce reads the peers"
                                     : "copies into staging, kernel foreshard_reduce");
  return own_->reduce_scatter(call, stream);
}

Result<Communicator::Segment> Communicator::allocate(Transport transport, Bytes bytes) {
  Segment segment{0, bytes, transport, false, std::nullopt};
  void* memory = nullptr;
  if (transport == Transport::nccl) {
    FORESHARD_TRY(check(cudaMalloc(&memory, bytes), "cudaMalloc"));
  } else if (outside_nccl(transport)) {
    if (heap_ == nullptr) return fail(ErrorKind::mismatch, "no symmetric memory: the GPUs do not share memory");
    const auto made = heap_->allocate(bytes);
    FORESHARD_TRY(made);
    memory = *made;
    ++counters_.registered;
  } else {
    NcclGroup* group = group_of(transport);
    if (group == nullptr)
      return fail(ErrorKind::usage, fmt::format("the group was made without the transport {}", name(transport)));
    FORESHARD_TRY(check(ncclMemAlloc(&memory, bytes), "ncclMemAlloc"));
    const NcclMemory kind = transport == Transport::nccl_registered ? NcclMemory::buffer : NcclMemory::window;
    const auto registration = group->enroll(kind, memory, bytes);
    if (!registration) {
      (void)ncclMemFree(memory);
      return tl::unexpected<Error>(registration.error());
    }
    segment.registration = *registration;
    ++counters_.registered;
  }
  segment.base = reinterpret_cast<Address>(memory);
  counters_.bytes += bytes;
  return segment;
}

Result<void*> Communicator::acquire(Transport transport, Bytes bytes) {
  ++counters_.acquired;
  Segment* best = nullptr;
  for (Segment& segment : segments_)
    if (segment.free && segment.transport == transport && segment.bytes >= bytes &&
        (best == nullptr || segment.bytes < best->bytes))
      best = &segment;
  if (best != nullptr) {
    best->free = false;
    ++counters_.reused;
    return reinterpret_cast<void*>(best->base);
  }
  const Bytes rounded = (std::max<Bytes>(bytes, 1) + kWindowAlignment - 1) / kWindowAlignment * kWindowAlignment;
  auto segment = allocate(transport, rounded);
  FORESHARD_TRY(segment);
  const auto at = std::upper_bound(segments_.begin(), segments_.end(), segment->base,
                                   [](Address a, const Segment& other) { return a < other.base; });
  segments_.insert(at, *segment);
  return reinterpret_cast<void*>(segment->base);
}

Result<void> Communicator::release(void* memory) {
  const Address base = reinterpret_cast<Address>(memory);
  for (Segment& segment : segments_)
    if (segment.base == base && !segment.free) {
      segment.free = true;
      return {};
    }
  return fail(ErrorKind::mismatch, fmt::format("{:#x} was not acquired from this communicator", base));
}

void Communicator::give_back(Segment& segment) {
  void* memory = reinterpret_cast<void*>(segment.base);
  if (segment.registration) (void)group_of(segment.transport)->withdraw(*segment.registration);
  if (segment.transport == Transport::nccl) (void)cudaFree(memory);
  // Symmetric memory belongs to the heap, which gives all of it back at its end: releasing it is collective.
  if (segment.transport != Transport::nccl && !outside_nccl(segment.transport)) (void)ncclMemFree(memory);
}

Result<void> Communicator::health() {
  if (given_up_.load()) return fail(ErrorKind::rank_lost, fmt::format("the group '{}' was given up", settings_.name));
  for (const auto& group : groups_)
    if (group != nullptr) FORESHARD_TRY(group->health());
  return {};
}

void Communicator::abort() {
  given_up_.store(true);
  if (own_ != nullptr) own_->abandon();
  for (const auto& group : groups_)
    if (group != nullptr) group->abort();
}

std::vector<PathReport> Communicator::paths() const {
  std::vector<PathReport> out;
  for (const auto& [key, report] : paths_) out.push_back(report);
  return out;
}

}  // namespace foreshard::gpu
