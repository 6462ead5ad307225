#include "sim/roofline/roofline.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>

#include "core/kernel/kernel_cost.hpp"
#include "sim/compute/price_kernel.hpp"

namespace foreshard::sim {
namespace {

/// Below this share of kernels with a shape a workload is one of recorded times.
constexpr double kLeastShaped = 0.5;
constexpr std::size_t kKernelKinds = 4;  // RoofKind before link

RoofKind kind_of(const KernelMath& math) {
  return math.kind == KernelMath::Kind::gemm ? RoofKind::gemm : RoofKind::attention;
}

struct Work {
  double amount = 0;
  double seconds = 0;
};

/// What one step's program works, and which kernels of a run are of which kind: by their name, which a run and its
/// workload share.
struct StepWork {
  std::array<Work, kKernelKinds> of{};
  std::map<std::string_view, RoofKind> kinds;
  std::uint64_t shaped = 0;
  std::uint64_t kernels = 0;

  StepWork(const Workload& workload, const MachineProfile& machine) {
    if (workload.steps.empty()) return;
    for (const Op& op : workload.steps.back().ops) {
      if (op.kind != OpKind::kernel || op.kernel.kernel_class == KernelClass::memset) continue;
      ++kernels;
      const bool bytes = op.kernel.math.kind == KernelMath::Kind::bytes;
      if (bytes && (op.kernel.bytes == 0 || op.kernel.math.m == 0)) continue;
      ++shaped;
      add(bytes ? RoofKind::bytes : kind_of(op.kernel.math), workload.labels.text(op.kernel.label), op.kernel, machine);
    }
    // FSDP's own copies are left out: how often a step makes them is not in the workload.
    for (const SectionCost& section : workload.sections)
      for (const SectionItem& item : section.items)
        if (section.section == Section::optimizer && item.bytes > 0) add_optimizer(workload, item, machine);
  }
  /// One that the program's own kernels share their name with cannot be told from them in a run.
  void add_optimizer(const Workload& workload, const SectionItem& item, const MachineProfile& machine) {
    const std::string_view label = workload.labels.text(item.label);
    const auto known = kinds.find(label);
    const bool shared = known != kinds.end() && known->second == RoofKind::bytes;
    add(shared ? RoofKind::bytes : RoofKind::optimizer, label, {{}, {}, item.bytes, 0, item.label}, machine);
  }
  void add(RoofKind kind, std::string_view label, const KernelWork& kernel, const MachineProfile& machine) {
    kinds.emplace(label, kind);
    Work& work = of[static_cast<std::size_t>(kind)];
    const bool flop = kind <= RoofKind::attention;
    const double amount = flop ? flops(kernel.math) : static_cast<double>(kernel.bytes);
    work.amount += amount;
    work.seconds += amount / (flop ? large_rate(machine, kernel.math) : machine.rates.hbm);
  }
  [[nodiscard]] bool known() const {
    return shaped > 0 && static_cast<double>(shaped) >= kLeastShaped * static_cast<double>(kernels);
  }
};

struct Taken {
  Nanoseconds time;
  Nanoseconds beside;  ///< of it, on other streams than the compute stream
};

std::array<Taken, kKernelKinds> taken_by_kind(const Run& run, const StepWork& work, const TimeExplanation& step) {
  std::array<Taken, kKernelKinds> out{};
  for (const DeviceOpRecord& op : run.device_ops) {
    if (op.kind != DeviceOpRecord::Kind::kernel || op.start < step.begin || op.start >= step.end) continue;
    const auto found = work.kinds.find(run.labels.text(op.label));
    if (found == work.kinds.end()) continue;
    // On other streams FSDP2's kernels may have the names of the program's.
    if (op.stream != kComputeStream && found->second != RoofKind::optimizer) continue;
    Taken& taken = out[static_cast<std::size_t>(found->second)];
    taken.time += op.end - op.start;
    if (op.stream != kComputeStream) taken.beside += op.end - op.start;
  }
  return out;
}

void add_links(const LinkLoads& loads, const TimeExplanation& step, std::vector<RoofRow>& rows) {
  for (const LinkLoad& link : loads.links) {
    const LinkUse use = link_use(link, step);
    if (use.bytes <= 0 || link.most <= 0) continue;
    RoofRow row{RoofKind::link, link.link, true, use.bytes, link.most * 1e9};
    row.least = Nanoseconds::from_double(row.work / row.rate * 1e9);
    row.takes = use.busy;
    rows.push_back(row);
  }
}

}  // namespace

std::optional<Roofline> roofline(const Run& run, const Workload& workload, const LinkLoads& loads,
                                 const TimeExplanation& step, const MachineProfile& machine) {
  const StepWork work(workload, machine);
  if (!work.known()) return std::nullopt;
  Roofline out;
  out.machine = machine.name;
  const auto taken = taken_by_kind(run, work, step);
  for (std::size_t kind = 0; kind < kKernelKinds; ++kind) {
    const Work& one = work.of[kind];
    if (one.amount <= 0) continue;
    RoofRow row{static_cast<RoofKind>(kind), std::nullopt, 2 * taken[kind].beside.count > taken[kind].time.count,
                one.amount, one.amount / one.seconds};
    row.least = Nanoseconds::from_double(one.seconds * 1e9);
    row.takes = taken[kind].time;
    if (!row.beside_compute) out.compute += row.least;
    out.rows.push_back(row);
  }
  add_links(loads, step, out.rows);
  out.least = out.compute;
  for (std::size_t i = 0; i < out.rows.size(); ++i)
    if (out.rows[i].beside_compute && out.rows[i].least > out.least) {
      out.least = out.rows[i].least;
      out.longest = i;
    }
  return out;
}

}  // namespace foreshard::sim
