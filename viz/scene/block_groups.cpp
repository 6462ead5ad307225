#include "viz/scene/block_groups.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "core/run/block_names.hpp"
#include "viz/scene/memory_state.hpp"

namespace foreshard::viz {
namespace {

std::string_view unnamed(GroupBy by) {
  switch (by) {
    case GroupBy::module:
      return "no module";
    case GroupBy::op:
      return "no operator";
    case GroupBy::frame:
      return "no frame of the program's";
  }
  return {};
}

std::string group_name(const BlockNames& names, const BlockRecord& block, GroupBy by) {
  switch (by) {
    case GroupBy::module:
      return names.module_pattern(block);
    case GroupBy::op:
      return with_numbers_starred(names.op(block));
    case GroupBy::frame:
      return names.frame(block.stack);
  }
  return {};
}

/// By block, the place of its name among all names, in order of first use; 0: no name.
class Named {
 public:
  Named(const Run& run, GroupBy by) : names_{std::string()} {
    const BlockNames of(run);
    std::map<std::string, std::uint32_t, std::less<>> places{{std::string(), 0}};
    // Many blocks share what their names are made of.
    std::map<BlockNames::Key, std::uint32_t> known;
    for (const BlockRecord& block : run.blocks) {
      const BlockNames::Key key = BlockNames::key(block);
      auto found = known.find(key);
      if (found == known.end()) {
        std::string name = group_name(of, block, by);
        const auto [place, is_new] = places.emplace(name, static_cast<std::uint32_t>(names_.size()));
        if (is_new) names_.push_back(std::move(name));
        found = known.emplace(key, place->second).first;
      }
      of_block_.push_back(found->second);
    }
  }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] const std::vector<std::uint32_t>& of_block() const { return of_block_; }

 private:
  std::vector<std::string> names_;
  std::vector<std::uint32_t> of_block_;
};

/// The most bytes that each name's blocks hold at once.
std::vector<std::int64_t> most_held(const Run& run, const Named& named) {
  std::vector<std::int64_t> now(named.names().size()), most(now.size());
  for (const AllocatorRecord& record : run.allocator) {
    if (record.block.value >= run.blocks.size()) continue;
    const std::uint32_t name = named.of_block()[record.block.value];
    if (record.action == AllocatorAction::alloc) now[name] += block_bytes(run, record).size;
    if (record.action == AllocatorAction::free_requested) now[name] -= block_bytes(run, record).size;
    most[name] = std::max(most[name], now[name]);
  }
  return most;
}

}  // namespace

Result<void> check_groups(const Run& run, GroupBy by) {
  const Named named(run, by);
  if (named.names().size() > 1) return {};
  return fail(ErrorKind::usage, fmt::format("no block of the run has a {} to stack by", name(by)), run.info.name,
              by == GroupBy::frame
                  ? "record with torch.cuda.memory._record_memory_history(stacks=\"all\"), and import that"
                  : "stack by category, the default");
}

BlockGroups group_blocks(const Run& run, GroupBy by, std::size_t most) {
  const Named named(run, by);
  const std::vector<std::int64_t> held = most_held(run, named);
  std::vector<std::uint32_t> order;
  for (std::uint32_t i = 1; i < held.size(); ++i)
    if (held[i] > 0) order.push_back(i);
  std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return held[a] > held[b]; });
  BlockGroups groups{{std::string(unnamed(by))}, {}};
  std::vector<std::uint32_t> group_of(held.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const bool own = i < most;
    if (own || i == most)
      groups.titles.push_back(own ? named.names()[order[i]] : std::to_string(order.size() - most) + " others");
    group_of[order[i]] = static_cast<std::uint32_t>(groups.titles.size() - 1);
  }
  for (const std::uint32_t name : named.of_block()) groups.of_block.push_back(group_of[name]);
  return groups;
}

}  // namespace foreshard::viz
