#include "cli/options/link_options.hpp"

#include <fmt/format.h>

#include <charconv>

#include "core/base/units.hpp"
#include "sim/network/background_load.hpp"

namespace foreshard::cli {
namespace {

/// A factor that makes it slower: what a healthy link carries is the machine's.
Result<double> parse_slowdown(std::string_view option, const std::string& text) {
  const auto factor = parse_time_factor(option, text);
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

Result<OfRank> parse_of_rank(std::string_view option, const std::string& text) {
  OfRank out;
  const std::size_t equals = text.find('=');
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.rank);
  if (equals == std::string::npos || error != std::errc() || end != text.data() + equals || equals + 1 == text.size())
    return fail(ErrorKind::usage,
                fmt::format("{} '{}' is not {}", option, text,
                            option == "--skip-unit" ? "RANK=UNIT or RANK=UNIT@STEP" : "RANK=VALUE"),
                {},
                fmt::format("as in {} {}", option,
                            option == "--rank-source" ? "5=rank5.db"
                            : option == "--skip-unit" ? "3=layers.5"
                                                      : "5=1.25"));
  out.value = text.substr(equals + 1);
  return out;
}

Result<OfRanks> parse_of_ranks(std::string_view option, const std::string& text, std::string_view example) {
  constexpr std::uint32_t kMaxRanks = 1U << 20U;  // beyond that it is a typing error
  const std::size_t equals = text.find('=');
  const std::string_view ranks = std::string_view(text).substr(0, equals);
  const std::size_t dash = ranks.find('-');
  const auto first = parse_count(ranks.substr(0, dash));
  const auto last = dash == std::string_view::npos ? first : parse_count(ranks.substr(dash + 1));
  if (equals == std::string::npos || equals + 1 == text.size() || !first || !last || *last < *first ||
      *last - *first >= kMaxRanks)
    return fail(ErrorKind::usage, fmt::format("{} '{}' is not RANK=VALUE or FIRST-LAST=VALUE", option, text), {},
                fmt::format("as in {} {}", option, example));
  return OfRanks{*first, *last, text.substr(equals + 1)};
}

Result<double> parse_time_factor(std::string_view option, const std::string& text) {
  double factor = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
  if (error != std::errc() || end != text.data() + text.size() || !(factor >= 0.01 && factor <= 100))
    return fail(
        ErrorKind::usage, fmt::format("{}: '{}' is no factor from 0.01 to 100", option, text), {},
        fmt::format("as in {} 5=1.25: it takes a quarter longer; below 1 it is faster than the others", option));
  return factor;
}

Result<void> said_once(std::string_view option, std::uint32_t rank, bool is_there) {
  if (!is_there) return {};
  return fail(ErrorKind::usage, fmt::format("{} says two things of rank {}", option, rank), {}, "say one of the two");
}

void LinkOptions::add_to(OptionSet& set) {
  set.add_option(
         "--slow-adapter", slow_adapter_,
         "an adapter, of a node, both from 0, that moves bytes FACTOR times as slowly; as in 1.3=5.8; may be repeated")
      .type_name("NODE.ADAPTER=FACTOR");
  set.add_option("--slow-link", slow_link_,
                 "a rank whose NVLink moves bytes FACTOR times as slowly; as in 3=4; may be repeated")
      .type_name("RANK=FACTOR");
  set.add_option(
         "--background-load", background_,
         "what traffic of others takes of every link of a kind, and leaves the job so much less: adapters (a "
         "share or a rate of each), uplinks (between switches, a share), or all, as in adapters=5GB/s,uplinks=30%")
      .type_name("LINKS=SHARE,…");
}

Result<UnlikeLinks> LinkOptions::read(const sim::Network& network) const {
  UnlikeLinks out;
  if (!background_.empty()) {
    const auto load = sim::parse_background_load(background_, network);
    FORESHARD_TRY(load);
    out.background = *load;
  }
  for (const std::string& text : slow_adapter_) {
    auto slow = parse_adapter(text);
    FORESHARD_TRY(slow);
    for (const sim::SlowAdapter& other : out.slow_adapters)
      if (other.node == slow->node && other.adapter == slow->adapter)
        return fail(ErrorKind::usage,
                    fmt::format("--slow-adapter says two things of adapter {}.{}", slow->node, slow->adapter), {},
                    "say one of the two");
    out.slow_adapters.push_back(*slow);
  }
  for (const std::string& text : slow_link_) {
    const auto given = parse_of_rank("--slow-link", text);
    FORESHARD_TRY(given);
    const auto value = parse_slowdown("--slow-link", given->value);
    FORESHARD_TRY(value);
    for (const sim::SlowLink& other : out.slow_links)
      FORESHARD_TRY(said_once("--slow-link", given->rank, other.rank == given->rank));
    out.slow_links.push_back({given->rank, *value});
  }
  return out;
}

void LinkOptions::add_given(JobOptions& options) const {
  add_option(options, "--slow-adapter", slow_adapter_);
  add_option(options, "--slow-link", slow_link_);
  if (!background_.empty()) add_option(options, "--background-load", {background_});
}

}  // namespace foreshard::cli
