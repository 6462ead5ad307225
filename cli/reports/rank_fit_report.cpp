#include "cli/reports/rank_fit_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

namespace foreshard::cli {
namespace {

std::string rank_name(std::uint32_t rank) {
  return fmt::format("rank {}", rank);
}

/// "1.20".
std::string factor_text(const FittedFactor& factor) {
  return fmt::format("{:.2f}", factor.value);
}

/// "its kernels take 1.20 times as long as the middle rank's"; a phrase for each difference.
std::vector<std::string> how(const RankFit& rank) {
  std::vector<std::string> out;
  if (rank.kernels.differs(kAlikeKernels))
    out.push_back(fmt::format("its kernels take {} times as long as the middle rank's", factor_text(rank.kernels)));
  if (rank.own)
    out.push_back(fmt::format("it runs {:.0f} {} kernels a step than the others, {:.2f} ms {} ({})",
                              std::abs(rank.own->launches), rank.own->launches < 0 ? "fewer" : "more",
                              std::abs(rank.own->time.ms()), rank.own->time.count < 0 ? "less" : "of them",
                              rank.own->name));
  if (rank.host.differs(kAlikeHosts))
    out.push_back(fmt::format("its host takes {} times as long from launch to launch", factor_text(rank.host)));
  return out;
}

std::string cell(const FittedFactor& factor, double least) {
  if (factor.samples == 0) return "-";
  return fmt::format("{:.3f} ± {:.3f}{}", factor.value, factor.spread, factor.differs(least) ? " *" : "");
}

Json factor_json(const FittedFactor& factor, double least) {
  if (factor.samples == 0) return nullptr;
  return {{"factor", factor.value},
          {"spread", factor.spread},
          {"samples", factor.samples},
          {"differs", factor.differs(least)}};
}

std::string group_text(const GroupFit& group) {
  return fmt::format("ranks {}: their {} takes {} times as long as that of the middle group of its shape",
                     fmt::join(group.ranks, ", "), group.collective, factor_text(group.time));
}

}  // namespace

std::string rank_fit_options(const RanksFit& fit) {
  std::string out;
  for (const RankFit& rank : fit.ranks) {
    if (rank.kernels.differs(kAlikeKernels)) out += fmt::format(" --slow-gpu {}={:.3g}", rank.rank, rank.kernels.value);
    if (rank.host.differs(kAlikeHosts)) out += fmt::format(" --slow-host {}={:.3g}", rank.rank, rank.host.value);
    if (rank.own) out += fmt::format(" --rank-source {}=RUN", rank.rank);
  }
  return out.empty() ? out : out.substr(1);
}

void print_rank_fit(std::ostream& out, const RanksFit& fit) {
  std::size_t unlike = 0;
  for (const RankFit& rank : fit.ranks) {
    const std::vector<std::string> phrases = how(rank);
    if (phrases.empty()) continue;
    ++unlike;
    out << rank_name(rank.rank) << " is unlike the others: " << fmt::format("{}", fmt::join(phrases, "; ")) << '\n';
  }
  for (const GroupFit& group : fit.groups) out << group_text(group) << '\n';
  if (unlike == 0 && fit.groups.empty())
    out << fmt::format("no rank is unlike the others: kernels within {:.0f} %, hosts within {:.0f} %\n",
                       100 * kAlikeKernels, 100 * kAlikeHosts);
  if (const std::string options = rank_fit_options(fit); !options.empty()) {
    out << "plan it with " << options;
    if (options.find("=RUN") != std::string::npos) out << " (RUN: an import of that rank's own trace)";
    out << '\n';
  }
  out << fmt::format(
      "\n{} of {} ranks, {} step{}; factors over the middle rank, ± half of the middle half of its kernels' "
      "(launches'), * unlike\n",
      fit.ranks.size(), fit.world, fit.steps, fit.steps == 1 ? "" : "s");
  constexpr auto kRight = Table::Align::right;
  Table table({{"rank", kRight}, {"kernels", kRight}, {"host", kRight}, {"own kernels, ms a step", kRight}});
  for (const RankFit& rank : fit.ranks)
    table.row({std::to_string(rank.rank), cell(rank.kernels, kAlikeKernels), cell(rank.host, kAlikeHosts),
               rank.own ? fmt::format("{:+.2f}", rank.own->time.ms()) : "-"});
  table.print(out);
}

Json rank_fit_json(const RanksFit& fit) {
  Json json = Json::object();
  json["world"] = fit.world;
  json["steps"] = fit.steps;
  json["ranks"] = Json::array();
  for (const RankFit& rank : fit.ranks) {
    Json own = nullptr;
    if (rank.own) own = {{"time_ms", rank.own->time.ms()}, {"launches", rank.own->launches}, {"most", rank.own->name}};
    json["ranks"].push_back({{"rank", rank.rank},
                             {"kernels", factor_json(rank.kernels, kAlikeKernels)},
                             {"host", factor_json(rank.host, kAlikeHosts)},
                             {"own_kernels", std::move(own)}});
  }
  json["groups"] = Json::array();
  for (const GroupFit& group : fit.groups)
    json["groups"].push_back(
        {{"ranks", group.ranks}, {"collective", group.collective}, {"time", factor_json(group.time, kAlikeLinks)}});
  const std::string options = rank_fit_options(fit);
  json["options"] = options.empty() ? Json(nullptr) : Json(options);
  return json;
}

}  // namespace foreshard::cli
