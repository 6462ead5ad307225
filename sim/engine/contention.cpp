#include "sim/engine/contention.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "sim/network/max_min.hpp"

namespace foreshard::sim {
namespace {

using Role = RunningOp::Role;

/// What collectives take from kernels together.
struct Taken {
  double sms = 0;
  double traffic = 0;
  double streamed = 0;        ///< of that, what CTAs take that were measured by KernelDemand::streamed
  std::int64_t shortest = 0;  ///< ns until the first of those that hold SMs ends; 0: none does
};

std::int64_t rounds(std::int64_t tiles, std::int64_t sms) {
  return (tiles + sms - 1) / sms;
}

/// Time while `held` SMs are taken from start to end, over isolated time, of a GEMM in whole waves: blocks that find no
/// SM at the start run once another block has ended. Where tiles are fixed in advance they then do their full share,
/// else the one tile that is theirs.
double covered_waves(const MachineProfile& machine, std::int64_t tiles, double held) {
  const ContentionSpec& spec = machine.contention;
  const std::int64_t all = machine.sm_count;
  const std::int64_t free = static_cast<std::int64_t>(static_cast<double>(all) - held);
  const auto cluster = static_cast<std::int64_t>(spec.cluster);
  const std::int64_t left = std::max(cluster, free / cluster * cluster);
  const std::int64_t late = std::min(tiles, all) - left;
  const auto waves = static_cast<double>(rounds(tiles, all));
  if (late <= 0) return static_cast<double>(rounds(tiles, left)) / waves;
  if (static_cast<double>(tiles) <= spec.static_waves * static_cast<double>(all)) return 1 + spec.tail_tile;
  return (static_cast<double>(rounds(tiles - late, left)) + spec.tail_tile) / waves;
}

/// How much longer an access takes while others take `traffic` of the memory bandwidth.
double stretch_of(const MachineProfile& machine, double traffic) {
  return 1 / (1 - std::min(traffic, machine.contention.most_traffic)) - 1;
}

/// What a kernel loses to the others' traffic, over its isolated time. Beside the CTAs of foreshard's own
/// reduce-scatter kernels lose more than their bytes say: operands leave the L2, and blocks share SMs with those CTAs.
/// That was measured at one rate.
double traffic_loss(const MachineProfile& machine, const KernelDemand& kernel, const Taken& taken) {
  const ContentionSpec& spec = machine.contention;
  const double stretch = stretch_of(machine, taken.traffic);
  if (kernel.streamed <= 0 || spec.streamed_bandwidth <= 0 || taken.streamed <= 0) return kernel.memory * stretch;
  const double streamed = stretch_of(machine, taken.streamed);
  const double measured_at = stretch_of(machine, spec.streamed_bandwidth / spec.memory_bandwidth);
  return std::max(0.0, kernel.streamed - kernel.held) * streamed / measured_at + kernel.memory * (stretch - streamed);
}

/// Time over isolated time while work divides evenly over the SMs that are left.
double fluid(const MachineProfile& machine, const KernelDemand& kernel, const Taken& taken) {
  const double all = machine.sm_count;
  const double sms = std::max(1.0, kernel.sms * all / std::max(1.0, all - taken.sms));
  return sms + traffic_loss(machine, kernel, taken);
}

double covered(const MachineProfile& machine, const KernelDemand& kernel, const Taken& taken) {
  const double even = fluid(machine, kernel, taken);
  if (kernel.tiles == 0 || taken.sms <= 0) return even;
  return std::max(even, covered_waves(machine, kernel.tiles, taken.sms));
}

/// A loss that was measured where the model loses `usual`, scaled to where it loses `now`; unscaled where the model's
/// own loss is so small that a ratio to it would be one of rounding errors.
double loss_now(const MachineProfile& machine, double measured, double usual, double now) {
  return usual - 1 < machine.contention.least_loss ? measured - 1 : (measured - 1) * (now - 1) / (usual - 1);
}

/// Beside collectives from start to end, the kernel's own measured factor taken into account.
double with_collectives(const MachineProfile& machine, const KernelDemand& kernel, const Taken& taken) {
  if (kernel.held > 0 && taken.sms > 0) {
    const double lost = loss_now(machine, kernel.held, covered(machine, kernel, {.sms = machine.contention.held_sms}),
                                 covered(machine, kernel, {.sms = taken.sms}));
    return 1 + lost + traffic_loss(machine, kernel, taken);
  }
  const double model = covered(machine, kernel, taken);
  if (kernel.ring_slowdown <= 0 || taken.sms <= 0) return model;
  Taken ring = taken;
  ring.sms = machine.contention.ring.sms;
  return 1 + loss_now(machine, kernel.ring_slowdown, covered(machine, kernel, ring), model);
}

bool one_wave(const MachineProfile& machine, const KernelDemand& kernel) {
  return kernel.held > 0 && kernel.held >= machine.contention.one_wave;
}

/// How far a kernel is, in ns: its isolated time, what remains of that, and for how long it has run.
struct Progress {
  double whole;
  double remaining;
  double elapsed;
};

/// Beside collectives that end in `left` ns, of a kernel in one wave: blocks that find no SM begin when the others end
/// or when the collectives do, whichever is first, and then do their full share, `covered` less one of the whole. The
/// rate until the collectives end leaves what the late blocks then have to do. Asked again in between, it gives the
/// same rate: hence `elapsed`. A kernel that has lost nothing so far counts as one that begins now.
double late_blocks(double covered, double left, Progress kernel) {
  constexpr double kNothingLost = 1.001;
  if (kernel.remaining + kernel.elapsed <= kernel.whole * kNothingLost)
    kernel = {kernel.remaining, kernel.remaining, 0};
  const double freed = kernel.elapsed + left;
  const double end = freed >= kernel.whole ? covered * kernel.whole
                                           : std::max(kernel.whole, freed + std::min(covered - 1, 1.0) * kernel.whole);
  if (end <= freed) return (end - kernel.elapsed) / kernel.remaining;
  return left / std::max(kernel.remaining - (end - freed), left / static_cast<double>(kFullRate));
}

/// What a kernel loses to `taken`, of which it may ask in what time it ends.
PairRates::Loss loss_of(const MachineProfile& machine, const KernelDemand& kernel, const Taken& taken) {
  PairRates::Loss out;
  if (taken.sms <= 0 && taken.traffic <= 0) return out;
  out.beside = with_collectives(machine, kernel, taken);
  if (one_wave(machine, kernel)) {
    out.asks = PairRates::Asks::late_blocks;
  } else if (kernel.shaped) {
    out.asks = PairRates::Asks::freed_tiles;
    out.freed = std::min(out.beside, fluid(machine, kernel, taken));
  }
  return out;
}

/// `left`: ns until the first of the collectives that hold SMs ends; 0: none does.
double slowdown_of(const PairRates::Loss& loss, double left, const Share& share) {
  if (left <= 0 || loss.asks == PairRates::Asks::nothing) return loss.beside;
  const double remaining = static_cast<double>(share.remaining) / static_cast<double>(kFullRate);
  // A collective that ends first leaves its SMs to the tiles that are not begun by then.
  if (loss.asks == PairRates::Asks::freed_tiles) return left < remaining * loss.beside ? loss.freed : loss.beside;
  return late_blocks(loss.beside, left,
                     {static_cast<double>(share.work) / static_cast<double>(kFullRate), remaining,
                      static_cast<double>(share.elapsed)});
}

/// Where power holds the clock down, what others take away first lets the clock rise.
double at_clock(double slowdown, double clock) {
  return std::max(1.0, slowdown * clock);
}

double kernel_slowdown(const MachineProfile& machine, const RunningOp& running_op, const Taken& taken, bool with_kernel,
                       const Share& share) {
  const KernelDemand& kernel = running_op.kernel;
  const ContentionSpec& spec = machine.contention;
  double slowdown = slowdown_of(loss_of(machine, kernel, taken), static_cast<double>(taken.shortest), share);
  if (with_kernel && running_op.role == Role::side_kernel) slowdown *= spec.side_kernel;
  if (with_kernel && running_op.role == Role::main_kernel && !kernel.persistent) slowdown *= spec.with_side_kernel;
  return at_clock(slowdown, kernel.clock);
}

std::int64_t rate_of(double slowdown) {
  // At least 1, so that everything that runs ends.
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(static_cast<double>(kFullRate) / slowdown + 0.5));
}

/// Of what gets no SM for the time being.
constexpr std::int64_t kStands = 1;

/// ns until what has so much left at that rate ends.
std::int64_t time_left(std::int64_t remaining, std::int64_t rate) {
  return remaining / rate + 1;
}

struct Kernels {
  double pressure = 0;             // of those that are not persistent
  double persistent_pressure = 0;  // of persistent ones
  bool main = false;
  bool side = false;
  bool first = false;  // side kernels of high priority: their blocks go before all others'
  bool persistent = false;
  bool shaped = false;  // one of them asks how long the collectives last
};

Kernels kernels_of(const MachineProfile& machine, std::span<const RunningOp* const> running) {
  Kernels out;
  for (const RunningOp* each : running) {
    const RunningOp& running_op = *each;
    if (running_op.role != Role::main_kernel && running_op.role != Role::side_kernel) continue;
    const bool resident = running_op.role == Role::main_kernel && running_op.kernel.persistent;
    (resident ? out.persistent_pressure : out.pressure) += running_op.kernel.pressure;
    (running_op.role == Role::main_kernel ? out.main : out.side) = true;
    out.first |= running_op.role == Role::side_kernel && !running_op.in_turn;
    out.persistent |= resident;
    out.shaped |= running_op.kernel.shaped || one_wave(machine, running_op.kernel);
  }
  return out;
}

/// By what collectives are slower for one another on the network: they share the adapters and the busiest link behind
/// them fairly. `most`: the share of the adapters that each of `running` takes alone; 0: none.
std::vector<double> network_slowdowns(std::span<const RunningOp* const> running, std::span<const double> most) {
  constexpr std::array kCapacity{1.0, 1.0};
  std::vector<std::array<LinkShare, 2>> shares(running.size());
  std::vector<Flow> flows;
  for (std::size_t i = 0; i < running.size(); ++i) {
    shares[i] = {LinkShare{0, 1}, LinkShare{1, running[i]->collective.busiest}};
    if (most[i] > 0) flows.push_back({shares[i], most[i]});
  }
  const std::vector<double> rates = max_min_rates(kCapacity, flows);
  std::vector<double> slowdowns(running.size(), 1);
  for (std::size_t i = 0, flow = 0; i < running.size(); ++i)
    if (most[i] > 0) slowdowns[i] = most[i] / rates[flow++];
  return slowdowns;
}

/// Rates of the collectives among `running`, and what they take from the kernels.
Taken run_collectives(std::span<const RunningOp* const> running, std::span<const Share> shares, const Kernels& kernels,
                      std::span<std::int64_t> rates) {
  const auto delay_of = [&](const CollectiveDemand& demand) {
    // A ring that came before them lies on SMs of its own choice, and they do not delay it (docs/contention.md,
    // "Arrival").
    const double persistent = demand.ring && demand.early ? 0 : kernels.persistent_pressure;
    const double pressure = std::min(1.0, kernels.pressure + persistent);
    return 1 + demand.latency * (kernels.persistent ? std::max(pressure, demand.persistent_pressure) : pressure);
  };
  double link = 0, adapters = 0, busiest = 0;
  int on_adapters = 0;
  for (const RunningOp* each : running) {
    if (each->role != Role::collective) continue;
    const CollectiveDemand& demand = each->collective;
    const double delay = delay_of(demand);
    link += demand.link / delay;
    adapters += demand.network / delay;
    busiest += demand.network * demand.busiest / delay;
    if (demand.network > 0) ++on_adapters;
  }
  std::vector<double> on_network;  // empty: there is room for all
  if (on_adapters > 1 && std::max(adapters, busiest) > 1) {
    std::vector<double> most(running.size());
    for (std::size_t i = 0; i < running.size(); ++i)
      if (running[i]->role == Role::collective)
        most[i] = running[i]->collective.network / delay_of(running[i]->collective);
    on_network = network_slowdowns(running, most);
  }
  Taken taken;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (running[i]->role != Role::collective) continue;
    const CollectiveDemand& demand = running[i]->collective;
    const double crowd = std::max({1.0, demand.link > 0 ? link : 0, on_network.empty() ? 1 : on_network[i]});
    const double slowdown = delay_of(demand) * crowd;
    rates[i] = rate_of(slowdown);
    taken.traffic += demand.traffic / slowdown;
    if (demand.streams) taken.streamed += demand.traffic / slowdown;
    if (demand.sms <= 0) continue;
    taken.sms += demand.sms;
    if (!kernels.shaped) continue;
    const std::int64_t left = time_left(shares[i].remaining, rates[i]);
    taken.shortest = taken.shortest == 0 ? left : std::min(taken.shortest, left);
  }
  return taken;
}

/// The traffic of one collective of large blocks that a kernel overlaps.
double usual_traffic(const MachineProfile& machine, const CollectivePath& path, double pressure) {
  if (machine.contention.memory_bandwidth <= 0) return 0;
  const double rate = machine.contention.usual_link * path.link_bandwidth / (1 + path.gather_latency * pressure);
  return rate * path.memory_per_byte / machine.contention.memory_bandwidth;
}

}  // namespace

void fill_rates(const MachineProfile& machine, std::span<const RunningOp* const> running, std::span<const Share> shares,
                std::span<std::int64_t> rates) {
  if (running.size() == 1) {
    rates[0] = kFullRate;
    return;
  }
  const Kernels kernels = kernels_of(machine, running);
  const Taken taken = run_collectives(running, shares, kernels, rates);
  for (std::size_t i = 0; i < running.size(); ++i) {
    const RunningOp& running_op = *running[i];
    if (running_op.role == Role::apart) rates[i] = kFullRate;
    if (running_op.role == Role::main_kernel)
      rates[i] = rate_of(kernel_slowdown(machine, running_op, taken, kernels.side, shares[i]));
    if (running_op.role == Role::side_kernel && running_op.in_turn && kernels.first)
      rates[i] = kStands;
    else if (running_op.role == Role::side_kernel)
      rates[i] = rate_of(kernel_slowdown(machine, running_op, taken, kernels.main, shares[i]));
  }
}

void fill_rates(const MachineProfile& machine, std::span<const RunningOp> running, std::span<const Share> shares,
                std::span<std::int64_t> rates) {
  std::vector<const RunningOp*> each;
  for (const RunningOp& running_op : running) each.push_back(&running_op);
  fill_rates(machine, each, shares, rates);
}

PairRates pair_rates(const MachineProfile& machine, const RunningOp& kernel, const RunningOp& other) {
  const std::array running{&kernel, &other};
  std::array<std::int64_t, 2> rates{};
  PairRates out;
  if (kernel.role != Role::main_kernel || other.role != Role::collective) {
    fill_rates(machine, running, std::array<Share, 2>{}, rates);
    out.beside = rates[0];
    out.other = rates[1];
    return out;
  }
  const Kernels kernels = kernels_of(machine, running);
  const Taken taken = run_collectives(running, std::array<Share, 2>{}, kernels, rates);
  out.other = rates[1];
  out.loss = loss_of(machine, kernel.kernel, taken);
  out.clock = kernel.kernel.clock;
  out.holds_sms = other.collective.sms > 0;
  out.beside = rate_of(at_clock(out.loss.beside, out.clock));
  out.freed = rate_of(at_clock(out.loss.freed, out.clock));
  return out;
}

std::int64_t kernel_rate(const PairRates& pair, const Share& kernel, std::int64_t collective_remaining) {
  if (pair.loss.asks == PairRates::Asks::nothing || !pair.holds_sms) return pair.beside;
  const auto left = static_cast<double>(time_left(collective_remaining, pair.other));
  const double slowdown = slowdown_of(pair.loss, left, kernel);
  if (pair.loss.asks == PairRates::Asks::freed_tiles) return slowdown == pair.loss.beside ? pair.beside : pair.freed;
  return rate_of(at_clock(slowdown, pair.clock));
}

double slowdown_with_rings(const MachineProfile& machine, const KernelDemand& kernel, double sms) {
  if (sms <= 0) return 1;
  const CollectivePath& ring = machine.contention.ring;
  return with_collectives(machine, kernel, {.sms = sms, .traffic = usual_traffic(machine, ring, kernel.pressure)});
}

double slowdown_with_copy_engine(const MachineProfile& machine, const KernelDemand& kernel) {
  return fluid(machine, kernel, {.traffic = usual_traffic(machine, machine.contention.copy_engine, kernel.pressure)});
}

double slowdown_with_side_kernel(const MachineProfile& machine, const KernelDemand& kernel) {
  return kernel.persistent ? machine.contention.persistent_side : machine.contention.with_side_kernel;
}

}  // namespace foreshard::sim
