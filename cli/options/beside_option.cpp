#include "cli/options/beside_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "core/base/units.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/workload_source/workload_source.hpp"

namespace foreshard::cli {
namespace {

struct Given {
  std::string source;  // empty: this job's
  std::uint32_t nodes = 0;
  std::uint32_t replicate = 1;
};

/// "[SOURCE@]NODES[:REPLICATE]".
Result<Given> parse(const std::string& text) {
  Given out;
  const std::size_t at = text.rfind('@');
  const std::size_t begin = at == std::string::npos ? 0 : at + 1;
  if (at != std::string::npos) out.source = text.substr(0, at);
  const std::string_view rest = std::string_view(text).substr(begin);
  const std::size_t colon = rest.find(':');
  const auto nodes = parse_count(rest.substr(0, colon));
  const auto replicate =
      colon == std::string_view::npos ? Result<std::uint32_t>(1) : parse_count(rest.substr(colon + 1));
  if (!nodes || !replicate || *nodes == 0 || *replicate == 0 || at == 0)
    return fail(ErrorKind::usage, fmt::format("--beside '{}' is not [SOURCE@]NODES[:REPLICATE]", text), {},
                "as in --beside 6, --beside 8:2 or --beside llama-8b@4");
  out.nodes = *nodes;
  out.replicate = *replicate;
  return out;
}

Result<void> check_they_can_meet(const Planned& planned) {
  if (planned.settings.nodes < 2)
    return fail(ErrorKind::usage, "nothing of a job on one node goes over links that another job has a part of",
                "--beside", "leave it out, or give --nodes");
  if (planned.machine.network.leaf_nodes == 0 && planned.machine.network.group_nodes == 0)
    return fail(ErrorKind::usage, "on a fabric that blocks nowhere jobs share no link", "--beside",
                "say how the nodes are wired, as in --fabric fat-tree:4:2");
  return {};
}

}  // namespace

void BesideOption::add_to(OptionSet& set) {
  set.add_option("--beside", text_,
                 "another job on the nodes behind this one's: what it costs on the links of --fabric that both use. "
                 "This job's program again, or SOURCE's at this job's settings (a recording: at its own)")
      .type_name("[SOURCE@]NODES[:REPLICATE]");
}

void BesideOption::add_given(JobOptions& options) const {
  if (!text_.empty()) add_option(options, "--beside", {text_});
}

Result<std::optional<sim::BesideRequest>> BesideOption::read(const SourceOptions& from, const Planned& planned,
                                                             const sim::Differences& ranks, Console& console) {
  if (text_.empty()) return std::nullopt;
  if (std::any_of(ranks.ranks.begin(), ranks.ranks.end(),
                  [](const sim::RankDifference& rank) { return rank.dead_from != sim::kNeverDies; }))
    return fail(ErrorKind::usage, "a job that hangs has no step that another one could lengthen", "--beside",
                "leave out --dead-rank, or --beside");
  const auto given = parse(text_);
  FORESHARD_TRY(given);
  FORESHARD_TRY(check_they_can_meet(planned));
  if (!planned.workload->has_timing)
    return fail(ErrorKind::usage, "SOURCE has no times that another job could lengthen", from.source.text,
                "import it with its profiler trace");
  traces::Source source = planned.source;
  Settings settings = planned.settings;
  if (!given->source.empty()) {
    SourceOptions options = from;
    // What the command says of this job's model (--layers, --lora, …) is not said of the other one's.
    options.source = {given->source};
    options.source.lowering = from.source.lowering;
    options.source.store = from.source.store;
    auto other = read_source(options, console);
    if (!other) {
      Error error = other.error();
      error.what = "--beside: the other job: " + error.what;
      return tl::unexpected(std::move(error));
    }
    for (const std::string& note : other->notes) console.note(note);
    for (const std::string& warning : other->warnings) console.warn("the other job: " + warning);
    source = std::move(*other);
    if (!source.model) settings = source.settings;
  }
  settings.gpus = planned.settings.gpus;
  settings.nodes = given->nodes;
  settings.replicate = given->replicate;
  if (const auto consistent = check(settings); !consistent) {
    Error error = consistent.error();
    error.what = "--beside: the other job: " + error.what;
    return tl::unexpected(std::move(error));
  }
  auto workload = traces::workloads_of(source, planned.machine)->at(settings);
  FORESHARD_TRY(workload);
  workload_ = *workload;
  return sim::BesideRequest{workload_.get(), settings};
}

}  // namespace foreshard::cli
