#include "sim/machine/valid_range.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/units.hpp"
#include "core/device/collective_names.hpp"
#include "core/kernel/kernel_enum_names.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/machine/outside_range.hpp"

namespace foreshard::sim {
namespace {

template <class T>
std::vector<T> not_in(const std::vector<T>& used, const std::vector<T>& covered) {
  std::vector<T> out;
  if (covered.empty()) return out;
  for (const T& one : used)
    if (std::find(covered.begin(), covered.end(), one) == covered.end() &&
        std::find(out.begin(), out.end(), one) == out.end())
      out.push_back(one);
  return out;
}

template <class T>
std::string range_text(const CoveredRange<T>& range) {
  return range.least == range.most ? fmt::format("{}", range.least) : fmt::format("{} to {}", range.least, range.most);
}

}  // namespace

std::vector<std::string> outside(const ValidRange& valid_range, const std::string& machine, const MachineUse& use) {
  std::vector<std::string> out;
  const auto say = [&](const std::string& what) {
    out.push_back(fmt::format("{}{} was calibrated on: {}", kOutsideRange, machine, what));
  };
  if (valid_range.bytes && use.largest_collective > valid_range.bytes->most)
    say(fmt::format("a collective of {}; it covers up to {}", format_bytes(use.largest_collective),
                    format_bytes(valid_range.bytes->most)));
  std::vector<std::uint32_t> ranks;
  for (const std::uint32_t n : use.ranks)
    if (valid_range.ranks && n > 1 && (n < valid_range.ranks->least || n > valid_range.ranks->most) &&
        std::find(ranks.begin(), ranks.end(), n) == ranks.end())
      ranks.push_back(n);
  if (!ranks.empty())
    say(fmt::format("collectives of {} ranks; it covers {}", fmt::join(ranks, " and "),
                    range_text(*valid_range.ranks)));
  if (valid_range.nodes && (use.nodes < valid_range.nodes->least || use.nodes > valid_range.nodes->most))
    say(fmt::format("{} nodes; it covers {}", use.nodes, range_text(*valid_range.nodes)));
  for (const DType dtype : not_in(use.dtypes, valid_range.dtypes)) say(fmt::format("GEMMs in {}", name(dtype)));
  for (const Transport transport : not_in(use.transports, valid_range.transports))
    say(fmt::format("{} collectives", name(transport)));
  for (const KernelClass kernel : not_in(use.kernels, valid_range.kernels))
    say(fmt::format("{} kernels", dashed_name(kernel)));
  return out;
}

}  // namespace foreshard::sim
