#include "core/compare/model_difference.hpp"

#include <fmt/format.h>

#include <set>

namespace foreshard {
namespace {

struct ModelSize {
  std::set<std::string> modules;  // of the units; those wrapped together by comma
  std::uint64_t elements = 0;
};

ModelSize size_of(const Run& run) {
  ModelSize size;
  for (const Unit& unit : run.units) {
    for (std::size_t at = 0; at < unit.name.size();) {
      const std::size_t comma = unit.name.find(", ", at);
      const std::size_t end = comma == std::string::npos ? unit.name.size() : comma;
      size.modules.insert(unit.name.substr(at, end - at));
      at = comma == std::string::npos ? end : comma + 2;
    }
    for (const Parameter& parameter : unit.parameters) size.elements += parameter.numel();
  }
  return size;
}

}  // namespace

std::string model_difference(const Run& a, const Run& b) {
  const ModelSize of_a = size_of(a);
  const ModelSize of_b = size_of(b);
  // Over several ranks experts are units of their own, and a rank has a part of them.
  if (a.settings.expert_parallel != b.settings.expert_parallel) return {};
  const bool local = a.settings.tensor_parallel != b.settings.tensor_parallel;
  const bool known = !local && of_a.elements > 0 && of_b.elements > 0;
  if (known && of_a.elements != of_b.elements)
    return fmt::format("A has {} elements of parameters, B {}", of_a.elements, of_b.elements);
  if (!known && of_a.modules.size() != of_b.modules.size() && !of_a.modules.empty() && !of_b.modules.empty())
    return fmt::format("A has {} wrapped modules, B {}", of_a.modules.size(), of_b.modules.size());
  return {};
}

}  // namespace foreshard
