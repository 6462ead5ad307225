#include "cli/options/unlike_options.hpp"

#include <fmt/format.h>

#include <map>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

namespace foreshard::cli {

void UnlikeOptions::add_to(OptionSet& set) {
  set.add_option("--slow-gpu", slow_gpu_,
                 "a rank whose kernels take FACTOR times as long, from 0.01 to 100, and for which the others wait; "
                 "below 1 it is faster than they are; as in 5=1.2; may be repeated")
      .type_name("RANK=FACTOR");
  set.add_option("--slow-host", slow_host_,
                 "a rank whose host takes FACTOR times as long, likewise; as in 7=2; may be repeated")
      .type_name("RANK=FACTOR");
  set.add_option("--rank-gemm", rank_gemm_,
                 "ranks that multiply COUNT (default 1) more bfloat16 matrices, M x K by K x N, in front of each "
                 "block's forward; as in 5=8192x8192x8192*2, or 0-3=…; may be repeated")
      .type_name("RANKS=MxNxK[*COUNT]");
  links_.add_to(set);
}

Result<sim::Differences> UnlikeOptions::read(const sim::Network& network) const {
  std::map<std::uint32_t, sim::RankDifference> by_rank;
  std::set<std::pair<std::string_view, std::uint32_t>> said;
  for (const auto& [option, texts, factor] : {std::tuple{"--slow-gpu", &slow_gpu_, &sim::RankDifference::kernels},
                                              std::tuple{"--slow-host", &slow_host_, &sim::RankDifference::host}})
    for (const std::string& text : *texts) {
      const auto given = parse_of_rank(option, text);
      FORESHARD_TRY(given);
      const auto value = parse_time_factor(option, given->value);
      FORESHARD_TRY(value);
      FORESHARD_TRY(said_once(option, given->rank, !said.insert({option, given->rank}).second));
      sim::RankDifference& difference = by_rank[given->rank];
      difference.rank = given->rank;
      difference.*factor = *value;
    }
  for (const std::string& text : rank_gemm_) {
    constexpr std::string_view kGemmOption = "--rank-gemm";
    const auto given = parse_of_ranks(kGemmOption, text, "5=8192x8192x8192*2");
    FORESHARD_TRY(given);
    auto gemms = parse_extra_gemms(given->value);
    if (!gemms) {
      gemms.error().what = fmt::format("{}: {}", kGemmOption, gemms.error().what);
      return tl::unexpected(gemms.error());
    }
    for (std::uint32_t rank = given->first; rank <= given->last; ++rank) {
      sim::RankDifference& difference = by_rank[rank];
      difference.rank = rank;
      FORESHARD_TRY(said_once(kGemmOption, rank, difference.gemms.has_value()));
      difference.gemms = *gemms;
    }
  }
  sim::Differences out;
  for (const auto& [rank, difference] : by_rank) out.ranks.push_back(difference);
  auto links = links_.read(network);
  FORESHARD_TRY(links);
  out.slow_adapters = std::move(links->slow_adapters);
  out.slow_links = std::move(links->slow_links);
  out.background = links->background;
  return out;
}

JobOptions UnlikeOptions::given() const {
  JobOptions out;
  add_option(out, "--slow-gpu", slow_gpu_);
  add_option(out, "--slow-host", slow_host_);
  add_option(out, "--rank-gemm", rank_gemm_);
  links_.add_given(out);
  return out;
}

}  // namespace foreshard::cli
