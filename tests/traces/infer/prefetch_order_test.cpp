// Explicit prefetching from the order of FSDP's prefetch ranges.
#include "traces/infer/prefetch_order.hpp"

#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

/// Ranges one behind the other; "(" opens one that holds the next names up to ")".
std::vector<Range> ranges_of(const std::vector<std::string_view>& names) {
  std::vector<Range> ranges;
  std::size_t open = 0;
  std::int64_t time = 0;
  for (const std::string_view name : names) {
    time += 10;
    if (name == ")") {
      ranges[open].end = {time};
      continue;
    }
    const bool opens = name.starts_with("(");
    ranges.push_back({name.substr(opens ? 1 : 0), {time}, {time + 5}});
    if (opens) open = ranges.size() - 1;
  }
  return ranges;
}

const std::vector<std::string> kUnits{"", "a", "b", "c"};

TEST_CASE("the default rule prefetches inside pre-backward and settles nothing") {
  const auto order =
      prefetch_order(ranges_of({"FSDP::pre_forward (a)", "FSDP::pre_forward (b)", "(FSDP::pre_backward (b)",
                                "FSDP::backward_prefetch for a", ")", "FSDP::pre_backward (a)"}),
                     kUnits);
  CHECK_FALSE(order.forward);
  CHECK_FALSE(order.backward);
  CHECK(order.lists == PrefetchLists{});
}

TEST_CASE("targets after the hooks give a depth") {
  const auto order =
      prefetch_order(ranges_of({"FSDP::pre_forward", "FSDP::pre_forward (a)", "FSDP::forward_prefetch for b",
                                "FSDP::forward_prefetch for c", "FSDP::pre_forward (b)", "FSDP::forward_prefetch for c",
                                "FSDP::pre_forward (c)", "FSDP::pre_backward (c)", "FSDP::backward_prefetch for b",
                                "FSDP::pre_backward (b)", "FSDP::backward_prefetch for a", "FSDP::pre_backward (a)"}),
                     kUnits);
  CHECK(order.forward == 2);
  CHECK(order.backward == 1);
  CHECK(order.lists == PrefetchLists{});
}

TEST_CASE("a frozen unit in front has no backward and says nothing of its list") {
  const auto order =
      prefetch_order(ranges_of({"FSDP::pre_forward (a)", "FSDP::pre_forward (b)", "FSDP::pre_forward (c)",
                                "FSDP::pre_backward (c)", "FSDP::backward_prefetch for b"}),
                     kUnits);
  CHECK(order.backward == 1);
  CHECK(order.lists == PrefetchLists{});
}

TEST_CASE("targets of no depth are lists") {
  const auto order =
      prefetch_order(ranges_of({"FSDP::pre_forward (a)", "FSDP::forward_prefetch for c", "FSDP::pre_forward (c)",
                                "FSDP::pre_backward (c)", "FSDP::backward_prefetch for a", "FSDP::pre_backward (a)"}),
                     kUnits);
  CHECK_FALSE(order.forward);
  CHECK(order.lists.forward == std::map<std::string, std::vector<std::string>>{{"a", {"c"}}});
  CHECK(order.lists.backward == std::map<std::string, std::vector<std::string>>{{"c", {"a"}}});
}

TEST_CASE("targets of a root without parameters are its own, in every step") {
  std::vector<std::string_view> names;
  for (int step = 0; step < 3; ++step)
    for (const std::string_view name :
         {"FSDP::root_pre_forward", "FSDP::forward_prefetch for b", "FSDP::pre_forward (a)", "FSDP::pre_forward (b)",
          "FSDP::backward_prefetch for b", "FSDP::pre_backward (b)", "FSDP::pre_backward (a)"})
      names.push_back(name);
  const auto order = prefetch_order(ranges_of(names), kUnits);
  CHECK_FALSE(order.forward);
  CHECK(order.lists.forward == std::map<std::string, std::vector<std::string>>{{"", {"b"}}});
  CHECK(order.lists.backward == std::map<std::string, std::vector<std::string>>{{"", {"b"}}});
}

TEST_CASE("one step that was timed too coarsely does not decide") {
  std::vector<std::string_view> names;
  for (int step = 0; step < 3; ++step)
    for (const std::string_view name : {"(FSDP::pre_backward (b)", "FSDP::backward_prefetch for a", ")"})
      names.push_back(name);
  auto ranges = ranges_of(names);
  ranges[1].start = ranges[0].end;  // within one microsecond
  CHECK_FALSE(prefetch_order(ranges, kUnits).backward);
  CHECK(prefetch_order(ranges, kUnits).lists == PrefetchLists{});
}

}  // namespace
}  // namespace foreshard::traces
