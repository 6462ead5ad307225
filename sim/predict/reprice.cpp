#include "sim/predict/reprice.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/compute/price_kernel.hpp"
#include "sim/compute/prices.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

constexpr std::size_t kClasses = static_cast<std::size_t>(KernelClass::memset) + 1;

bool same_gpu(const MachineProfile& a, const MachineProfile& b) {
  return a.sm_count == b.sm_count && a.compute_capability == b.compute_capability &&
         a.peaks.clock_hz == b.peaks.clock_hz && a.peaks.matrix_bfloat16 == b.peaks.matrix_bfloat16 &&
         a.peaks.memory_bandwidth == b.peaks.memory_bandwidth;
}

bool has_recorded_times(const Workload& workload) {
  if (!workload.has_timing || workload.steps.empty()) return false;
  const std::vector<Op>& ops = workload.steps.back().ops;
  return std::any_of(ops.begin(), ops.end(),
                     [](const Op& op) { return op.kind == OpKind::kernel && op.kernel.work.count > 0; });
}

/// The dtype of its matrix products.
DType computes_in(const Workload& workload) {
  if (workload.settings.param_dtype) return *workload.settings.param_dtype;
  for (const Unit& unit : workload.units)
    if (!unit.parameters.empty()) return unit.parameters.front().dtype;
  return DType::float32;
}

/// The kernel of that class and size: a GEMM of `size` rows and columns, few rows where it streams its weights; an
/// attention of `size` queries and keys; `size` × 64 KiB.
KernelWork kernel_of(KernelClass kernel_class, std::uint64_t size, DType dtype) {
  constexpr std::uint64_t kFewRows = 16;
  constexpr std::uint32_t kHeads = 32;
  constexpr std::uint64_t kHeadDim = 128;
  constexpr Bytes kPiece = 64 * kKiB;
  KernelWork work;
  work.kernel_class = kernel_class;
  work.math.dtype = dtype;
  switch (kernel_class) {
    case KernelClass::gemm:
    case KernelClass::gemm_single_wave:
      work.math.kind = KernelMath::Kind::gemm;
      work.math.m = work.math.n = work.math.k = size;
      return work;
    case KernelClass::gemm_streaming:
      work.math.kind = KernelMath::Kind::gemm;
      work.math.m = kFewRows;
      work.math.n = work.math.k = size;
      return work;
    case KernelClass::attention:
      work.math.kind = KernelMath::Kind::attention_forward;
      work.math.causal = true;
      work.math.batch = kHeads;
      work.math.m = work.math.n = size;
      work.math.k = kHeadDim;
      return work;
    case KernelClass::memory_bound:
    case KernelClass::gather_copy:
    case KernelClass::memset:
      break;
  }
  work.bytes = size * kPiece;
  return work;
}

/// What the kernels of one class take on `to`, by what they take on `from`.
class Ratio {
 public:
  Ratio(KernelClass kernel_class, DType dtype, const MachineProfile& from, const MachineProfile& to) {
    constexpr int kSizes = 24;  // 64 to 2^17.5, by half octaves: from a launch's own time to seconds
    double longest = 0;
    for (int i = 0; i < kSizes; ++i) {
      const auto size = static_cast<std::uint64_t>(std::lround(64 * std::exp2(i / 2.0) / 8)) * 8;
      const KernelWork work = kernel_of(kernel_class, size, dtype);
      const auto here = static_cast<double>(price_kernel(from, work).time.count);
      const auto there = static_cast<double>(price_kernel(to, work).time.count);
      if (here <= longest || there <= 0) continue;  // a wave of tiles more: times do not always grow with the size
      longest = here;
      points_.push_back({std::log(here), there / here});
    }
  }

  [[nodiscard]] Nanoseconds at(Nanoseconds time) const {
    if (time.count <= 0 || points_.empty()) return time;
    return op_time(static_cast<double>(time.count) * ratio(std::log(static_cast<double>(time.count))));
  }

 private:
  struct Point {
    double time = 0;  // logarithm of ns on `from`
    double ratio = 1;
  };

  [[nodiscard]] double ratio(double time) const {
    const auto above =
        std::find_if(points_.begin(), points_.end(), [&](const Point& point) { return point.time >= time; });
    if (above == points_.begin()) return above->ratio;
    if (above == points_.end()) return points_.back().ratio;
    const auto below = above - 1;
    return below->ratio + (above->ratio - below->ratio) * (time - below->time) / (above->time - below->time);
  }

  std::vector<Point> points_;  // ascending by time
};

class Repricer {
 public:
  Repricer(const Workload& workload, const MachineProfile& from, const MachineProfile& to, std::string_view pytorch)
      : from_(from),
        to_(to),
        recorded_workspace_(from.gpu().cublas_workspace(workload.settings.pytorch)),
        workspace_(to.gpu().cublas_workspace(pytorch)) {
    const DType dtype = computes_in(workload);
    for (std::size_t i = 0; i < kClasses; ++i) ratios_.emplace_back(static_cast<KernelClass>(i), dtype, from, to);
  }

  void program(Program& program) {
    for (Op& op : program.ops) {
      if (op.kind == OpKind::kernel) kernel(op.kernel);
      if (op.kind == OpKind::copy) op.copy.work = copied(op.copy);
      if (op.kind == OpKind::alloc && op.category == MemoryCategory::workspaces && op.size.bytes == recorded_workspace_)
        op.size.bytes = workspace_;
    }
  }

  void section(SectionCost& section) {
    for (SectionItem& item : section.items) {
      const bool copies = item.role == SectionRole::metadata_copy || item.role == SectionRole::offload_copy;
      item.work = copies
                      ? copied({.kind = CopyKind::host_to_device, .bytes = item.bytes, .work = item.work, .label = {}})
                      : of_class(item.kernel_class).at(item.work);
    }
  }

  [[nodiscard]] const Ratio& of_class(KernelClass kernel_class) const {
    return ratios_[static_cast<std::size_t>(kernel_class)];
  }

 private:
  void kernel(KernelWork& work) {
    work.work = of_class(work.kernel_class).at(work.work);
    work.ring_slowdown = 0;
  }

  /// By the two profiles' rates for so many bytes.
  [[nodiscard]] Nanoseconds copied(CopyWork work) const {
    const Nanoseconds recorded = work.work;
    if (recorded.count <= 0) return recorded;
    work.work = {};
    const auto here = static_cast<double>(price(from_, work).count);
    const auto there = static_cast<double>(price(to_, work).count);
    return here > 0 ? op_time(static_cast<double>(recorded.count) * there / here) : recorded;
  }

  const MachineProfile& from_;
  const MachineProfile& to_;
  const Bytes recorded_workspace_;
  const Bytes workspace_;
  std::vector<Ratio> ratios_;  // by KernelClass
};

}  // namespace

std::optional<RecordedElsewhere> recorded_elsewhere(const Workload& workload, const MachineProfile& machine) {
  if (!has_recorded_times(workload)) return std::nullopt;
  RecordedElsewhere out{std::nullopt, workload.gpu};
  if (const auto name = builtin_profile_of(workload.gpu)) {
    const MachineProfile& profile = *find_builtin_profile(*name);
    const bool is_it = workload.sm_count == 0 || workload.sm_count == profile.sm_count;
    if (is_it && same_gpu(profile, machine)) return std::nullopt;
    if (is_it) out.profile = profile;
  } else if (workload.gpu.empty() && (workload.sm_count == 0 || workload.sm_count == machine.sm_count)) {
    return std::nullopt;
  }
  // Another GPU's name on a profile of the user's own: it says whose it is by its SMs alone.
  const auto names = builtin_profile_names();
  const bool own = std::find(names.begin(), names.end(), machine.name) == names.end();
  if (!out.profile && own && workload.sm_count == machine.sm_count) return std::nullopt;
  return out;
}

std::vector<Repriced> reprice(Workload& workload, const MachineProfile& from, const MachineProfile& to,
                              std::string_view pytorch) {
  Repricer repricer(workload, from, to, pytorch);
  std::array<Repriced, kClasses> sums{};
  for (const Op& op : workload.steps.back().ops) {
    if (op.kind != OpKind::kernel) continue;
    Repriced& sum = sums[static_cast<std::size_t>(op.kernel.kernel_class)];
    sum.kernel_class = op.kernel.kernel_class;
    sum.recorded += op.kernel.work;
    sum.planned += repricer.of_class(op.kernel.kernel_class).at(op.kernel.work);
  }
  repricer.program(workload.setup);
  for (Program& step : workload.steps) repricer.program(step);
  for (SectionCost& section : workload.sections) repricer.section(section);
  workload.sm_count = to.sm_count;
  workload.returns = {};
  std::vector<Repriced> out;
  for (const Repriced& sum : sums)
    if (sum.recorded.count > 0) out.push_back(sum);
  return out;
}

}  // namespace foreshard::sim
