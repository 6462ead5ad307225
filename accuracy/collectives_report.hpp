// The accuracy of collective prices as Markdown tables: `foreshard accuracy` and docs/collectives.md show them.
//
// Pure: the same profile gives the same text.
#pragma once

#include <string>

#include "sim/machine/profile.hpp"

namespace foreshard::accuracy {

/// The profile's own measured tables, predicted with all of them, without the size, without the table and without
/// any: mean and worst absolute error from 1 MiB up, by kind, transport and ranks. Empty without tables.
[[nodiscard]] std::string report_tables(const sim::MachineProfile& machine);

/// The published rows for this machine: per table how many, mean and worst error; then every row beyond `bar`.
[[nodiscard]] std::string report_published(const sim::MachineProfile& machine, double bar = 0.15);

}  // namespace foreshard::accuracy
