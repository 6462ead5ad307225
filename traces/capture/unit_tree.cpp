#include "traces/capture/unit_tree.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace foreshard::traces {
namespace {

/// The modules of a unit: of a list all, which FSDP joins by ", " (FSDPState._init_fqns).
std::vector<std::string_view> modules_of(const Unit& unit) {
  constexpr std::string_view kBetween = ", ";
  std::vector<std::string_view> out;
  std::string_view left = unit.name;
  for (auto at = left.find(kBetween); at != std::string_view::npos; at = left.find(kBetween)) {
    out.push_back(left.substr(0, at));
    left.remove_prefix(at + kBetween.size());
  }
  out.push_back(left);
  return out;
}

bool lies_in(std::string_view name, std::string_view module) {
  return name.size() > module.size() && name.starts_with(module) && name[module.size()] == '.';
}

struct Named {
  std::string_view name;
  ParameterId id;
};

/// As Module.parameters goes: those of the module itself, then child by child, in the order of first appearance.
/// `depth`: characters of the names up to the module.
void sort_as_parameters(std::span<Named> list, std::size_t depth) {
  const auto child_of = [&](const Named& n) {
    const std::size_t dot = n.name.find('.', std::min(depth, n.name.size()));
    return dot == std::string_view::npos ? std::string_view() : n.name.substr(0, dot + 1);
  };
  auto begin = std::stable_partition(list.begin(), list.end(), [&](const Named& n) { return child_of(n).empty(); });
  while (begin != list.end()) {
    const std::string_view child = child_of(*begin);
    const auto end =
        std::stable_partition(begin, list.end(), [&](const Named& n) { return n.name.starts_with(child); });
    sort_as_parameters(std::span(begin, end), child.size());
    begin = end;
  }
}

class TreeBuilder {
 public:
  TreeBuilder(const std::vector<Unit>& units, std::span<const Bytes> shard_bytes, ModuleWalk walk)
      : units_(units), shard_bytes_(shard_bytes), walk_(walk) {
    for (std::uint32_t u = 1; u < units.size(); ++u)
      for (const std::string_view module : modules_of(units[u])) unit_of_.emplace(module, u);
  }

  std::vector<UnitNode> build(std::span<const UnitId> zero_grad_order) {
    nodes_.resize(std::max<std::size_t>(1, units_.size()));
    std::uint32_t next = 0;
    for (std::size_t u = 0; u < units_.size(); ++u) fill(u, next);
    std::vector<std::size_t> parents(units_.size(), 0);
    for (std::size_t u = 1; u < units_.size(); ++u) parents[u] = parent_of(u);
    for (std::size_t u = 1; u < units_.size(); ++u) nodes_[parents[u]].inside.push_back(u);
    for (std::size_t u = 0; u < units_.size(); ++u) order(nodes_[u], zero_grad_order);
    for (std::size_t u = 0; u < units_.size(); ++u) take_lists(nodes_[u]);
    return std::move(nodes_);
  }

 private:
  /// Experts of a unit are a module of their own in it.
  void fill(std::size_t unit, std::uint32_t& next) {
    std::vector<Named> own;
    std::vector<Named> experts;
    for (const Parameter& parameter : units_[unit].parameters) {
      const ParameterId id{next++};
      if (shard_bytes_[id.value] == 0) continue;
      const bool apart = parameter.expert_parallel && !units_[unit].of_experts();
      (apart ? experts : own).push_back({parameter.name, id});
    }
    nodes_[unit].own = in_order(units_[unit], std::move(own));
    if (experts.empty()) return;
    nodes_[unit].inside.push_back(nodes_.size());
    nodes_.push_back({in_order(units_[unit], std::move(experts)), {}, {}});
  }

  [[nodiscard]] ParameterList in_order(const Unit& unit, std::vector<Named> list) const {
    if (walk_ == ModuleWalk::parameters) {
      const std::vector<std::string_view> modules = modules_of(unit);
      const auto place = [&](const Named& n) {
        return std::find_if(modules.begin(), modules.end(), [&](auto module) { return lies_in(n.name, module); });
      };
      if (modules.size() > 1)
        std::stable_sort(list.begin(), list.end(), [&](const Named& a, const Named& b) { return place(a) < place(b); });
      sort_as_parameters(list, 0);
    }
    ParameterList out;
    for (const Named& n : list) out.push_back(n.id);
    return out;
  }

  /// The innermost other unit that all its modules lie in; 0, the root: none does.
  [[nodiscard]] std::size_t parent_of(std::size_t unit) const {
    const std::vector<std::string_view> modules = modules_of(units_[unit]);
    for (std::string_view name = modules.front(); name.find('.') != std::string_view::npos;) {
      name = name.substr(0, name.rfind('.'));
      const auto found = unit_of_.find(name);
      if (found == unit_of_.end() || found->second == unit) continue;
      const bool all = std::all_of(modules.begin(), modules.end(), [&](auto module) { return lies_in(module, name); });
      if (all) return found->second;
    }
    return 0;
  }

  /// A unit inside is done when its gradients are all dropped, before its next neighbour's.
  static void order(UnitNode& node, std::span<const UnitId> zero_grad_order) {
    const auto place = [&](std::size_t inside) {
      return std::find(zero_grad_order.begin(), zero_grad_order.end(), UnitId{static_cast<std::uint32_t>(inside)});
    };
    const bool known = std::all_of(node.inside.begin(), node.inside.end(),
                                   [&](std::size_t inside) { return place(inside) != zero_grad_order.end(); });
    if (known)
      std::stable_sort(node.inside.begin(), node.inside.end(),
                       [&](std::size_t a, std::size_t b) { return place(a) < place(b); });
  }

  void take_lists(UnitNode& node) {
    std::erase_if(node.inside, [&](std::size_t inside) {
      if (inside >= units_.size() || modules_of(units_[inside]).size() < 2 || !nodes_[inside].inside.empty())
        return false;
      node.lists.push_back(nodes_[inside].own);
      return true;
    });
  }

  const std::vector<Unit>& units_;
  std::span<const Bytes> shard_bytes_;
  ModuleWalk walk_;
  std::map<std::string_view, std::size_t> unit_of_;  // by module
  std::vector<UnitNode> nodes_;                      // of units, then of experts inside one
};

}  // namespace

std::vector<UnitNode> unit_tree(const std::vector<Unit>& units, std::span<const Bytes> shard_bytes, ModuleWalk walk,
                                std::span<const UnitId> zero_grad_order) {
  return TreeBuilder(units, shard_bytes, walk).build(zero_grad_order);
}

}  // namespace foreshard::traces
