// A benchmark's own rows beside what is predicted of them.
//
// Who: `foreshard collectives --against`. Pure but for the stream that it prints to.
#pragma once

#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "cli/terminal/output.hpp"
#include "sim/calibrate/measurements.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/collectives/ring_messages.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::cli {

struct AgainstRow {
  sim::CollectiveSample measured;
  sim::CollectivePrice predicted;
  bool in_table = false;  ///< the profile's tables have this point: it is exact by construction, and no prediction
  /// Why the price rests on no measurement of the same on this machine, a sentence each; empty where it does.
  std::vector<std::string> not_valid = {};
  std::optional<sim::RingMessages> messages = {};  ///< --messages, of what runs a ring

  /// What the caller of `measured` sees of `predicted`.
  [[nodiscard]] double predicted_us() const;
  /// Predicted over measured, less 1.
  [[nodiscard]] double error() const;
};

struct Against {
  std::string file;
  std::string machine;
  std::vector<AgainstRow> rows;  ///< one at least
};

/// Each sample priced as its benchmark calls: from PyTorch at its host's pace, from a program in C at the GPU's.
[[nodiscard]] Against hold_against(std::string file, const std::vector<sim::CollectiveSample>& samples,
                                   const sim::MachineProfile& machine, bool messages);

/// Mean and worst error of the rows that no table has, and of those from 16 MiB on.
[[nodiscard]] std::string against_answer(const Against& against);
void print_against(std::ostream& out, const Against& against);
/// Without `schema` and `verb`.
[[nodiscard]] Json against_json(const Against& against);

}  // namespace foreshard::cli
