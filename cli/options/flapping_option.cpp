#include "cli/options/flapping_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

#include "core/base/units.hpp"

namespace foreshard::cli {
namespace {

using sim::FlappingLink;

/// Shorter periods change nothing that a step shows, and longer ones none of a run.
constexpr Nanoseconds kShortest{1'000'000};
constexpr Nanoseconds kLongest{24LL * 3600 * 1'000'000'000};

std::string_view option_of(FlappingLink::Kind kind) {
  return kind == FlappingLink::Kind::adapter ? "--flapping-adapter" : "--flapping-uplinks";
}

tl::unexpected<Error> refuse(FlappingLink::Kind kind, const std::string& text, const std::string& why) {
  const bool adapter = kind == FlappingLink::Kind::adapter;
  return fail(ErrorKind::usage, fmt::format("{} '{}': {}", option_of(kind), text, why), {},
              adapter ? "as in --flapping-adapter 1.3=200ms/2s: adapter 3 of node 1 is down for 200 ms of every 2 s; "
                        "…:25%: it carries a quarter meanwhile"
                      : "as in --flapping-uplinks 0=200ms/2s:50%: for 200 ms of every 2 s the uplinks of leaf switch 0 "
                        "carry half");
}

/// What is behind "=": "DOWN/PERIOD[:LEFT%]".
Result<FlappingLink> parse_times(FlappingLink out, const std::string& text, std::string_view times) {
  const std::size_t slash = times.find('/');
  const std::size_t colon = times.find(':');
  if (slash == std::string_view::npos || colon < slash) return refuse(out.kind, text, "how long, of what period?");
  const auto down = parse_time(times.substr(0, slash));
  const auto period = parse_time(times.substr(slash + 1, colon == std::string_view::npos ? colon : colon - slash - 1));
  if (!down || !period) return refuse(out.kind, text, down ? period.error().what : down.error().what);
  if (*period < kShortest || *period > kLongest)
    return refuse(out.kind, text, "a period is from 1 ms to 24 hours (86400s)");
  if (down->count <= 0 || *down >= *period)
    return refuse(out.kind, text,
                  "it is down for a part of its period: for longer than nothing, and not for all of it");
  out.down = *down;
  out.period = *period;
  if (colon == std::string_view::npos) return out;
  const std::string_view left = times.substr(colon + 1);
  double percent = -1;
  const auto [end, error] = std::from_chars(left.data(), left.data() + left.size(), percent);
  if (error != std::errc() || end + 1 != left.data() + left.size() || *end != '%' || !(percent >= 0 && percent < 100))
    return refuse(out.kind, text, fmt::format("'{}' is no percentage from 0 to less than 100", left));
  out.left = percent / 100;
  return out;
}

}  // namespace

Result<FlappingLink> parse_flapping_link(FlappingLink::Kind kind, const std::string& text) {
  FlappingLink out;
  out.kind = kind;
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos) return refuse(kind, text, "is not LINK=DOWN/PERIOD[:LEFT%]");
  const std::string_view place = std::string_view(text).substr(0, equals);
  const std::size_t dot = place.find('.');
  if ((kind == FlappingLink::Kind::adapter) != (dot != std::string_view::npos))
    return refuse(
        kind, text,
        fmt::format("'{}' is no {}", place, kind == FlappingLink::Kind::adapter ? "NODE.ADAPTER" : "leaf switch"));
  const auto of = parse_count(place.substr(0, dot));
  const auto adapter = dot == std::string_view::npos ? Result<std::uint32_t>(0) : parse_count(place.substr(dot + 1));
  if (!of || !adapter) return refuse(kind, text, fmt::format("'{}' is not numbered from 0", place));
  out.place = *of;
  out.adapter = *adapter;
  return parse_times(out, text, std::string_view(text).substr(equals + 1));
}

void FlappingOption::add_to(OptionSet& set) {
  set.add_option(
         "--flapping-adapter", adapters_,
         "an adapter, of a node, both from 0, that is down for DOWN out of every PERIOD, or carries LEFT of its "
         "bytes meanwhile: the steps of a run in which it does, over --trials with a --seed; as in 1.3=200ms/2s, or "
         "1.3=200ms/2s:25%; may be repeated")
      .type_name("NODE.ADAPTER=DOWN/PERIOD[:LEFT%]");
  set.add_option("--flapping-uplinks", uplinks_,
                 "the same of all uplinks of a leaf switch of --fabric, from 0: of four of which one flaps, 75 % are "
                 "left; may be repeated")
      .type_name("LEAF=DOWN/PERIOD[:LEFT%]");
}

void FlappingOption::add_given(JobOptions& options) const {
  add_option(options, option_of(FlappingLink::Kind::adapter), adapters_);
  add_option(options, option_of(FlappingLink::Kind::uplinks), uplinks_);
}

Result<std::optional<sim::FlappingRequest>> FlappingOption::read(const Planned& planned,
                                                                 const sim::Differences& differences) const {
  if (!given()) return std::nullopt;
  const std::string option(option_of(adapters_.empty() ? FlappingLink::Kind::uplinks : FlappingLink::Kind::adapter));
  if (std::any_of(differences.ranks.begin(), differences.ranks.end(),
                  [](const sim::RankDifference& rank) { return rank.dead_from != sim::kNeverDies; }))
    return fail(ErrorKind::usage, "a job that hangs has no steps that a link could lengthen", option,
                "leave out --dead-rank");
  if (!planned.workload->has_timing)
    return fail(ErrorKind::usage, "SOURCE has no times that a link could lengthen", option,
                "import it with its profiler trace");
  sim::FlappingRequest out;
  for (const auto& [kind, texts] :
       {std::pair{FlappingLink::Kind::adapter, &adapters_}, std::pair{FlappingLink::Kind::uplinks, &uplinks_}})
    for (const std::string& text : *texts) {
      const auto link = parse_flapping_link(kind, text);
      FORESHARD_TRY(link);
      for (const FlappingLink& other : out.links)
        if (words(other) == words(*link))
          return fail(ErrorKind::usage, fmt::format("{} says two things of {}", option_of(kind), words(*link)), {},
                      "say one of the two");
      out.links.push_back(*link);
    }
  return out;
}

}  // namespace foreshard::cli
