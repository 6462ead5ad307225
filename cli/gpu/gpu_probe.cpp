// One rank of `foreshard probe`, in foreshard-gpu.

#include "cli/gpu/gpu_probe.hpp"

#include <fmt/chrono.h>
#include <fmt/core.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <span>

#include "cli/gpu/probe_report.hpp"
#include "cli/options/options.hpp"
#include "core/base/json_io.hpp"
#include "gpu/cuda/execution.hpp"

namespace foreshard::cli {
namespace {

void print_probe(Console& console, const gpu::ProbeResult& probed, std::span<const sim::CollectiveSample> collectives) {
  constexpr auto kRight = Table::Align::right;
  Table rates({{"measured"}, {"", kRight}});
  rates.row({"copy within the GPU, read + written", fmt::format("{:.0f} GB/s", probed.hbm_copy)});
  rates.row({"copy to a peer", fmt::format("{:.0f} GB/s", probed.peer_copy)});
  rates.row({"pinned host to GPU", fmt::format("{:.1f} GB/s", probed.pcie)});
  rates.row({"GEMM 8192, bfloat16", fmt::format("{:.0f} TFLOP/s", probed.gemm_bf16)});
  rates.row({"GEMM 4096, float32", fmt::format("{:.1f} TFLOP/s", probed.gemm_fp32)});
  rates.row({"launch on an idle stream", fmt::format("{:.1f} us", probed.latencies.launch)});
  rates.row({"kernel to kernel", fmt::format("{:.2f} us", probed.latencies.kernel_gap)});
  rates.row({"more after kernels of 20 us", fmt::format("{:.2f} us", probed.latencies.long_kernel)});
  rates.row({"more while an all-gather waits", fmt::format("{:.2f} us", probed.latencies.gather_gap)});
  rates.row({"event to another stream", fmt::format("{:.1f} us", probed.latencies.event_wait)});
  rates.row({"host, one kernel", fmt::format("{:.2f} us", probed.host.kernel)});
  rates.row({"host, one NCCL collective", fmt::format("{:.2f} us", probed.host.collective)});
  rates.row({"its own kernels, timed in isolation", fmt::format("{}", probed.kernels.size())});
  rates.print(console.out);
  Table table({{"collective"}, {"by"}, {"size", kRight}, {"time", kRight}, {"bus", kRight}});
  for (const sim::CollectiveSample& one : collectives)
    table.row({std::string(name(one.kind)), std::string(name(one.transport)), fmt::format("{} MiB", one.bytes / kMiB),
               fmt::format("{:.1f} us", one.us), fmt::format("{:.0f} GB/s", one.bus_gb_per_s())});
  if (!table.empty()) console.out << '\n';
  if (!table.empty()) table.print(console.out);
}

Result<void> work(const ProbeOptions& options, gpu::Session& session, Console& console) {
  const bool first = session.environment().rank == 0;
  if (auto ok = gpu::use_gpu(session.environment()); !ok) return ok;
  gpu::ProbeRequest request;
  request.contention = options.contention;
  if (first) request.progress = [&console](std::string_view what) { console.note(what); };
  const auto probed = gpu::probe(request, session);
  FORESHARD_TRY(probed);
  if (!first) return {};
  for (const std::string& note : probed->notes) console.note("note: " + note);
  const std::string date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::chrono::system_clock::now()));
  const sim::ProbeMeasurements measured = measurements_of(*probed, session.environment().ranks, date);
  const auto fit = sim::fit_probe(measured, options.name, options.base);
  FORESHARD_TRY(fit);
  for (const std::string& note : fit->notes) console.note("note: " + note);
  if (auto ok = write_text(options.output, fit->json + "\n", options.force); !ok) return ok;
  if (options.json)
    print_json(console.out, probe_json(*probed));
  else
    print_probe(console, *probed, measured.samples.collectives);
  console.out.flush();
  console.note("written: " + options.output);
  return {};
}

}  // namespace

Result<int> probe_rank(const ProbeOptions& options, Console& console) {
  const auto environment = gpu::read_environment(gpu::process_variables());
  FORESHARD_TRY(environment);
  console.quiet |= environment->rank != 0;
  gpu::SessionOptions session_options;
  session_options.environment = *environment;
  session_options.settings = {{"verb", "probe"}, {"contention", options.contention ? "yes" : "no"}};
  session_options.on_stuck = [](const gpu::RunFailure& failure) { _exit(static_cast<int>(failure.kind)); };
  session_options.hear_sigterm = true;
  const auto session = gpu::Session::join(session_options);
  FORESHARD_TRY(session);
  const Result<void> worked = work(options, **session, console);
  const std::string unauthenticated = (*session)->unauthenticated();
  if (!unauthenticated.empty()) console.note("note: " + unauthenticated);
  if (worked) {
    const auto finished = (*session)->finish();
    if (finished) return static_cast<int>(kDone);
    return tl::unexpected(finished.error());
  }
  const Error error = (*session)->fail(worked.error());
  if (environment->launcher == "foreshard") return static_cast<int>(error.kind);  // the launcher says it once
  return tl::unexpected(error);
}

}  // namespace foreshard::cli
