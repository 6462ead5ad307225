// What a result depends on, as one short text: results with equal fingerprints are equal.
//
// It covers what the step is (the workload's canonical JSON, or the digests of a recording's files), the effective
// settings, the machine profile's canonical JSON, what else was asked, and foreshard's version. The commit is not in
// it, so that builds between two releases can be compared; it stands beside it in `foreshard --version`.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cli/options/planning.hpp"
#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/run/run.hpp"
#include "core/settings/settings.hpp"

namespace foreshard::cli {

struct FingerprintParts {
  std::string inputs;    ///< digest of the workload, or of the files
  Settings settings;     ///< the effective ones
  std::string machine;   ///< digest of the profile; empty: none was used
  std::string question;  ///< what else shapes the result: a memory limit, ranges
};

/// Of `workload`'s canonical JSON, which is not written where import kept its digest: it is `source`'s own, then.
[[nodiscard]] std::string workload_digest(const traces::Source& source,
                                          const std::shared_ptr<const Workload>& workload);

/// "xxh3:" and 16 hexadecimal digits.
[[nodiscard]] std::string fingerprint(const FingerprintParts& parts);

/// Of a question: what is unlike the rest of the job.
[[nodiscard]] std::string differences_question(const sim::Differences& differences);

/// Of a prediction, or of a run, of what was planned. `differences`: what is unlike the rest of the job; `trials`: what
/// chance does to it; `kept_ranks`, `beside`, `flapping` and `lengths`: PredictRequest's. Errors: the profile cannot be
/// read again.
[[nodiscard]] Result<std::string> plan_fingerprint(const Planned& planned, const sim::Differences& differences = {},
                                                   const std::optional<sim::TrialsRequest>& trials = {},
                                                   std::optional<std::uint32_t> kept_ranks = {},
                                                   const std::optional<sim::BesideRequest>& beside = {},
                                                   const std::optional<sim::FlappingRequest>& flapping = {},
                                                   const std::optional<sim::DrawnLengths>& lengths = {});
/// Of a recording that was read: its files and settings.
[[nodiscard]] std::string import_fingerprint(const Run& run);

/// What a store says; of a recording without, import_fingerprint(). Empty where neither is known (a store that is older
/// than fingerprints).
[[nodiscard]] std::string fingerprint_of(const Run& run);
/// Keeps it among the run's results, which a store holds.
void keep_fingerprint(Run& run, const std::string& fingerprint);

/// Of a profile by its name or file: its JSON with what it takes from the profile that it extends, keys in order.
[[nodiscard]] Result<std::string> machine_digest(const std::string& machine);

}  // namespace foreshard::cli
