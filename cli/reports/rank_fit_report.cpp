#include "cli/reports/rank_fit_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/reports/straggler_report.hpp"
#include "core/device/collective_names.hpp"
#include "core/straggler/straggler_text.hpp"
#include "core/straggler/told_ranks.hpp"

namespace foreshard::cli {
namespace {

bool is_unlike(const RankFit& rank) {
  return rank.own || rank.kernels.differs(kAlikeKernels) || rank.host.differs(kAlikeHosts);
}

/// "rank 5's GPU is slower: 1.20 times the middle rank's time (± 0.4 %, of 41 kinds of kernels)".
std::string factor_line(const std::string& whose, const FittedFactor& factor, const std::string& of,
                        const std::string& kinds) {
  return fmt::format("{} {}: {:.2f} times the middle {} (± {:.1f} %, of {} {})", whose,
                     factor.value > 1 ? "slower" : "faster", factor.value, of, 100 * factor.spread, factor.samples,
                     kinds);
}

/// The furthest that a rank is from the middle one.
std::string within(const RanksFit& fit, FittedFactor RankFit::*member, const std::string& whose) {
  double most = 0;
  std::uint32_t samples = 0;
  for (const RankFit& rank : fit.ranks) {
    samples = std::max(samples, (rank.*member).samples);
    most = std::max(most, std::abs((rank.*member).value - 1));
  }
  if (samples == 0) return whose + " could not be compared";
  return fmt::format("{} within {:.1f} %", whose, 100 * most);
}

/// Of those that their own kinds alone keep from differing the one furthest from the middle rank; else empty.
std::string unsure(const RanksFit& fit) {
  std::string out;
  double most = 1;
  const auto look = [&](const RankFit& rank, const FittedFactor& factor, double least, const char* what,
                        const char* kinds) {
    const double beyond = std::abs(factor.value - 1) / least;
    if (factor.differs(least) || beyond <= most) return;
    most = beyond;
    out = fmt::format(
        "rank {}'s {} is furthest off, {:.2f} times the middle rank's times, but its {} {} disagree "
        "(± {:.1f} %)",
        rank.rank, what, factor.value, factor.samples, kinds, 100 * factor.spread);
  };
  for (const RankFit& rank : fit.ranks) {
    look(rank, rank.kernels, kAlikeKernels, "GPU", "kinds of kernels");
    look(rank, rank.host, kAlikeHosts, "host", "kinds of launches");
  }
  return out;
}

/// "1.40 times"; where what runs beside hides how much more, "at least 1.40 times".
std::string times_words(const FactorRange& time) {
  return fmt::format("{}{:.2f} times", time.is_narrow() ? "" : "at least ", time.sure().value);
}

/// "of 2 sizes; nine of ten prices are within 7 %": how well that is known.
std::string known_words(const sim::AgainstProfile& against) {
  std::string out = fmt::format("of {} size{}; nine of ten prices are within {:.0f} %", against.time.least.samples,
                                against.time.least.samples == 1 ? "" : "s", 100 * std::expm1(against.known));
  for (const std::string& why : against.outside) out += "; " + why;
  return out;
}

/// "1.41 times what h200 says of them alone": what collectives take over their price; empty where nothing is known.
std::string against_words(const RankFitReport& report) {
  if (!report.links || report.links->against.time.least.samples == 0) return {};
  const sim::AgainstProfile& against = report.links->against;
  const FactorRange& time = against.time;
  if (against.differs() || time.is_narrow())
    return fmt::format("{} what {} says of them alone", times_words(time), report.machine);
  if (!std::isfinite(time.most.value)) return {};
  return fmt::format("{:.2f} to {:.2f} times what {} says of them alone", time.least.value, time.most.value,
                     report.machine);
}

/// Which links were held against one another, and how far apart they are.
std::string links_words(const RankFitReport& report) {
  const ComparedLinks& links = report.fit.links;
  if (!report.fit.groups.empty()) return fmt::format("links of {} groups compared", links.compared);
  if (links.compared > 0 && links.hidden == links.compared)
    return fmt::format("links of {} groups: something runs beside all of their collectives, a slow one may not show",
                       links.compared);
  if (links.compared > 0)
    return fmt::format("links of {} groups within {:.1f} % of the middle group (less than {:.0f} %)",
                       links.compared - links.hidden, 100 * links.furthest, 100 * kAlikeLinks);
  if (links.groups == 0) return "links: no group of which all ranks are recorded";
  const std::string against = against_words(report);
  const char* groups = links.groups > 1 ? "no two groups alike" : "one group";
  if (against.empty()) return fmt::format("links: {}, nothing to compare with", groups);
  return fmt::format("links: {}, whose collectives take {}", groups, against);
}

std::string link_name(const sim::SuspectLink& link) {
  return link.adapter ? fmt::format("adapter {}.{}", link.slow_adapter.node, link.slow_adapter.adapter)
                      : fmt::format("the NVLink of rank {}", link.slow_link.rank);
}

std::string link_option(const sim::SuspectLink& link) {
  return link.adapter ? fmt::format("--slow-adapter {}.{}={:.3g}", link.slow_adapter.node, link.slow_adapter.adapter,
                                    link.slow_adapter.slowdown)
                      : fmt::format("--slow-link {}={:.3g}", link.slow_link.rank, link.slow_link.slowdown);
}

/// Which link it is that slow groups have.
std::string suspects_words(const std::vector<sim::SuspectLink>& suspects) {
  constexpr std::size_t kNamed = 4;
  if (suspects.empty()) return "no one link explains all of that: several are slow, or none is";
  if (suspects.size() == 1)
    return fmt::format("it is {}: all slow groups go over it, and no other one does", link_name(suspects[0]));
  if (suspects.size() > kNamed)
    return fmt::format("it is one of {} links that no group tells apart, {} the first of them", suspects.size(),
                       link_name(suspects[0]));
  std::vector<std::string> names;
  for (const sim::SuspectLink& link : suspects) names.push_back(link_name(link));
  return fmt::format("it is one of {}, which no group tells apart", fmt::join(names, ", "));
}

/// By how much the ranks may differ and not be told apart.
std::string none_differs(const RankFitReport& report) {
  const RanksFit& fit = report.fit;
  const std::size_t missing = fit.world - std::min<std::size_t>(fit.world, fit.ranks.size());
  const std::string maybe = unsure(fit);
  return fmt::format(
      "{}{}: {}; {}{}",
      !fit.shapes.empty() ? "no rank's host differs"
      : missing == 0      ? "no rank differs"
                          : fmt::format("none of the {} recorded ranks differs", fit.ranks.size()),
      maybe.empty() ? "" : " for sure",
      maybe.empty() ? fmt::format("{}, {} of the middle rank (less than {:.0f} % and {:.0f} % is no difference)",
                                  within(fit, &RankFit::kernels, "GPUs"), within(fit, &RankFit::host, "hosts"),
                                  100 * kAlikeKernels, 100 * kAlikeHosts)
                    : maybe,
      links_words(report), missing == 0 ? "" : fmt::format("; {} of {} ranks are not recorded", missing, fit.world));
}

std::string cell(const FittedFactor& factor, double least) {
  if (factor.samples == 0) return "-";
  return fmt::format("{:.3f} ± {:.1f} %{}", factor.value, 100 * factor.spread, factor.differs(least) ? " *" : "");
}

std::string own_cell(const std::optional<OwnKernels>& own) {
  if (!own) return "-";
  std::vector<std::string> parts;
  const bool kernels = own->extra > 0 || own->missing > 0;  // else copies alone
  const Nanoseconds extra = kernels ? own->extra_time : own->extra_copies_time;
  const Nanoseconds missing = kernels ? own->missing_time : own->missing_copies_time;
  if (extra.count > 0) parts.push_back(fmt::format("+{:.2f}", extra.ms()));
  if (missing.count > 0) parts.push_back(fmt::format("-{:.2f}", missing.ms()));
  return fmt::format("{}", fmt::join(parts, " "));
}

void print_options(std::ostream& out, const RankFitReport& report) {
  const RanksFit& fit = report.fit;
  const std::string options = rank_fit_options(report);
  if (options.empty()) return;
  out << "plan it with " << options;
  if (fit.source) out << " (over rank " << *fit.source << ", whose times a plan of this run repeats)";
  out << '\n';
  if (options.find("=RUN") != std::string::npos) out << "  RUN: an import of that rank's own trace\n";
  const auto unlike = static_cast<std::size_t>(std::count_if(fit.ranks.begin(), fit.ranks.end(), is_unlike));
  if (const RankFit* source = fit.source_rank(); source != nullptr && told_ranks(fit).size() > unlike)
    out << fmt::format(
        "  rank {} differs itself: an import with the trace of one that does not as --trace needs fewer\n",
        source->rank);
}

Json factor_json(const FittedFactor& factor, double least) {
  if (factor.samples == 0) return nullptr;
  return {{"factor", factor.value},
          {"spread", factor.spread},
          {"samples", factor.samples},
          {"differs", factor.differs(least)}};
}

Json finite_or_null(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json profile_json(const RankFitReport& report) {
  if (!report.links || report.links->against.time.least.samples == 0) return nullptr;
  const sim::AgainstProfile& against = report.links->against;
  return {{"machine", report.machine},
          {"least", against.time.least.value},
          {"most", finite_or_null(against.time.most.value)},
          {"sizes", against.time.least.samples},
          {"known", std::expm1(against.known)},
          {"outside", against.outside},
          {"differs", against.differs()}};
}

}  // namespace

std::vector<std::string> rank_fit_answer(const RankFitReport& report) {
  const RanksFit& fit = report.fit;
  std::vector<std::string> out;
  for (const RankFit& rank : fit.ranks) {
    if (rank.kernels.differs(kAlikeKernels))
      out.push_back(factor_line(fmt::format("rank {}'s GPU is", rank.rank), rank.kernels, "rank's kernel times",
                                "kinds of kernels"));
    if (rank.own) out.push_back(fmt::format("rank {} runs other kernels: {}", rank.rank, own_kernels_words(*rank.own)));
    if (rank.host.differs(kAlikeHosts))
      out.push_back(factor_line(fmt::format("rank {}'s host is", rank.rank), rank.host,
                                "rank's times from launch to launch", "kinds of launches"));
  }
  for (const GroupFit& group : fit.groups)
    out.push_back(
        fmt::format("the links of ranks {} are slower: {} the middle group's {} times (± {:.1f} %, of {} size{})",
                    fmt::join(group.ranks, ", "), times_words(group.time), dashed_name(group.kind),
                    100 * group.time.least.spread, group.time.least.samples, group.time.least.samples == 1 ? "" : "s"));
  if (!fit.groups.empty() && report.links) out.push_back(suspects_words(report.links->suspects));
  if (fit.groups.empty() && report.links && report.links->against.differs())
    out.push_back(fmt::format("collectives take {} ({}); {}", against_words(report), known_words(report.links->against),
                              fit.links.groups > 1 ? "all groups do, so that none tells which links are slow"
                                                   : "one group cannot tell which link it is"));
  if (out.empty()) out.push_back(none_differs(report));
  if (const std::string shapes = rank_shapes_words(fit.shapes); !shapes.empty())
    out.insert(out.begin(), shapes + ": other kernels, which are not held against one another");
  return out;
}

std::string rank_fit_options(const RankFitReport& report) {
  std::string out;
  for (const ToldRank& rank : told_ranks(report.fit)) {
    if (rank.kernels != 1) out += fmt::format(" --slow-gpu {}={:.3g}", rank.rank, rank.kernels);
    if (rank.host != 1) out += fmt::format(" --slow-host {}={:.3g}", rank.rank, rank.host);
    if (rank.own_recording) out += fmt::format(" --rank-source {}=RUN", rank.rank);
  }
  if (report.links && !report.links->suspects.empty()) out += " " + link_option(report.links->suspects.front());
  return out.empty() ? out : out.substr(1);
}

void print_rank_fit(std::ostream& out, const RankFitReport& report) {
  const RanksFit& fit = report.fit;
  for (const std::string& line : rank_fit_answer(report)) out << line << '\n';
  print_options(out, report);
  out << fmt::format(
      "\n{} of {} ranks, {} step{}; times over the middle rank's, ± half of the middle half of its kinds of kernels "
      "(launches), * differs: a GPU from {:.0f} % on, a host from {:.0f} %; {}\n",
      fit.ranks.size(), fit.world, fit.steps, fit.steps == 1 ? "" : "s", 100 * kAlikeKernels, 100 * kAlikeHosts,
      links_words(report));
  constexpr auto kRight = Table::Align::right;
  Table table({{"rank", kRight}, {"GPU", kRight}, {"host", kRight}, {"own kernels, ms a step", kRight}});
  for (const RankFit& rank : fit.ranks)
    table.row({std::to_string(rank.rank), cell(rank.kernels, kAlikeKernels), cell(rank.host, kAlikeHosts),
               own_cell(rank.own)});
  table.print(out);
}

Json rank_fit_json(const RankFitReport& report) {
  const RanksFit& fit = report.fit;
  Json json = Json::object();
  json["answer"] = rank_fit_answer(report);
  json["world"] = fit.world;
  json["steps"] = fit.steps;
  json["ranks"] = Json::array();
  for (const RankFit& rank : fit.ranks)
    json["ranks"].push_back({{"rank", rank.rank},
                             {"kernels", factor_json(rank.kernels, kAlikeKernels)},
                             {"host", factor_json(rank.host, kAlikeHosts)},
                             {"own_kernels", own_kernels_json(rank.own)}});
  json["differs_from"] = {{"kernels", kAlikeKernels}, {"host", kAlikeHosts}};
  json["groups"] = Json::array();
  for (const GroupFit& group : fit.groups)
    json["groups"].push_back({{"ranks", group.ranks},
                              {"collective", dashed_name(group.kind)},
                              {"time", factor_json(group.time.sure(), kAlikeLinks)},
                              {"most", finite_or_null(group.time.most.value)}});
  json["links"] = {{"groups", fit.links.groups}, {"compared", fit.links.compared}};
  json["links"]["hidden"] = fit.links.hidden;
  json["links"]["furthest"] = fit.links.compared > fit.links.hidden ? Json(fit.links.furthest) : Json(nullptr);
  json["links"]["suspects"] = Json::array();
  if (report.links)
    for (const sim::SuspectLink& link : report.links->suspects) json["links"]["suspects"].push_back(link_option(link));
  json["links"]["against"] = profile_json(report);
  const std::string options = rank_fit_options(report);
  json["options"] = options.empty() ? Json(nullptr) : Json(options);
  json["source"] = fit.source ? Json(*fit.source) : Json(nullptr);
  return json;
}

}  // namespace foreshard::cli
