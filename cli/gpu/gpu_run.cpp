// One rank of `foreshard run`, in foreshard-gpu.

#include "cli/gpu/gpu_run.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "cli/gpu/gradient_files.hpp"
#include "cli/gpu/run_report.hpp"
#include "cli/reports/fingerprint.hpp"
#include "cli/reports/prediction_report.hpp"
#include "cli/reports/store_run.hpp"
#include "cli/terminal/version.hpp"
#include "core/adapt/adapt.hpp"
#include "core/adapt/program_kernels.hpp"
#include "core/base/json_io.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/predict/cuda_graph.hpp"

namespace foreshard::cli {
namespace {

/// What the ranks must agree on, so that one with other settings is refused before it hangs the rest.
std::vector<gpu::Setting> agreement(const RunOptions& options, const Planned& planned) {
  std::vector<gpu::Setting> out{{"foreshard", version_text()},
                                {"source", planned.workload->name},
                                {"steps", std::to_string(options.steps)},
                                {"warmup", std::to_string(options.warmup)},
                                {"learning-rate", std::to_string(options.learning_rate)},
                                {"emulate", options.emulate ? "yes" : "no"},
                                {"pace-host", options.pace_host ? "yes" : "no"},
                                {"record", options.record ? "yes" : "no"},
                                {"memory-limit", std::to_string(planned.memory_limit.value_or(0))}};
  for (const auto& [key, value] : setting_options(planned.settings)) out.push_back({key, value});
  return out;
}

Result<std::vector<gpu::RankMeasurement>> gather(gpu::Session& session, const gpu::RankMeasurement& own) {
  const auto texts = session.bootstrap().all_gather("results", measurement_text(own));
  FORESHARD_TRY(texts);
  std::vector<gpu::RankMeasurement> ranks;
  for (const std::string& text : *texts) {
    auto rank = parse_measurement(text);
    FORESHARD_TRY(rank);
    ranks.push_back(std::move(*rank));
  }
  return ranks;
}

/// A failed run's store: what rank 0 had, marked.
void store_incomplete(const Error& error, const Planned& planned, const RunOptions& options, Run& run,
                      Console& console) {
  run.info.valid = false;
  run.info.warnings.push_back("incomplete: " + error.what);
  Json json = json_result("run");
  add_basis(basis_of(planned), json);
  json["incomplete"] = error.text();
  if (auto ok = store_run(json, *planned.workload, options.output, options.force, run); !ok)
    console.warn("the store of the incomplete run was not written: " + ok.error().text());
}

Result<void> report(const RunOptions& options, const Planned& planned, const gpu::Execution& execution,
                    const std::vector<gpu::RankMeasurement>& ranks, Run& run, Console& console) {
  RunReport report{options.source.source.text, planned, execution, ranks, run, nullptr, execution.caveats};
  if (const auto known = plan_fingerprint(planned)) keep_fingerprint(run, *known);
  const auto plan = predict_planned(planned, options.name);
  if (plan)
    report.plan = &*plan;
  else
    report.warnings.push_back("no plan beside it: " + plan.error().what);
  report.equal_at_addresses = equal_at_addresses(report);
  for (const gpu::GroupPath& path : execution.paths)
    if (path.path.ran != path.path.asked)
      report.warnings.push_back(
          fmt::format("{} ran as {}: {}", name(path.path.asked), name(path.path.ran), path.path.reason));
  for (const std::string& warning : report.warnings) console.warn(warning);
  run.info.warnings = report.warnings;
  if (!options.name.empty()) run.info.name = options.name;
  run.info.machine = planned.machine.name;
  const Json json = run_json(report);
  if (!options.output.empty()) {
    const bool recorded = !run.steps.empty();
    const Workload here =
        recorded_in(*planned.workload, planned.settings, recorded ? execution.recorded_memory : execution.timed_memory);
    if (auto ok = store_run(json, here, options.output, options.force, run); !ok) return ok;
  }
  if (options.json)
    print_json(console.out, json);
  else
    print_run(console, report);
  console.out.flush();
  return {};
}

Result<void> work(const RunOptions& options, const Planned& planned, const Workload& workload, gpu::Session& session,
                  Run& run, Console& console) {
  const bool first = session.environment().rank == 0;
  if (auto ok = gpu::use_gpu(session.environment()); !ok) return ok;
  gpu::ExecuteRequest request;
  request.steps = options.steps;
  request.warmup = options.warmup;
  if (!options.record) request.recorded = 0;
  request.memory_limit = planned.memory_limit;
  request.learning_rate = options.learning_rate;
  request.pace_host = options.pace_host;
  if (first) request.progress = [&console](std::string_view what) { console.note(what); };
  std::optional<GradientFiles> gradients;
  if (!options.gradients.empty()) {
    gradients.emplace(options.gradients, session.environment().rank, workload);
    request.gradients = [&](std::int32_t step, const ShardedGradient& gradient, std::span<const char> bytes) {
      gradients->add(step, gradient, bytes);
    };
  }
  const auto execution = gpu::execute(workload, planned.settings, request, session, run);
  FORESHARD_TRY(execution);
  if (gradients)
    if (auto ok = gradients->finish(); !ok) return ok;
  const auto ranks = gather(session, execution->measured);
  FORESHARD_TRY(ranks);
  if (!first) return {};
  return report(options, planned, *execution, *ranks, run, console);
}

}  // namespace

Result<int> run_rank(const RunOptions& options, Console& console) {
  const auto environment = gpu::read_environment(gpu::process_variables());
  FORESHARD_TRY(environment);
  const bool started_by_us = environment->launcher == "foreshard";
  console.quiet |= environment->rank != 0;
  Console silent{console.out, console.err, true, false, false};
  auto planned =
      read_planned(options.source, options.setting_options, options.memory_limit, started_by_us ? silent : console);
  FORESHARD_TRY(planned);
  if (options.emulate) {  // a store's workload, or one for a profile of foreshard's own run, computes all the same
    auto silenced = std::make_shared<Workload>(*planned->workload);
    drop_kernels(*silenced);
    planned->workload = std::move(silenced);
  }
  if (planned->settings.world() != environment->ranks)
    return fail(ErrorKind::usage,
                fmt::format("{} started {} ranks, the settings want {}", environment->launcher, environment->ranks,
                            planned->settings.world()),
                {}, "--gpus and --nodes must give the number of ranks");
  const auto adapted = adapt(*planned->workload, planned->settings);
  FORESHARD_TRY(adapted);
  FORESHARD_TRY(sim::check_capturable(adapted->workload, planned->settings));
  gpu::SessionOptions session_options;
  session_options.environment = *environment;
  session_options.settings = agreement(options, *planned);
  session_options.on_stuck = [](const gpu::RunFailure& failure) { _exit(static_cast<int>(failure.kind)); };
  session_options.hear_sigterm = true;
  const auto session = gpu::Session::join(session_options);
  FORESHARD_TRY(session);
  Run run;
  const Result<void> worked = work(options, *planned, adapted->workload, **session, run, console);
  const std::string unauthenticated = (*session)->unauthenticated();
  if (!unauthenticated.empty()) console.note("note: " + unauthenticated);
  if (worked) {
    const auto finished = (*session)->finish();
    if (finished) return static_cast<int>(kDone);
    return tl::unexpected(finished.error());
  }
  const Error error = (*session)->fail(worked.error());
  if (environment->rank == 0 && !options.output.empty()) store_incomplete(error, *planned, options, run, console);
  if (started_by_us) return static_cast<int>(error.kind);  // the launcher says it once
  return tl::unexpected(error);
}

}  // namespace foreshard::cli
