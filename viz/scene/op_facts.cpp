#include "viz/scene/op_facts.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "core/kernel/kernel_name.hpp"
#include "core/run/allocation_names.hpp"
#include "core/run/run_names.hpp"
#include "viz/scene/svg_writer.hpp"

namespace foreshard::viz {
namespace {

/// FSDP2's streams, and foreshard's own, in the order in which a unit's data pass through them; the names are
/// core/step's.
constexpr std::array<std::string_view, 7> kStreamNames{
    "compute", "all-gather copy-in", "all-gather", "reduce-scatter", "all-reduce", "process group", "optimizer"};
constexpr int kOtherStream = static_cast<int>(kStreamNames.size());
constexpr std::size_t kNameLetters = 70;
/// Annotations nest (FSDP::pre_backward holds FSDP::all_gather) and threads interleave: this many back are looked at.
constexpr std::ptrdiff_t kDeepest = 16;

OpClass drawn(KernelClass kernel_class) {
  switch (kernel_class) {
    case KernelClass::gemm:
    case KernelClass::gemm_single_wave:
    case KernelClass::gemm_streaming:
      return OpClass::gemm;
    case KernelClass::attention:
      return OpClass::attention;
    case KernelClass::memory_bound:
      return OpClass::memory_bound;
    case KernelClass::gather_copy:
      return OpClass::copy;
    case KernelClass::memset:
      return OpClass::memset;
  }
  return OpClass::memory_bound;
}

OpClass drawn(CollectiveKind kind) {
  switch (kind) {
    case CollectiveKind::all_gather:
      return OpClass::all_gather;
    case CollectiveKind::reduce_scatter:
      return OpClass::reduce_scatter;
    case CollectiveKind::all_reduce:
      return OpClass::all_reduce;
    case CollectiveKind::all_to_all:
    case CollectiveKind::broadcast:
    case CollectiveKind::reduce:
    case CollectiveKind::send_recv:
      return OpClass::other_collective;
  }
  return OpClass::all_gather;
}

/// How many ops of each sort a stream has.
struct Tally {
  std::array<std::uint64_t, 4> collectives{};  ///< FSDP2's kinds, then all others
  std::uint64_t gather = 0;                    ///< issued inside FSDP::all_gather
  std::uint64_t all = 0;
};

int rank_of(const Tally& tally) {
  const auto most = std::max_element(tally.collectives.begin(), tally.collectives.end());
  if (*most > 0) return 2 + static_cast<int>(most - tally.collectives.begin());
  return tally.gather * 2 > tally.all ? 1 : kOtherStream;
}

}  // namespace

OpFacts::OpFacts(const Run& run) : run_(run) {
  for (const HostOpRecord& op : run.host_ops)
    if (op.kind == HostOpRecord::Kind::annotation && run.labels.text(op.label).starts_with("FSDP::"))
      ranges_.push_back({op.start, op.end, op.label});
  std::stable_sort(ranges_.begin(), ranges_.end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  name_streams();
}

const std::string& OpFacts::annotation(Nanoseconds time) const {
  static const std::string kNone;
  auto it = std::upper_bound(ranges_.begin(), ranges_.end(), time,
                             [](Nanoseconds t, const Range& range) { return t < range.start; });
  for (std::ptrdiff_t i = 0; i < kDeepest && it != ranges_.begin(); ++i)
    if (--it; it->end > time) return run_.labels.text(it->label);
  return kNone;
}

void OpFacts::name_streams() {
  std::map<StreamId, Tally> tallies;
  for (const DeviceOpRecord& op : run_.device_ops) {
    Tally& tally = tallies[op.stream];
    ++tally.all;
    if (op.kind == DeviceOpRecord::Kind::collective)
      ++tally.collectives[std::min<std::size_t>(static_cast<std::size_t>(op.collective), 3)];
    else if (!ranges_.empty() && annotation(op.issue).starts_with("FSDP::all_gather ("))
      ++tally.gather;
  }
  for (const StreamRecord& stream : run_.streams) {
    const auto known = std::find(kStreamNames.begin(), kStreamNames.end(), stream.name);
    int rank = static_cast<int>(known - kStreamNames.begin());
    std::string name = stream.name;
    if (rank == kOtherStream && stream.name.starts_with("stream ")) {
      rank = stream.id == kComputeStream ? 0 : rank_of(tallies[stream.id]);
      if (rank != kOtherStream)
        name = fmt::format("{} ({})", kStreamNames[static_cast<std::size_t>(rank)], stream.name);
    }
    streams_[stream.id] = {rank, std::move(name)};
  }
}

OpFacts::Stream OpFacts::stream(StreamId id) const {
  const auto found = streams_.find(id);
  if (found != streams_.end()) return found->second;
  return {kOtherStream, id.valid() ? fmt::format("stream {}", id.value) : std::string("no stream")};
}

OpClass OpFacts::op_class(const DeviceOpRecord& op) const {
  switch (op.kind) {
    case DeviceOpRecord::Kind::copy:
      return OpClass::copy;
    case DeviceOpRecord::Kind::memset:
      return OpClass::memset;
    case DeviceOpRecord::Kind::collective:
      return drawn(op.collective);
    case DeviceOpRecord::Kind::kernel:
      break;
  }
  if (run_.info.kind != RunKind::imported || op.kernel_class != KernelClass::memory_bound)
    return drawn(op.kernel_class);
  const KernelShape shape{run_.labels.text(op.label), op.grid, run_.info.sm_count};
  const int rank = stream(op.stream).rank;
  return rank == 1 ? OpClass::copy : drawn(kernel_class(shape));
}

std::string OpFacts::unit(const DeviceOpRecord& op) const {
  if (op.unit.value < run_.units.size()) {
    const std::string& name = run_.units[op.unit.value].name;
    return name.empty() ? "root" : name;
  }
  const std::string& text = annotation(op.issue);
  const auto open = text.find(" (");
  if (open == std::string::npos || !text.ends_with(')')) return text.empty() ? "" : "root";
  return text.substr(open + 2, text.size() - open - 3);
}

std::string OpFacts::name(const DeviceOpRecord& op) const {
  const std::string& label = run_.labels.text(op.label);
  if (!label.empty()) return shortened(op_title(label), kNameLetters);
  if (op.kind == DeviceOpRecord::Kind::collective) return std::string(foreshard::name(op.collective));
  return std::string(style(op_class(op)).title);
}

}  // namespace foreshard::viz
