// From measurements to a machine profile: what they determine, by how much they miss, and the range they cover.
//
// Who: cli's `calibrate`. The result is a profile that extends a base and changes single constants, each with a source
// that says it was fitted and from what. Pure and deterministic: the same inputs in any order give the same profile.
//   tables      median time by kind, transport, ranks and size
//   links       constants of /links, /nccl and /network by least squares of log(model / measured) over the samples
//   contention  memory traffic and latency of each path, from what a memory-bound kernel and a collective lose
//   rates       the best of each kind; node shape from a topology; captures are only noted
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "sim/calibrate/measurements.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// A constant that the measurements changed.
struct FittedConstant {
  std::string place;  ///< "/links/push"
  std::string unit;
  double before = 0;
  double after = 0;
  std::size_t samples = 0;
  std::string source;
};

/// How far a group of measurements lies from the new profile; relative, absolute values.
struct Residual {
  std::string what;   ///< "all-gather nccl, 4 ranks"
  std::string model;  ///< what predicts: "table without the point", "mechanism", …
  std::size_t points = 0;
  double mean = 0;
  double worst = 0;
};

struct FitRequest {
  std::string name;  ///< of the new profile
  std::string base;  ///< a built-in profile's name, or with `base_json` the name of that text
  std::string base_json;
};

struct MachineFit {
  MachineProfile machine;  ///< the new profile
  std::string json;        ///< the same as its file has it, indented, without the last newline: UTF-8, RFC 8259
  std::vector<FittedConstant> constants;
  std::vector<Residual> residuals;
  std::size_t tables = 0;
  std::vector<std::string> notes;
};

/// Refused: a base that is none (usage, or input of a file); measurements that contradict one another or the base, such
/// as two times of one collective that differ by more than half, other GPUs, bandwidths beyond the base's links
/// (mismatch).
[[nodiscard]] Result<MachineFit> fit_machine(std::span<const Measurements> inputs, const FitRequest& request);

}  // namespace foreshard::sim
