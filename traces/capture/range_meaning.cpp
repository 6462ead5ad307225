#include "traces/capture/range_meaning.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

namespace foreshard::traces {
namespace {

constexpr std::string_view kFsdp = "FSDP::";

// The names of PyTorch 2.11's ranges, without "FSDP::" and the unit; post_backward_rs_wait is 2.13's.
constexpr std::array<std::pair<std::string_view, RangeKind>, 16> kNames = {{
    {"root_pre_forward", RangeKind::root_pre_forward},
    {"pre_forward", RangeKind::pre_forward},
    {"post_forward", RangeKind::post_forward},
    {"pre_backward", RangeKind::pre_backward},
    {"post_backward_accumulate", RangeKind::accumulate},
    {"post_backward_reshard", RangeKind::reshard},
    {"post_backward_reduce", RangeKind::reduce},
    {"all_gather", RangeKind::all_gather},
    {"all_gather_copy_out", RangeKind::copy_out},
    {"root_post_backward_callback", RangeKind::root_post_backward},
    {"inputs_to_device", RangeKind::known},
    {"cast_forward_inputs", RangeKind::known},
    {"cast_forward_outputs", RangeKind::cast_outputs},
    {"forward_prefetch", RangeKind::known},
    {"backward_prefetch", RangeKind::known},
    {"post_backward_rs_wait", RangeKind::known},
}};

}  // namespace

std::pair<std::string_view, std::uint32_t> without_group(std::string_view name) {
  constexpr std::string_view kGroup = " [pg=";
  const std::size_t at = name.rfind(kGroup);
  if (at == std::string_view::npos || !name.ends_with(']')) return {name, 0};
  std::uint32_t group = 0;
  const char* end = name.data() + name.size() - 1;
  const auto [read, error] = std::from_chars(name.data() + at + kGroup.size(), end, group);
  if (error != std::errc() || read != end) return {name, 0};
  return {name.substr(0, at), group};
}

RangeMeaning meaning_of(std::string_view name) {
  if (name.starts_with("Optimizer.zero_grad#")) return {RangeKind::zero_grad};
  if (name.starts_with("Optimizer.step#")) return {RangeKind::optimizer_step};
  if (name.starts_with("nccl:")) return {RangeKind::known};
  if (!name.starts_with(kFsdp)) return {RangeKind::user};
  const std::string_view rest = name.substr(kFsdp.size());
  const std::string_view word = rest.substr(0, rest.find(' '));
  for (const auto& [text, kind] : kNames) {
    if (word != text) continue;
    if (!has_unit(kind)) return {kind};
    const std::uint32_t outside = without_group(rest).second;
    const auto open = rest.find(" (");
    const auto close = rest.rfind(')');
    if (open == std::string_view::npos || close == std::string_view::npos || close < open + 2)
      return {kind, {}, outside};
    const auto [unit, inside] = without_group(rest.substr(open + 2, close - open - 2));
    return {kind, unit, std::max(outside, inside)};
  }
  return {RangeKind::unknown};
}

bool has_unit(RangeKind kind) {
  switch (kind) {
    case RangeKind::pre_forward:
    case RangeKind::post_forward:
    case RangeKind::pre_backward:
    case RangeKind::accumulate:
    case RangeKind::reshard:
    case RangeKind::reduce:
    case RangeKind::all_gather:
    case RangeKind::copy_out:
      return true;
    default:
      return false;
  }
}

UnitNames::UnitNames(std::span<const Unit> units) {
  for (std::uint32_t i = 0; i < units.size(); ++i) ids_.emplace(units[i].name, UnitId{i});
}

std::optional<UnitId> UnitNames::find(std::string_view name) const {
  const auto it = ids_.find(name);
  if (it == ids_.end()) return std::nullopt;
  return it->second;
}

}  // namespace foreshard::traces
