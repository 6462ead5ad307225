// What a search may change: settings that belong together, by the names that `tune --allow` and `--keep` take.
//
// Who: sim/tune, cli's tune. Pure; in one fixed order.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/enum_names.hpp"
#include "core/settings/settings.hpp"

namespace foreshard::sim {

enum class MoveFamily : std::uint8_t {
  prefetch = 0,              ///< when which all-gather is issued: depths, lists a module, async ops
  reshard = 1,               ///< what stays gathered after forward, a unit at a time, and over which ranks
  transport = 2,             ///< what moves all-gathers and reduce-scatters
  units = 3,                 ///< blocks that are wrapped together; embedding and head on their own
  reduce_scatter = 4,        ///< inputs in flight, a communicator of their own
  mesh = 5,                  ///< HSDP
  post_optimizer_event = 6,  ///< what the next step's first all-gather waits for
  checkpoint = 7,            ///< which blocks are computed again in backward
  offload = 8,               ///< states in the host's memory
  // The others change numbers, the program, its environment, or what was asked for: only where that is allowed.
  reduce_dtype = 9,
  optimizer = 10,
  cuda_graph = 11,
  batch = 12,  ///< batch against accumulation, at a fixed product
  release = 13,
  alloc_conf = 14,
};

}  // namespace foreshard::sim

template <>
struct foreshard::EnumNames<foreshard::sim::MoveFamily> {
  static constexpr std::array<std::string_view, 15> kNames{
      "prefetch",   "reshard", "transport",    "units",     "reduce-scatter", "mesh",  "post-optimizer-event",
      "checkpoint", "offload", "reduce-dtype", "optimizer", "cuda-graph",     "batch", "release",
      "alloc-conf"};
};
static_assert(foreshard::names_end_with(foreshard::sim::MoveFamily::alloc_conf));

namespace foreshard::sim {

/// A set of them.
class MoveFamilies {
 public:
  /// Those that leave numbers, program and question as they are.
  [[nodiscard]] static MoveFamilies usual() {
    MoveFamilies out;
    for (const MoveFamily family : kEnumValues<MoveFamily>)
      if (family < MoveFamily::reduce_dtype) out.set(family, true);
    return out;
  }
  void set(MoveFamily family, bool on) { on_[static_cast<std::size_t>(family)] = on; }
  [[nodiscard]] bool has(MoveFamily family) const { return on_[static_cast<std::size_t>(family)]; }
  /// Whether it has all that `other` has.
  [[nodiscard]] bool holds(const MoveFamilies& other) const {
    for (std::size_t i = 0; i < on_.size(); ++i)
      if (other.on_[i] && !on_[i]) return false;
    return !other.fixed_;
  }
  [[nodiscard]] bool meets(const MoveFamilies& other) const {
    for (std::size_t i = 0; i < on_.size(); ++i)
      if (on_[i] && other.on_[i]) return true;
    return false;
  }
  /// Something else is changed as well: the model's sizes, the machine, the version.
  void add_fixed() { fixed_ = true; }
  bool operator==(const MoveFamilies&) const = default;

 private:
  std::array<bool, kEnumSize<MoveFamily>> on_{};
  bool fixed_ = false;
};

/// What differs between two settings.
[[nodiscard]] MoveFamilies changed_families(const Settings& from, const Settings& to);

/// Whether a step of both has as many samples: batch times accumulation. A search never changes them, so that the
/// fastest step trains the most.
[[nodiscard]] bool same_samples(const Settings& a, const Settings& b);

/// What is said by unit (prefetch lists, `reshard_of_unit`) taken back: other settings made other units.
void forget_units(Settings& settings);

/// `to` with the settings of one family as `from` has them. With other units, what is said by unit is forgotten.
[[nodiscard]] Settings with_family_of(const Settings& from, MoveFamily family, const Settings& to);

/// All of `settings` but when which all-gather is issued, as text: points of one class have one program, one set of
/// kernels and collectives, and differ in their order alone.
[[nodiscard]] std::string class_of(const Settings& settings);
/// All of `settings` as text.
[[nodiscard]] std::string text_of(const Settings& settings);

}  // namespace foreshard::sim
