#include "traces/infer/parameters.hpp"

#include <fmt/format.h>

#include <numeric>
#include <optional>
#include <set>
#include <tuple>

namespace foreshard::traces {
namespace {

// Bounds what a hostile recording can cost.
constexpr std::uint64_t kMaxDivisors = 10'000;
constexpr std::size_t kMaxStates = 1'000'000;
constexpr std::size_t kMaxParameters = 10'000;  // of a unit
constexpr Bytes kMaxElements = Bytes{1} << 48;  // of a parameter, as in about files

/// One unit's parameters against the gradients that it reduced.
class GradientMatch {
 public:
  GradientMatch(const RecordedUnit& unit, const ElementTypes& types, Bytes gradient_size)
      : reduction_(unit.reduction), ranks_(types.ranks), size_(gradient_size), reduce_size_(itemsize(types.reduce)) {
    for (const Bytes bytes : unit.gather.unsharded) padded_.push_back(bytes / itemsize(types.compute));
  }

  /// Element counts by parameter, 0 for frozen ones; empty: no selection of parameters has these gradients.
  [[nodiscard]] std::vector<std::uint64_t> find() {
    found_.assign(padded_.size(), 0);
    if (!descend(padded_.size(), reduction_.count, reduction_.input)) return {};
    return found_;
  }
  /// Whether find() could have taken another parameter of the same size for one that it found: gradients come in the
  /// parameters' order, so only with none of another size between the two.
  [[nodiscard]] bool ambiguous() const {
    for (const bool backwards : {false, true}) {
      std::uint64_t last_found = 0;  // size of the last one that was found
      for (std::size_t n = 0; n < padded_.size(); ++n) {
        const std::size_t i = backwards ? padded_.size() - 1 - n : n;
        if (found_[i] > 0)
          last_found = padded_[i];
        else if (padded_[i] == last_found)
          return true;
      }
    }
    return false;
  }

 private:
  /// Elements of the parameter whose gradient is the n-th that was reduced; none: it cannot be.
  [[nodiscard]] std::optional<std::uint64_t> elements(std::size_t parameter, std::size_t gradient) const {
    if (gradient >= reduction_.gradients.size()) return padded_[parameter];  // the last one was not seen
    const Bytes bytes = reduction_.gradients[gradient];
    if (bytes % size_ != 0 || bytes == 0) return std::nullopt;
    const std::uint64_t numel = bytes / size_;
    if (numel == padded_[parameter] || elements_per_row(numel, padded_[parameter] / ranks_, ranks_) > 0) return numel;
    return std::nullopt;
  }
  /// Of the parameters before `end`, backwards, as frozen ones are mostly a model's first.
  bool descend(std::size_t end, std::size_t gradients, Bytes left) {
    if (gradients == 0) return left == 0;
    if (end < gradients || failed_.size() > kMaxStates || !failed_.emplace(end, gradients, left).second) return false;
    const Bytes chunk = padded_[end - 1] * reduce_size_;
    if (const auto numel = chunk <= left ? elements(end - 1, gradients - 1) : std::nullopt) {
      found_[end - 1] = *numel;
      if (descend(end - 1, gradients - 1, left - chunk)) return true;
      found_[end - 1] = 0;
    }
    return descend(end - 1, gradients, left);
  }

  const RecordedReduction& reduction_;
  std::uint32_t ranks_;
  Bytes size_;
  Bytes reduce_size_;
  std::vector<std::uint64_t> padded_;
  std::vector<std::uint64_t> found_;
  std::set<std::tuple<std::size_t, std::size_t, Bytes>> failed_;
};

std::string shown(const std::string& unit) {
  return unit.empty() ? "the root" : fmt::format("unit '{}'", unit);
}

/// Why the unit's sizes are none of one shard group, or an empty text.
std::string why_no_parameters(const RecordedUnit& unit, const ElementTypes& types) {
  if (unit.gather.block == 0)
    return unit.name.empty()
               ? std::string()
               : fmt::format("no all-gather of {} with its copy-out is in the recording", shown(unit.name));
  if (unit.gather.unsharded.size() > kMaxParameters)
    return fmt::format("{} has more than {} parameters", shown(unit.name), kMaxParameters);
  for (const Bytes bytes : unit.gather.unsharded)
    if (bytes == 0 || bytes / itemsize(types.compute) > kMaxElements ||
        bytes % (types.ranks * itemsize(types.compute)) != 0)
      return fmt::format("a parameter of {} has {} bytes, which {} ranks of {} elements do not divide",
                         shown(unit.name), bytes, types.ranks, name(types.compute));
  return {};
}

/// Gradients of the compute dtype, or accumulated ones of the reduce dtype: what the recording says first.
std::vector<std::uint64_t> trained_elements(const RecordedUnit& unit, const ElementTypes& types, bool& alike) {
  const DType first = unit.reduction.accumulated ? types.reduce : types.compute;
  for (const DType dtype : {first, first == types.compute ? types.reduce : types.compute}) {
    GradientMatch match(unit, types, itemsize(dtype));
    auto found = match.find();
    if (found.empty()) continue;
    alike = match.ambiguous();
    return found;
  }
  return {};
}

Parameter parameter_of(std::uint64_t numel, std::uint64_t padded, std::uint32_t ranks, InferredParameters& out) {
  Parameter parameter;
  if (numel == padded) {
    ++out.flat;
    parameter.shape = {static_cast<std::int64_t>(numel)};
    return parameter;
  }
  ++out.uneven;
  const std::uint64_t row = elements_per_row(numel, padded / ranks, ranks);
  parameter.shape = {static_cast<std::int64_t>(numel / row)};
  if (row > 1) parameter.shape.push_back(static_cast<std::int64_t>(row));
  return parameter;
}

void add_unit(const RecordedUnit& recorded, const ElementTypes& types, bool any_reduces, InferredParameters& out) {
  Unit& unit = out.units.emplace_back();
  unit.name = recorded.name;
  if (recorded.gather.block == 0) return;
  std::vector<std::uint64_t> trained;
  bool alike = false;
  if (recorded.reduction.input > 0) trained = trained_elements(recorded, types, alike);
  out.alike += alike ? 1 : 0;
  if (recorded.reduces && trained.empty() && out.why_not.empty())
    out.why_not =
        fmt::format("the gradients that {} reduces are those of no selection of its parameters", shown(recorded.name));
  const DType original = recorded.gather.flat_cast > 0 ? types.original : types.compute;
  for (std::size_t i = 0; i < recorded.gather.unsharded.size(); ++i) {
    const std::uint64_t padded = recorded.gather.unsharded[i] / itemsize(types.compute);
    const bool is_trained = !any_reduces || (!trained.empty() && trained[i] > 0);
    Parameter parameter =
        parameter_of(is_trained && any_reduces && !trained.empty() ? trained[i] : padded, padded, types.ranks, out);
    parameter.name = recorded.name.empty() ? fmt::format("p{}", i) : fmt::format("{}.p{}", recorded.name, i);
    parameter.dtype = original;
    parameter.requires_grad = is_trained;
    out.frozen += is_trained ? 0 : 1;
    unit.parameters.push_back(std::move(parameter));
  }
}

}  // namespace

std::uint64_t elements_per_row(std::uint64_t numel, std::uint64_t shard, std::uint32_t ranks) {
  if (numel == 0 || shard == 0 || ranks == 0) return 0;
  const std::uint64_t common = std::gcd(numel, shard);
  // Divisors from the largest on: the fewest rows that show the padding.
  for (std::uint64_t rows = 1; rows <= kMaxDivisors && rows <= common; ++rows) {
    if (common % rows != 0) continue;
    const std::uint64_t row = common / rows;
    if ((numel / row + ranks - 1) / ranks == shard / row) return row;
  }
  return 0;
}

InferredParameters infer_parameters(std::span<const RecordedUnit> recorded, const ElementTypes& types) {
  InferredParameters out;
  if (types.ranks == 0) {
    out.why_not = "no reduce-scatter and no cast of shards shows over how many ranks parameters are sharded";
    return out;
  }
  bool any_reduces = false;
  for (const RecordedUnit& unit : recorded) {
    any_reduces |= unit.reduction.input > 0;
    if (out.why_not.empty()) out.why_not = why_no_parameters(unit, types);
  }
  if (!out.why_not.empty()) return out;
  for (const RecordedUnit& unit : recorded) add_unit(unit, types, any_reduces, out);
  std::size_t parameters = 0;
  for (const Unit& unit : out.units) parameters += unit.parameters.size();
  if (parameters == 0 && out.why_not.empty()) out.why_not = "no unit has a parameter";
  return out;
}

}  // namespace foreshard::traces
