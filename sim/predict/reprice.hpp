// A recording planned on another GPU: its kernels and copies at the ratio of the two profiles' prices.
//
// A recorded kernel has a class and a time, no shape. Its time on the other GPU is its time here, times the ratio of
// what the two profiles ask for the kernel of that class that takes as long here: a square matrix product, a causal
// attention of 32 heads, so many bytes. The host's times stay the recorded host's; collectives, latencies and
// contention are the machine's that is planned (docs/model.md, "On another machine").
//
// Who: predict.cpp and host_scale.cpp. Pure and deterministic.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// The kernels of one class, in the last step.
struct Repriced {
  KernelClass kernel_class = KernelClass::gemm;
  Nanoseconds recorded;  ///< the sum of their times alone on the recording's GPU
  Nanoseconds planned;   ///< the same on the machine
};

/// What the times of a workload are of, where that is not `machine`.
struct RecordedElsewhere {
  std::optional<MachineProfile> profile;  ///< the built-in one of the GPU that the workload names; none: there is none
  std::string gpu;                        ///< as the workload names it
};

/// None: its times are that machine's own, or it has none (a model, which the machine prices). Two profiles are of one
/// GPU where their SMs, clock, matrix rate and memory rate are equal, whoever measured them. A GPU without a built-in
/// profile, or with other SMs than that has ("NVIDIA H100 PCIe"), is the machine's where the machine is no built-in one
/// and has as many SMs; one without a name where the SMs are equal or not known.
[[nodiscard]] std::optional<RecordedElsewhere> recorded_elsewhere(const Workload& workload,
                                                                  const MachineProfile& machine);

/// Gives kernels, copies and FSDP's sections of `workload` their times on `to`, its SMs and cuBLAS workspaces to the
/// workload, and forgets what was recorded of this GPU alone: slowdowns under a ring, and when blocks came back.
/// `pytorch`: the version that is planned, whose workspaces these are; the recorded ones are those of
/// `workload.settings`. By class, in the order of the classes, what became of the last step.
std::vector<Repriced> reprice(Workload& workload, const MachineProfile& from, const MachineProfile& to,
                              std::string_view pytorch);

}  // namespace foreshard::sim
