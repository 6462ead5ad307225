// Prints how predictions hold against the reference runs, as Markdown: every pair of pairs.txt, time and
// all four memory peaks, then the sums. `./dev accuracy` runs it and puts its output into README.md.
//
// accuracy_table: FORESHARD_TRUTH names the folder that holds runs/. Exit status 0 also where a bar is
// missed: the tests judge, this reports.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstdlib>
#include <ctime>
#include <exception>

#include "sim/predict/predict.hpp"
#include "tests/reference/reference_runs.hpp"

namespace foreshard::reference {
namespace {

using Totals = traces::ErrorSum;

std::string difference(Bytes predicted, Bytes measured) {
  if (predicted == measured) return "0";
  const double percent = 100.0 * (static_cast<double>(predicted) / static_cast<double>(measured) - 1);
  return fmt::format("{:+.2f} %", percent);
}

void print_row(const Pair& pair, const sim::Prediction& p, const MeasuredRun& m, double error) {
  fmt::print("| `{}` → `{}` | {:.1f} | {:.1f} [{:.1f}–{:.1f}] | {:+.1f} % | {} | {} | {} | {} | {} |\n", pair.from,
             pair.to, p.step_ms, m.median_ms, m.low_ms, m.high_ms, error, p.host_bound ? "host" : "GPU",
             difference(p.peaks.requested, m.peaks.requested), difference(p.peaks.allocated, m.peaks.allocated),
             difference(p.peaks.active, m.peaks.active), difference(p.peaks.reserved, m.peaks.reserved));
}

/// Every recording at its own settings.
void print_self(ReferenceRuns& runs, const sim::MachineProfile& machine) {
  int exact = 0;
  std::vector<std::string> others;
  for (const std::string& name : runs.names()) {
    const ReferenceRun& run = runs.run(name);
    const auto p = sim::predict(run.workload, machine, {run.workload.settings, {}, 4});
    if (!p) throw std::runtime_error(name + ": " + p.error().text());
    if (p->peaks == run.measured.peaks)
      ++exact;
    else
      others.push_back(
          fmt::format("`{}` (reserved {})", name, difference(p->peaks.reserved, run.measured.peaks.reserved)));
  }
  fmt::print("Each recording at its own settings: all four peaks exact in {} of {}{}{}.\n", exact,
             exact + others.size(), others.empty() ? "" : "; not in ", fmt::join(others, ", "));
}

int run(const std::string& folder) {
  ReferenceRuns runs(folder + "/runs");
  const auto machine = sim::builtin_profile("h200");
  if (!machine) throw std::runtime_error(machine.error().text());
  Totals gpu;
  Totals outside;  // host-bound: distance from the measured range
  Rankings rankings;
  int exact = 0;
  int clocked = 0;
  int pairs = 0;
  fmt::print(
      "| recording → settings of | predicted, ms | measured, ms | error | side | requested | allocated | active | "
      "reserved |\n|---|---|---|---|---|---|---|---|---|\n");
  for (const Pair& pair : read_pairs("tests/reference/pairs.txt")) {
    const Workload& workload = runs.run(pair.from).workload;
    const ReferenceRun& target = runs.run(pair.to);
    const auto p = sim::predict(workload, *machine, {target.workload.settings, {}, 4});
    if (!p) throw std::runtime_error(pair.from + " -> " + pair.to + ": " + p.error().text());
    const MeasuredRun& m = target.measured;
    const double error = 100 * (p->step_ms / m.median_ms - 1);
    print_row(pair, *p, m, error);
    if (pair.kind == "host")
      outside.add(100 * std::max({0.0, m.low_ms / p->step_ms - 1, p->step_ms / m.high_ms - 1}));
    else
      gpu.add(error);
    if (pair.kind != "host") rankings.add(pair.from, p->step_ms, m);
    ++pairs;
    exact += p->peaks == m.peaks ? 1 : 0;
    clocked += pair.kind == "record" ? 1 : 0;
  }
  fmt::print(
      "\nGPU- and link-bound: {} pairs, mean error {:.2f} %, worst {:.1f} %. Host-bound: {} pairs, at most {:.1f} % "
      "outside the measured range of ten steps. Memory: all four peaks exact to the byte in {} of {} pairs; {} of "
      "the others follow record_stream, where time decides.\n",
      gpu.count, gpu.mean(), gpu.worst, outside.count, outside.worst, exact, pairs, clocked);
  print_self(runs, *machine);
  fmt::print(
      "Ranking: of settings planned from one recording whose measured steps differ by more than 3 % and their spread, "
      "{} "
      "pairs are in the right order and {} are not.\n",
      rankings.right(), rankings.wrong());
  const std::time_t now = std::time(nullptr);
  char date[16] = {};
  std::strftime(date, sizeof date, "%Y-%m-%d", std::gmtime(&now));
  fmt::print(
      "Printed by `./dev accuracy` on {}; recorded on 4 × H200, PyTorch 2.11, NCCL 2.28.9. Measured: median of ten "
      "steps with nothing recording, in brackets the second smallest and second largest. Peaks: predicted against "
      "`torch.cuda.memory_stats()` of the fourth step.\n",
      date);
  return 0;
}

}  // namespace
}  // namespace foreshard::reference

int main() {
  const char* folder = std::getenv("FORESHARD_TRUTH");
  if (folder == nullptr) {
    fmt::print(stderr, "accuracy_table: set FORESHARD_TRUTH to the folder of the reference runs\n");
    return 77;
  }
  try {
    return foreshard::reference::run(folder);
  } catch (const std::exception& error) {
    fmt::print(stderr, "accuracy_table: {}\n", error.what());
    return 1;
  }
}
