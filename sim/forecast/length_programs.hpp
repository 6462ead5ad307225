// The allocation programs of a training process by sequence length, each made once.
//
// Who: forecast.hpp. ModelPrograms takes any length that the model has; RecordedPrograms those that were recorded and,
// between and beyond them, lengths whose sizes follow from the recorded ones (size_fit.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "sim/forecast/derive.hpp"
#include "sim/sweep/sweep.hpp"

namespace foreshard::sim {

/// The two programs of one length.
struct LengthPrograms {
  std::optional<AllocationProgram> first;  ///< of a process's first step; none: not known at this length
  AllocationProgram later;                 ///< of any step behind it
};

class ProgramSource {
 public:
  virtual ~ProgramSource() = default;
  /// Makes the programs of `lengths`, ascending and each once, on up to `threads` threads; `on_made` hears on the
  /// calling thread how many of how many are done. Those that are made already are left as they are: others may be
  /// running them.
  [[nodiscard]] virtual Result<void> prepare(const std::vector<std::uint32_t>& lengths, unsigned threads,
                                             const std::function<void(std::size_t, std::size_t)>& on_made) = 0;
  [[nodiscard]] Result<void> prepare(const std::vector<std::uint32_t>& lengths, unsigned threads) {
    return prepare(lengths, threads, {});
  }
  /// Whether a length's program takes as long as some thirty of its steps: they are made as steps come to them.
  [[nodiscard]] virtual bool costs_to_prepare() const { return false; }
  /// Requires: prepared.
  [[nodiscard]] virtual const LengthPrograms& at(std::uint32_t length) const = 0;
  [[nodiscard]] virtual const ProcessStart& start() const = 0;
  /// Run before the list's own steps where the list's first length has no first step; null: every length has one.
  [[nodiscard]] virtual const AllocationProgram* recorded_first() const { return nullptr; }
  /// How lengths that were not recorded got their programs.
  [[nodiscard]] virtual std::vector<std::string> notes() const { return {}; }
  /// Why a forecast that rests on the programs made so far is not valid: inferences, and estimates of the model.
  [[nodiscard]] virtual std::vector<std::string> doubts() const { return {}; }
};

/// Of a model: `settings.seq` is the length. `source` must outlive it.
[[nodiscard]] std::unique_ptr<ProgramSource> model_programs(WorkloadSource& source, const Settings& settings);

/// What a length gets that lies between two recorded ones whose steps ask in different orders (embedding's backward
/// sorts from some number of tokens on, say), so that nobody knows where between them the order changes.
enum class BetweenOrders : std::uint8_t { refuse = 0, lower = 1, upper = 2 };

/// Of a recording. `workload` must be adapted to `settings`. Fails as derive_steps() does, and (usage) where the
/// recording shows the sequence length of no step behind its first; those of which it shows none are left out, and
/// notes() say so.
[[nodiscard]] Result<std::unique_ptr<ProgramSource>> recorded_programs(const Workload& workload,
                                                                       const Settings& settings, BetweenOrders between);

}  // namespace foreshard::sim
