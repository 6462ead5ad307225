#include "core/models/hf_block_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/check.hpp"

namespace foreshard::model {

void HfBlockParameters::add(std::string name, std::vector<std::int64_t> shape, bool experts) {
  parameters_.push_back({std::move(name), std::move(shape), DType::float32, true, experts});
}

void HfBlockParameters::add_linear(const std::string& name, std::uint64_t out, std::uint64_t in, bool bias) {
  add(name + ".weight", {static_cast<std::int64_t>(out), static_cast<std::int64_t>(in)});
  if (bias) add(name + ".bias", {static_cast<std::int64_t>(out)});
}

bool HfBlockParameters::has(std::string_view name) const {
  return std::any_of(parameters_.begin(), parameters_.end(), [&](const Parameter& p) { return p.name == name; });
}

std::size_t HfBlockParameters::index(std::string_view name) const {
  const auto found =
      std::find_if(parameters_.begin(), parameters_.end(), [&](const Parameter& p) { return p.name == name; });
  FORESHARD_CHECK(found != parameters_.end(), "a block's parameter by a name that it has");
  return static_cast<std::size_t>(found - parameters_.begin());
}

Unit HfBlockParameters::unit(std::string_view prefix, std::uint32_t number, DType dtype) const {
  Unit out{fmt::format("{}.{}", prefix, number), parameters_};
  for (Parameter& p : out.parameters) {
    p.name = fmt::format("{}.{}", out.name, p.name);
    p.dtype = dtype;
  }
  return out;
}

std::vector<ParameterId> hf_parameters_order(std::size_t root, std::size_t before, std::size_t blocks) {
  std::vector<ParameterId> order;
  const auto append = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) order.push_back(ParameterId{static_cast<std::uint32_t>(i)});
  };
  append(0, before);
  append(root, root + blocks);
  append(before, root);
  return order;
}

}  // namespace foreshard::model
