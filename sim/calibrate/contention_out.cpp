#include "sim/calibrate/contention_out.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>

#include "core/kernel/kernel_name.hpp"
#include "sim/engine/contention.hpp"

namespace foreshard::traces {
namespace {

enum class Lane : std::uint8_t { compute, side, ring, copy_engine, none };

// What runs concurrently with the compute stream from `time` on.
struct Neighbours {
  Nanoseconds time;
  double ring_sms = 0;
  std::int32_t rings = 0;
  std::int32_t copy_engines = 0;
  std::int32_t sides = 0;
};

// How long an op ran concurrently with what.
struct Overlap {
  double one_ring = 0;  // beside one ring of full width
  double any_ring = 0;
  double copy_engine = 0;
  double side = 0;
  std::vector<std::pair<double, double>> rings;  // length, and the SMs that rings held
};

class Contention {
 public:
  Contention(const Run& run, std::span<const ContendedOp> ops, StreamId compute, const sim::MachineProfile& machine)
      : run_(run), ops_(ops), machine_(machine) {
    for (std::uint32_t i = 0; i < run.device_ops.size(); ++i) {
      lanes_.push_back(lane(run.device_ops[i], compute));
      if (lanes_.back() == Lane::compute) compute_ops_.push_back(i);
    }
    std::stable_sort(compute_ops_.begin(), compute_ops_.end(), [&](std::uint32_t a, std::uint32_t b) {
      return run.device_ops[a].start < run.device_ops[b].start;
    });
    add_neighbours();
  }

  std::vector<FreedOp> run() {
    std::vector<Overlap> overlaps(run_.device_ops.size());
    for (const std::uint32_t i : compute_ops_) overlaps[i] = overlap(run_.device_ops[i]);
    for (std::uint32_t i = 0; i < run_.device_ops.size(); ++i) classes_.push_back(class_of(i));
    const std::map<std::uint32_t, double> measured = ring_slowdowns(overlaps);
    std::vector<FreedOp> out(run_.device_ops.size());
    for (std::uint32_t i = 0; i < run_.device_ops.size(); ++i) {
      const DeviceOpRecord& op = run_.device_ops[i];
      const double d = duration(op);
      double work = d;
      out[i].kernel_class = classes_[i];
      if (lanes_[i] == Lane::compute) {
        const auto own = measured.find(ops_[i].signature);
        if (own != measured.end()) out[i].ring_slowdown = own->second;
        work = compute_work(i, overlaps[i], out[i].ring_slowdown);
      } else if (lanes_[i] == Lane::side) {
        work = side_work(op);
      }
      out[i].work = Nanoseconds::from_double(std::max(work, kLeastShare * d));
    }
    return out;
  }

 private:
  // Less than this no op loses to contention; a guard against wrong overlaps (time model 1.2).
  static constexpr double kLeastShare = 0.3;
  // When a signature's own slowdown can be told (time model 1.2).
  static constexpr std::size_t kInstances = 6;
  static constexpr double kClean = 0.02;
  static constexpr double kCleanSpread = 1.25;  // p90 over p10 of the clean ones
  static constexpr double kLeastSlowdown = 0.98;
  static constexpr double kMaxSlowdown = 2.2;

  static double duration(const DeviceOpRecord& op) { return static_cast<double>((op.end - op.start).count); }

  [[nodiscard]] Lane lane(const DeviceOpRecord& op, StreamId compute) const {
    const std::string& name = run_.labels.text(op.label);
    if (is_peer_copy(name)) return Lane::copy_engine;
    if (op.kind == DeviceOpRecord::Kind::collective)
      return op.transport == Transport::copy_engine ? Lane::copy_engine : Lane::ring;
    if (is_nccl_kernel(name)) return Lane::ring;
    if (op.stream == compute) return Lane::compute;
    return op.kind == DeviceOpRecord::Kind::kernel ? Lane::side : Lane::none;
  }

  [[nodiscard]] KernelClass class_of(std::uint32_t i) const {
    const DeviceOpRecord& op = run_.device_ops[i];
    if (ops_[i].kernel_class) return *ops_[i].kernel_class;
    if (op.kind == DeviceOpRecord::Kind::memset) return KernelClass::memset;
    const std::uint32_t sm_count = run_.info.sm_count > 0 ? run_.info.sm_count : machine_.sm_count;
    return kernel_class({run_.labels.text(op.label), op.grid, sm_count});
  }

  void add_neighbours() {
    std::vector<Neighbours> changes;
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      const DeviceOpRecord& op = run_.device_ops[i];
      Neighbours change;
      if (lanes_[i] == Lane::ring) {
        change.rings = 1;
        change.ring_sms = op.grid[0] > 0 ? static_cast<double>(op.grid[0]) : machine_.contention.ring.sms;
      }
      if (lanes_[i] == Lane::copy_engine) change.copy_engines = 1;
      if (lanes_[i] == Lane::side) change.sides = 1;
      if (change.rings + change.copy_engines + change.sides == 0) continue;
      change.time = op.start;
      changes.push_back(change);
      changes.push_back({op.end, -change.ring_sms, -change.rings, -change.copy_engines, -change.sides});
    }
    std::stable_sort(changes.begin(), changes.end(),
                     [](const Neighbours& a, const Neighbours& b) { return a.time < b.time; });
    Neighbours now;
    for (const Neighbours& change : changes) {
      now = {change.time, now.ring_sms + change.ring_sms, now.rings + change.rings,
             now.copy_engines + change.copy_engines, now.sides + change.sides};
      if (!neighbours_.empty() && neighbours_.back().time == now.time) neighbours_.pop_back();
      neighbours_.push_back(now);
    }
  }

  [[nodiscard]] Overlap overlap(const DeviceOpRecord& op) const {
    Overlap out;
    auto at = std::upper_bound(neighbours_.begin(), neighbours_.end(), op.start,
                               [](Nanoseconds time, const Neighbours& n) { return time < n.time; });
    if (at != neighbours_.begin()) --at;
    for (; at != neighbours_.end() && at->time < op.end; ++at) {
      const Nanoseconds from = std::max(at->time, op.start);
      const Nanoseconds to = at + 1 != neighbours_.end() ? std::min((at + 1)->time, op.end) : op.end;
      if (to <= from) continue;
      const double length = static_cast<double>((to - from).count);
      if (at->copy_engines > 0) out.copy_engine += length;
      if (at->sides > 0) out.side += length;
      if (at->rings == 0) continue;
      const double usual = machine_.contention.ring.sms;
      out.any_ring += length;
      if (at->rings == 1 && std::abs(at->ring_sms - usual) < 0.1 * usual) out.one_ring += length;
      out.rings.emplace_back(length, at->ring_sms);
    }
    return out;
  }

  [[nodiscard]] sim::KernelDemand demand_of(KernelClass kernel_class) const {
    if (kernel_class == KernelClass::memset) return {};
    return sim::kernel_demand(machine_, {.kernel_class = kernel_class, .work = {}, .label = {}});
  }

  [[nodiscard]] double compute_work(std::uint32_t i, const Overlap& concurrent, double own_slowdown) const {
    const auto lost = [](double length, double slowdown) { return length * (1 - 1 / slowdown); };
    sim::KernelDemand demand = demand_of(classes_[i]);
    demand.ring_slowdown = own_slowdown;
    double work = duration(run_.device_ops[i]);
    for (const auto& [length, sms] : concurrent.rings)
      work -= lost(length, sim::slowdown_with_rings(machine_, demand, sms));
    work -= lost(concurrent.side, sim::slowdown_with_side_kernel(machine_, demand));
    work -= lost(concurrent.copy_engine, sim::slowdown_with_copy_engine(machine_, demand));
    return work;
  }

  [[nodiscard]] double side_work(const DeviceOpRecord& op) const {
    double work = duration(op);
    auto at = std::upper_bound(compute_ops_.begin(), compute_ops_.end(), op.start,
                               [&](Nanoseconds time, std::uint32_t i) { return time < run_.device_ops[i].start; });
    if (at != compute_ops_.begin()) --at;
    for (; at != compute_ops_.end() && run_.device_ops[*at].start < op.end; ++at) {
      const DeviceOpRecord& concurrent = run_.device_ops[*at];
      const Nanoseconds common = std::min(concurrent.end, op.end) - std::max(concurrent.start, op.start);
      if (common <= Nanoseconds{}) continue;
      if (classes_[*at] == KernelClass::memset) continue;
      work -= static_cast<double>(common.count) * (1 - 1 / machine_.contention.side_kernel);
    }
    return work;
  }

  // Nearest rank.
  static double quantile(const std::vector<double>& sorted, double q) {
    const auto i = static_cast<std::size_t>(std::llround(q * static_cast<double>(sorted.size() - 1)));
    return sorted[i];
  }

  [[nodiscard]] std::map<std::uint32_t, double> ring_slowdowns(const std::vector<Overlap>& overlaps) const {
    struct Instances {
      std::vector<double> clean;
      std::vector<double> with_ring;
    };
    std::map<std::uint32_t, Instances> by_signature;
    for (const std::uint32_t i : compute_ops_) {
      const double d = duration(run_.device_ops[i]);
      if (ops_[i].signature == ContendedOp::kNoSignature || d <= 0) continue;
      const Overlap& concurrent = overlaps[i];
      if (concurrent.side + concurrent.copy_engine > kClean * d) continue;
      Instances& instances = by_signature[ops_[i].signature];
      if (concurrent.any_ring < kClean * d) instances.clean.push_back(d);
      if (concurrent.one_ring > (1 - kClean) * d) instances.with_ring.push_back(d);
    }
    std::map<std::uint32_t, double> out;
    for (auto& [signature, instances] : by_signature) {
      std::vector<double>& clean = instances.clean;
      std::vector<double>& concurrent = instances.with_ring;
      if (clean.size() < kInstances || concurrent.size() < kInstances) continue;
      std::sort(clean.begin(), clean.end());
      std::sort(concurrent.begin(), concurrent.end());
      if (quantile(clean, 0.9) > kCleanSpread * quantile(clean, 0.1)) continue;
      const double ratio = quantile(concurrent, 0.5) / quantile(clean, 0.5);
      if (ratio >= kLeastSlowdown && ratio <= kMaxSlowdown) out.emplace(signature, ratio);
    }
    return out;
  }

  const Run& run_;
  std::span<const ContendedOp> ops_;
  const sim::MachineProfile& machine_;
  std::vector<Lane> lanes_;
  std::vector<KernelClass> classes_;
  std::vector<std::uint32_t> compute_ops_;  // by start
  std::vector<Neighbours> neighbours_;      // by time
};

}  // namespace

std::vector<FreedOp> free_of_contention(const Run& run, std::span<const ContendedOp> ops, StreamId compute,
                                        const sim::MachineProfile& machine) {
  return Contention(run, ops, compute, machine).run();
}

}  // namespace foreshard::traces
