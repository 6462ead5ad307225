// `foreshard run SOURCE [options]`: the same step on real GPUs, one process a GPU.

#include <memory>

#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/planning.hpp"
#include "cli/verbs/gpu_backend.hpp"
#include "cli/verbs/launcher.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/units.hpp"
#include "sim/predict/cuda_graph.hpp"

namespace foreshard::cli {
namespace {

const GpuBackend* g_backend = nullptr;  // set before main by foreshard-gpu, else null

/// Everything that can be wrong without a GPU is said before a process is started.
Result<std::uint32_t> ranks_of(const RunOptions& options, Console& console) {
  if (!options.output.empty()) FORESHARD_TRY(may_write(options.output, options.force));
  const auto planned = read_planned(options.source, options.setting_options, options.memory_limit, console);
  FORESHARD_TRY(planned);
  if (planned->settings.nodes > 1)
    return fail(ErrorKind::usage, "several nodes need a launcher that reaches them", {},
                "start one process a GPU with torchrun, srun or mpirun, and give all of them one FORESHARD_SECRET or "
                "FORESHARD_SECRET_FILE: torchrun --nnodes ... --no-python foreshard run ...");
  FORESHARD_TRY(sim::check_capturable(*planned->workload, planned->settings));
  return planned->settings.world();
}

Result<int> run(const RunOptions& options, Console& console) {
  if (!is_rank()) {
    const auto ranks = ranks_of(options, console);
    FORESHARD_TRY(ranks);
    return start_ranks(*ranks, console);
  }
  return gpu_backend() == nullptr ? become_rank() : gpu_backend()->run(options, console);
}

}  // namespace

const GpuBackend* gpu_backend() {
  return g_backend;
}

GpuRegistration::GpuRegistration(const GpuBackend& backend) {
  g_backend = &backend;
}

Action add_run(OptionSet& set) {
  auto options = std::make_shared<RunOptions>();
  options->source.add_to(set);
  add_parsed<Bytes>(set, "--memory-limit", options->memory_limit, &parse_bytes,
                    "what the caching allocator may take; default: a stored plan's, else the GPU's")
      .type_name("SIZE");
  set.add_option("-o,--output", options->output, "write the recorded steps of rank 0 to a store")
      .type_name("RUN")
      .writes();
  set.add_option("--name", options->name, "name of the run").type_name("NAME");
  set.add_option("--steps", options->steps, "timed steps; default 10").range(1, 4000);
  set.add_option("--warmup", options->warmup, "steps before them, in a pass of their own; default 3").range(2, 1000);
  set.add_option("--learning-rate", options->learning_rate,
                 "of the optimizer, where the workload computes; default 1e-5");
  set.add_option("--gradients", options->gradients,
                 "write the gradients of every timed step into this folder, a file a rank (slow: for checks)")
      .type_name("FOLDER")
      .writes();
  set.add_flag("--emulate", options->emulate,
               "kernels of the same shape, bytes and duration instead of the model's numbers");
  set.add_flag("--pace-host", options->pace_host,
               "issue as slowly as the machine profile's host does: PyTorch's, with the built-in profiles");
  set.add_flag("--record,!--no-record", options->record, "record steps with CUPTI after the timed ones; default on");
  set.add_flag("--force", options->force, "write over an existing store");
  set.add_flag("--json", options->json, "as JSON");
  options->setting_options.add_to(set);
  return [options](Console& console) {
    options->source.source.lowering = Lowering::foreshard;
    return run(*options, console);
  };
}

}  // namespace foreshard::cli
