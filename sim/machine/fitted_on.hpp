// Which measurements the constants of a machine profile were fitted to, by name.
//
// Who: profile_reader.cpp fills it; accuracy asks which recorded runs and published tables a prediction's own
// constants have seen, and shows those rows apart. Plain data and pure functions (docs/machines.md, "Format").
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace foreshard::sim {

/// A section "measurements" entry: recorded runs, benchmark files or published tables under one name.
struct Measurement {
  std::string name;             ///< "reference-runs"
  std::vector<std::string> of;  ///< names of runs, of files, of published tables; empty: none that can be held against
  std::string source;
};

/// "fitted_on" of one constant, or of one cell, curve or table that has one source.
struct FittedOn {
  enum class Kind : std::uint8_t {
    nothing = 0,       ///< "none: documented", "none: assumed", "none: published": `why` says which
    measurements = 1,  ///< `names`
    not_stated = 2,    ///< a profile of schema 2, which did not ask for it
  };
  std::string place;  ///< in the JSON: "/latencies/kernel_gap"
  Kind kind = Kind::not_stated;
  std::string why;
  std::vector<std::string> names;  ///< of measurements
};

/// "calibration" in a list of names stands for the inputs that a profile's own record of `calibrate` or `probe` lists.
inline constexpr std::string_view kOwnCalibration = "calibration";

/// All that a profile says about where its constants come from.
struct Provenance {
  std::vector<Measurement> measurements;
  std::vector<FittedOn> constants;  ///< in file order
};

/// Which constants price what.
enum class ConstantUse : std::uint8_t {
  model = 0,      ///< a plan from a model: every constant
  recording = 1,  ///< a plan from a recording brings its own host and kernel times: all but /host/calls and /compute
  collective = 2  ///< one isolated collective: /links, /nccl, /network, /collectives
};

/// Runs, files and published tables that some constant of this use was fitted on.
[[nodiscard]] std::set<std::string, std::less<>> seen_by(const Provenance& provenance, ConstantUse use);

/// Whether every constant of this use says what it was fitted on. Where one does not, no row can be called held out.
[[nodiscard]] bool stated(const Provenance& provenance, ConstantUse use);

}  // namespace foreshard::sim
