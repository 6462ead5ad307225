// Runs the transfer plans of all ranks of a group on host memory, lane by lane in an order drawn from a seed, and the
// reductions that answer them. A copy or flag takes effect at once; what may run next is what the flags allow.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "gpu/collectives/transfer_plan.hpp"
#include "gpu/collectives/transfer_runner.hpp"

namespace foreshard::gpu {

using Memory = std::vector<std::uint8_t>;

struct SimulatedRank {
  Memory input;
  Memory output;
  Memory staging;
  std::vector<std::uint32_t> flags = std::vector<std::uint32_t>(kFlagBytes / 4, 0);
};

class PlanSimulation {
 public:
  PlanSimulation(std::uint32_t count, std::uint64_t seed) : ranks(count), random_(seed) {}

  /// One thing that a rank does in order: the ops of one stream, or a step of its own.
  struct Step {
    TransferOp op;
    std::function<bool(PlanSimulation&)> own;  ///< instead of op: true when done, false when it must wait
  };
  /// A stream: steps in order.
  struct Stream {
    std::uint32_t rank = 0;
    std::vector<Step> steps;
    std::size_t next = 0;
  };

  /// Adds a plan behind what the rank's streams hold: lane 0 and the caller's ops to stream `rank`, other lanes to
  /// streams of their own, which start and end with the plan as the runner's do.
  void add(std::uint32_t rank, const TransferPlan& plan);
  void add_own(std::uint32_t rank, std::function<bool(PlanSimulation&)> step);
  /// Runs to the end. Empty, or what cannot go on.
  [[nodiscard]] std::string run();
  /// Adds steps to a stream of the rank's own, beside its plans: the reduction.
  void add_concurrent(std::uint32_t rank, std::vector<std::function<bool(PlanSimulation&)>> steps);

  [[nodiscard]] std::uint32_t flag(std::uint32_t on, Flag which, std::uint32_t writer, std::uint32_t slot) const {
    return at[on].flags[flag_offset(which, writer, slot) / 4];
  }
  void set_flag(std::uint32_t on, Flag which, std::uint32_t writer, std::uint32_t slot, std::uint32_t value) {
    at[on].flags[flag_offset(which, writer, slot) / 4] = value;
  }
  [[nodiscard]] static bool reached(std::uint32_t value, std::uint32_t wanted) {
    return static_cast<std::int32_t>(value - wanted) >= 0;
  }
  Memory& memory(const Place& place) {
    SimulatedRank& rank = at[place.rank];
    return place.buffer == Buffer::input ? rank.input : place.buffer == Buffer::output ? rank.output : rank.staging;
  }

  std::uint32_t ranks;
  std::vector<SimulatedRank> at = std::vector<SimulatedRank>(ranks);
  std::vector<std::string> wrong;  ///< what steps of their own found

 private:
  bool execute(Stream& stream);
  Stream& main_of(std::uint32_t rank);
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<Stream>> streams_;
};

}  // namespace foreshard::gpu
