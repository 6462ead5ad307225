#include "traces/infer/element_sizes.hpp"

#include <algorithm>

namespace foreshard::traces {
namespace {

/// Twice the ratio of two element sizes: 1, 2, 4 or 8; 0: not shown.
using TwiceRatio = Bytes;

TwiceRatio ratio(Bytes numerator, Bytes denominator) {
  for (const TwiceRatio twice : {TwiceRatio{2}, TwiceRatio{4}, TwiceRatio{1}, TwiceRatio{8}})
    if (denominator > 0 && 2 * numerator == twice * denominator) return twice;
  return 0;
}

std::uint32_t quotient(Bytes whole, Bytes part) {
  if (part == 0 || whole % part != 0 || whole / part > kMaxRanks) return 0;
  return static_cast<std::uint32_t>(whole / part);
}

std::uint32_t shard_ranks(std::span<const RecordedUnit> units, const ProfilerTrace* trace) {
  for (const RecordedUnit& unit : units)
    if (const auto ranks = quotient(unit.reduction.input, unit.reduction.output)) return ranks;
  for (const RecordedUnit& unit : units)
    if (const auto ranks = quotient(unit.gather.block, unit.gather.flat_cast)) return ranks;
  if (trace == nullptr) return 0;
  for (const TraceCollective& c : trace->collectives)
    for (const RecordedUnit& unit : units)
      if (c.kind == CollectiveKind::all_gather && c.bytes > 0 && c.bytes == unit.gather.block &&
          c.communicator.valid() && c.communicator.value < trace->communicators.size())
        return static_cast<std::uint32_t>(
            std::min<std::uint64_t>(trace->communicators[c.communicator.value].size, kMaxRanks));
  return 0;
}

/// The dtype of the collectives of that kind that move a unit's buffer; bytes say nothing: parameters of several dtypes
/// are gathered as uint8 (foreach_all_gather).
std::optional<DType> traced(std::span<const RecordedUnit> units, const ProfilerTrace* trace, CollectiveKind kind) {
  if (trace == nullptr) return std::nullopt;
  for (const TraceCollective& c : trace->collectives) {
    if (c.kind != kind || !c.dtype || c.bytes == 0 || c.dtype == DType::uint8) continue;
    for (const RecordedUnit& unit : units)
      if (c.bytes == (kind == CollectiveKind::all_gather ? unit.gather.block : unit.reduction.input)) return c.dtype;
  }
  return std::nullopt;
}

DType of_size(Bytes size) {
  if (size == 2) return DType::bfloat16;
  return size == 8 ? DType::float64 : DType::float32;
}

/// Ratio of the reduce dtype to the compute dtype: of units that reduce all their parameters, else the first under
/// which a reduction's gradients, in the compute dtype, fill its input.
TwiceRatio reduce_ratio(std::span<const RecordedUnit> units, bool& assumed) {
  for (const RecordedUnit& unit : units)
    if (unit.reduction.count == unit.gather.unsharded.size() && unit.gather.block > 0)
      if (const TwiceRatio twice = ratio(unit.reduction.input, unit.gather.block)) return twice;
  assumed = true;
  for (const RecordedUnit& unit : units) {
    if (unit.reduction.input == 0 || unit.reduction.gradients.size() != unit.reduction.count) continue;
    Bytes sum = 0;
    for (const Bytes gradient : unit.reduction.gradients) sum += gradient;
    if (const TwiceRatio twice = ratio(unit.reduction.input, sum)) {
      assumed = false;
      return twice;
    }
  }
  return 2;
}

TwiceRatio original_ratio(std::span<const RecordedUnit> units) {
  for (const RecordedUnit& unit : units)
    if (unit.reduction.output > 0 && unit.reduction.cast_output > 0)
      return ratio(unit.reduction.cast_output, unit.reduction.output);
  return 2;
}

}  // namespace

ElementTypes element_types(std::span<const RecordedUnit> units, const ProfilerTrace* trace) {
  ElementTypes types;
  types.ranks = shard_ranks(units, trace);
  types.casts = std::any_of(units.begin(), units.end(), [](const RecordedUnit& u) { return u.gather.flat_cast > 0; });
  const bool reduces =
      std::any_of(units.begin(), units.end(), [](const RecordedUnit& u) { return u.reduction.input > 0; });
  const auto gathered = traced(units, trace, CollectiveKind::all_gather);
  const auto reduced = traced(units, trace, CollectiveKind::reduce_scatter);
  const TwiceRatio reduce = reduces ? reduce_ratio(units, types.reduce_assumed) : 2;
  // Nothing reduces: what is cast was wider.
  const TwiceRatio original =
      reduces ? std::max<TwiceRatio>(1, reduce * original_ratio(units) / 2) : (types.casts ? 4 : 2);
  types.from_trace = gathered.has_value();
  Bytes size = 4;
  if (gathered) {
    size = itemsize(*gathered);
  } else if (std::max(reduce, original) > 2) {
    size = 2;
    types.word_assumed = true;
  } else {
    types.size_assumed = std::min(reduce, original) == 2;
  }
  types.compute = gathered.value_or(of_size(size));
  types.reduce = reduced.value_or(reduce == 2 ? types.compute : of_size(size * reduce / 2));
  types.original = types.compute;
  if (original == reduce && original != 2)
    types.original = types.reduce;
  else if (original != 2)
    types.original = of_size(size * original / 2);
  return types;
}

}  // namespace foreshard::traces
