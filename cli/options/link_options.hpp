// Adapters and NVLinks that are slower than the others, as options of `plan`, `sweep` and `collectives`; and how an
// option says something of one rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cli/options/option_set.hpp"
#include "core/base/error.hpp"
#include "core/run/job_options.hpp"
#include "sim/machine/links.hpp"

namespace foreshard::cli {

/// In the order given; whether the job has them, check_slow_links() (sim/network/slow_links.hpp) and
/// check_background_load() say.
struct UnlikeLinks {
  std::vector<sim::SlowAdapter> slow_adapters;
  std::vector<sim::SlowLink> slow_links;
  sim::BackgroundLoad background;
};

class LinkOptions {
 public:
  /// Adds --slow-adapter, --slow-link and --background-load. `this` must outlive the parsing.
  void add_to(OptionSet& set);
  /// Of a machine with this network. Errors (usage): what is no adapter, rank, factor from 1 to 100 or load, and one
  /// that is given twice.
  [[nodiscard]] Result<UnlikeLinks> read(const sim::Network& network) const;
  /// Appends them as they were given.
  void add_given(JobOptions& options) const;

 private:
  std::vector<std::string> slow_adapter_;
  std::vector<std::string> slow_link_;
  std::string background_;
};

/// "RANK=VALUE".
struct OfRank {
  std::uint32_t rank = 0;
  std::string value;
};
[[nodiscard]] Result<OfRank> parse_of_rank(std::string_view option, const std::string& text);

/// "RANK=VALUE" or "FIRST-LAST=VALUE"; `example` is for the hint.
struct OfRanks {
  std::uint32_t first = 0;
  std::uint32_t last = 0;  ///< included
  std::string value;
};
[[nodiscard]] Result<OfRanks> parse_of_ranks(std::string_view option, const std::string& text,
                                             std::string_view example);

/// A factor on times, from a hundredth to a hundred: beyond that it is a typing error, or a rank that is lost.
[[nodiscard]] Result<double> parse_time_factor(std::string_view option, const std::string& text);

/// Refuses (usage) where something is there already.
[[nodiscard]] Result<void> said_once(std::string_view option, std::uint32_t rank, bool is_there);

}  // namespace foreshard::cli
