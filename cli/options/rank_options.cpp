#include "cli/options/rank_options.hpp"

#include <fmt/format.h>

#include <charconv>
#include <map>
#include <string_view>
#include <utility>

namespace foreshard::cli {
namespace {

/// "RANK=VALUE".
struct OfRank {
  std::uint32_t rank = 0;
  std::string value;
};

Result<OfRank> parse(std::string_view option, const std::string& text) {
  OfRank out;
  const std::size_t equals = text.find('=');
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.rank);
  if (equals == std::string::npos || error != std::errc() || end != text.data() + equals || equals + 1 == text.size())
    return fail(ErrorKind::usage, fmt::format("{} '{}' is not RANK=VALUE", option, text), {},
                fmt::format("as in {} {}", option, option == "--rank-source" ? "5=rank5.db" : "5=1.25"));
  out.value = text.substr(equals + 1);
  return out;
}

/// A factor on times, from a hundredth to a hundred: beyond that it is a typing error, or a rank that is lost.
Result<double> parse_factor(std::string_view option, const std::string& text) {
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || end != text.data() + text.size() || !(factor >= 0.01 && factor <= 100))
    return fail(ErrorKind::usage, fmt::format("{}: '{}' is no factor from 0.01 to 100", option, text), {},
                "1.25: everything takes a quarter longer");
  return factor;
}

Result<void> once(std::string_view option, const OfRank& given, bool is_there) {
  if (!is_there) return {};
  return fail(ErrorKind::usage, fmt::format("{} says two things of rank {}", option, given.rank));
}

/// A factor that makes it slower: what a healthy link carries is the machine's.
Result<double> parse_slowdown(std::string_view option, const std::string& text) {
  const auto factor = parse_factor(option, text);
  if (factor && *factor >= 1) return factor;
  return fail(ErrorKind::usage, fmt::format("{}: '{}' is no factor from 1 to 100", option, text), {},
              "2: it moves bytes half as fast; faster links are another machine (--machine)");
}

/// "NODE.ADAPTER=FACTOR".
Result<sim::SlowAdapter> parse_adapter(const std::string& text) {
  constexpr std::string_view option = "--slow-adapter";
  sim::SlowAdapter out;
  const char* const end = text.data() + text.size();
  const auto node = std::from_chars(text.data(), end, out.node);
  const bool dot = node.ec == std::errc() && node.ptr != end && *node.ptr == '.';
  const auto adapter = dot ? std::from_chars(node.ptr + 1, end, out.adapter) : node;
  if (!dot || adapter.ec != std::errc() || adapter.ptr == end || *adapter.ptr != '=')
    return fail(ErrorKind::usage, fmt::format("{} '{}' is not NODE.ADAPTER=FACTOR", option, text), {},
                "as in --slow-adapter 1.3=5.8: adapter 3 of node 1, both from 0");
  const auto slowdown = parse_slowdown(option, std::string(adapter.ptr + 1, end));
  FORESHARD_TRY(slowdown);
  out.slowdown = *slowdown;
  return out;
}

}  // namespace

void RankOptions::add_to(OptionSet& set) {
  set.add_option("--slow-gpu", slow_gpu_,
                 "a rank whose kernels take FACTOR times as long, and for which the others wait; may be repeated")
      .type_name("RANK=FACTOR");
  set.add_option("--slow-host", slow_host_, "a rank whose host takes FACTOR times as long; may be repeated")
      .type_name("RANK=FACTOR");
  set.add_option("--slow-adapter", slow_adapter_,
                 "an adapter, of a node, both from 0, that moves bytes FACTOR times as slowly; may be repeated")
      .type_name("NODE.ADAPTER=FACTOR");
  set.add_option("--slow-link", slow_link_, "a rank whose NVLink moves bytes FACTOR times as slowly; may be repeated")
      .type_name("RANK=FACTOR");
  set.add_option("--rank-source", source_,
                 "a rank that runs another recording of the same training (its own trace); may be repeated")
      .type_name("RANK=RUN");
}

Result<sim::Differences> RankOptions::read(const SourceOptions& from, const Planned& planned, Console& console) {
  std::map<std::uint32_t, sim::RankDifference> by_rank;
  const auto of = [&](const OfRank& given) -> sim::RankDifference& {
    sim::RankDifference& difference = by_rank[given.rank];
    difference.rank = given.rank;
    return difference;
  };
  for (const auto& [option, texts, factor] : {std::tuple{"--slow-gpu", &slow_gpu_, &sim::RankDifference::kernels},
                                              std::tuple{"--slow-host", &slow_host_, &sim::RankDifference::host}})
    for (const std::string& text : *texts) {
      const auto given = parse(option, text);
      FORESHARD_TRY(given);
      const auto value = parse_factor(option, given->value);
      FORESHARD_TRY(value);
      FORESHARD_TRY(once(option, *given, of(*given).*factor != 1));
      of(*given).*factor = *value;
    }
  for (const std::string& text : source_) {
    constexpr std::string_view option = "--rank-source";
    const auto given = parse(option, text);
    FORESHARD_TRY(given);
    SourceOptions options = from;
    options.source.text = given->value;
    const auto source = read_source(options, console);
    FORESHARD_TRY(source);
    for (const std::string& note : source->notes) console.note(note);
    auto workload = traces::workloads_of(*source, planned.machine)->at(planned.settings);
    FORESHARD_TRY(workload);
    if ((*workload)->lowering != planned.workload->lowering)
      return fail(ErrorKind::usage, "the ranks of one job run one lowering", given->value, "give --lowering for all");
    for (const std::string& warning : source->warnings) console.warn(fmt::format("rank {}: {}", given->rank, warning));
    workloads_.push_back(*workload);
    FORESHARD_TRY(once(option, *given, of(*given).workload != nullptr));
    of(*given).workload = workloads_.back().get();
  }
  sim::Differences out;
  for (const auto& [rank, difference] : by_rank) out.ranks.push_back(difference);
  for (const std::string& text : slow_adapter_) {
    auto slow = parse_adapter(text);
    FORESHARD_TRY(slow);
    for (const sim::SlowAdapter& other : out.slow_adapters)
      if (other.node == slow->node && other.adapter == slow->adapter)
        return fail(ErrorKind::usage,
                    fmt::format("--slow-adapter says two things of adapter {}.{}", slow->node, slow->adapter));
    out.slow_adapters.push_back(*slow);
  }
  for (const std::string& text : slow_link_) {
    const auto given = parse("--slow-link", text);
    FORESHARD_TRY(given);
    const auto value = parse_slowdown("--slow-link", given->value);
    FORESHARD_TRY(value);
    for (const sim::SlowLink& other : out.slow_links)
      FORESHARD_TRY(once("--slow-link", *given, other.rank == given->rank));
    out.slow_links.push_back({given->rank, *value});
  }
  return out;
}

}  // namespace foreshard::cli
