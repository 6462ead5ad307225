#include "sim/engine/contention.hpp"

#include <cmath>

namespace foreshard::sim {
namespace {

using Role = Party::Role;

bool is_kernel(const Party& party) {
  return party.role == Role::main_kernel || party.role == Role::side_kernel;
}
bool is_collective(const Party& party) {
  return party.role == Role::ring || party.role == Role::copy_engine;
}

/// Product of the single slowdowns, rings taken together first.
double kernel_slowdown(const MachineProfile& machine, std::span<const Party> running, std::size_t self) {
  const Party& kernel = running[self];
  double slowdown = 1;
  double ring_shares = 0;
  int rings = 0;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (i == self) continue;
    const Party& other = running[i];
    if (other.role == Role::ring) {
      ring_shares += other.ring_share;
      ++rings;
    } else if (other.role == Role::copy_engine) {
      slowdown *= machine.slowdown(kernel.kernel_class, Neighbour::copy_engine).kernel;
    } else if (other.role == Role::side_kernel) {
      slowdown *= machine.slowdown(kernel.kernel_class, Neighbour::side_kernel).kernel;
    } else if (other.role == Role::main_kernel) {  // then this one is the side kernel
      slowdown *= machine.slowdown(other.kernel_class, Neighbour::side_kernel).neighbour;
    }
  }
  if (rings == 0) return slowdown;
  if (rings > 1) ring_shares *= machine.rings.share_of_two;
  const double alone =
      kernel.ring_slowdown > 0 ? kernel.ring_slowdown : machine.slowdown(kernel.kernel_class, Neighbour::ring).kernel;
  return slowdown * (1 + (alone - 1) * ring_shares);
}

double collective_slowdown(const MachineProfile& machine, std::span<const Party> running, std::size_t self) {
  const Neighbour kind = running[self].role == Role::ring ? Neighbour::ring : Neighbour::copy_engine;
  double slowdown = 1;
  for (std::size_t i = 0; i < running.size(); ++i) {
    if (i == self) continue;
    if (is_kernel(running[i])) slowdown *= machine.slowdown(running[i].kernel_class, kind).neighbour;
    if (is_collective(running[i])) slowdown *= machine.rings.two_slowdown;
  }
  return slowdown;
}

}  // namespace

void fill_rates(const MachineProfile& machine, std::span<const Party> running, std::span<std::int64_t> rates) {
  for (std::size_t i = 0; i < running.size(); ++i) {
    double slowdown = 1;
    if (running.size() > 1) {
      if (is_kernel(running[i])) slowdown = kernel_slowdown(machine, running, i);
      if (is_collective(running[i])) slowdown = collective_slowdown(machine, running, i);
    }
    // At least 1, so that everything that runs ends.
    rates[i] = std::max<std::int64_t>(1, std::llround(static_cast<double>(kFullRate) / slowdown));
  }
}

}  // namespace foreshard::sim
