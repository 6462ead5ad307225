#include "cli/reports/fingerprint.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/terminal/version.hpp"
#include "core/base/digest.hpp"
#include "core/base/json_io.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/machine/merge_profile.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {
namespace {

constexpr const char* kKey = "fingerprint";

}  // namespace

std::string workload_digest(const traces::Source& source, const std::shared_ptr<const Workload>& workload) {
  const bool kept = source.host_scale && workload == source.workload;
  return kept ? source.stored_digest : digest_of(traces::to_json(*workload));
}

std::string fingerprint(const FingerprintParts& parts) {
  Digest digest;
  digest.add_part("version", version_number());
  digest.add_part("inputs", parts.inputs);
  for (const auto& [key, value] : setting_options(parts.settings)) digest.add_part(key, value);
  digest.add_part("machine", parts.machine);
  digest.add_part("question", parts.question);
  return digest.text();
}

std::string differences_question(const sim::Differences& differences) {
  std::string question;
  for (const sim::RankDifference& rank : differences.ranks)
    question += fmt::format(" rank {} kernels {} host {} program {}", rank.rank, rank.kernels, rank.host,
                            rank.workload != nullptr ? digest_of(traces::to_json(*rank.workload)) : "");
  for (const sim::RankDifference& rank : differences.ranks)
    if (rank.dead_from != sim::kNeverDies) question += fmt::format(" rank {} dead from {}", rank.rank, rank.dead_from);
  for (const sim::RankDifference& rank : differences.ranks)
    if (rank.gemms) question += fmt::format(" rank {} gemms {}", rank.rank, text_of(*rank.gemms));
  for (const sim::RankDifference& rank : differences.ranks)
    if (rank.skips)
      question += fmt::format(" rank {} skips {} from {}", rank.rank, rank.skips->unit, rank.skips->from_step);
  for (const sim::SlowAdapter& slow : differences.slow_adapters)
    question += fmt::format(" adapter {}.{} {}", slow.node, slow.adapter, slow.slowdown);
  for (const sim::SlowLink& slow : differences.slow_links)
    question += fmt::format(" link {} {}", slow.rank, slow.slowdown);
  if (const sim::BackgroundLoad& load = differences.background; load.any())
    question += fmt::format(" background adapters {} uplinks {}", load.adapters, load.uplinks);
  return question;
}

Result<std::string> plan_fingerprint(const Planned& planned, const sim::Differences& differences,
                                     const std::optional<sim::TrialsRequest>& trials,
                                     std::optional<std::uint32_t> kept_ranks,
                                     const std::optional<sim::BesideRequest>& beside,
                                     const std::optional<sim::FlappingRequest>& flapping,
                                     const std::optional<sim::DrawnLengths>& lengths) {
  std::string question = planned.memory_limit ? "memory limit " + std::to_string(*planned.memory_limit) : "";
  question += differences_question(differences);
  if (kept_ranks) question += fmt::format(" keeps {} ranks", *kept_ranks);
  if (!planned.fabric.empty()) question += " fabric " + planned.fabric;
  question += topology_question(planned.topology);
  if (trials)
    question += fmt::format(" jitter {} seed {} trials {}", sim::text_of(trials->jitter), trials->seed, trials->trials);
  if (lengths) question += fmt::format(" lengths {} to multiples of {}", lengths->digest, lengths->multiple);
  if (beside)
    question += fmt::format(" beside {} nodes {} replicate {}", digest_of(traces::to_json(*beside->workload)),
                            beside->settings.nodes, beside->settings.replicate);
  if (flapping) {
    for (const sim::FlappingLink& link : flapping->links)
      question += fmt::format(" {} down {} of {} left {}", words(link), link.down.count, link.period.count, link.left);
    question += fmt::format(" seed {} trials {}", flapping->seed, flapping->trials);
  }
  return machine_digest(planned.machine_name).map([&](const std::string& machine) {
    return fingerprint({workload_digest(planned.source, planned.workload), planned.settings, machine, question});
  });
}

std::string import_fingerprint(const Run& run) {
  std::string inputs;
  for (const InputFile& file : run.info.inputs) inputs += file.role + " " + file.digest + "\n";
  return fingerprint({digest_of(inputs), run.settings, {}, {}});
}

std::string fingerprint_of(const Run& run) {
  if (const auto kept = run.results.find(kKey); kept != run.results.end()) {
    const nlohmann::json text = parse_json_text(kept->second);
    if (text.is_string()) return text.get<std::string>();
  }
  return run.info.inputs.empty() ? std::string() : import_fingerprint(run);
}

void keep_fingerprint(Run& run, const std::string& fingerprint) {
  run.results[kKey] = json_quoted(fingerprint);
}

Result<std::string> machine_digest(const std::string& machine) {
  if (const nlohmann::json* whole = sim::find_builtin_document(machine)) return digest_of(json_text(*whole));
  return profile_text(machine)
      .and_then([&](const std::string& text) { return sim::complete_profile(text, machine); })
      .map([](const nlohmann::json& whole) { return digest_of(json_text(whole)); });
}

}  // namespace foreshard::cli
