// `foreshard probe -o machine.json`: measures this machine and writes the profile that plan reads.

#include <filesystem>
#include <memory>

#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/verbs/gpu_backend.hpp"
#include "cli/verbs/launcher.hpp"
#include "cli/verbs/verbs.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::cli {
namespace {

/// The driver's device files of GPUs: /dev/nvidia0, /dev/nvidia1, …
std::uint32_t gpus_of_this_host() {
  std::uint32_t count = 0;
  std::error_code error;
  while (std::filesystem::exists("/dev/nvidia" + std::to_string(count), error)) ++count;
  return count;
}

Result<int> probe(const ProbeOptions& options, Console& console) {
  if (is_rank()) return gpu_backend() == nullptr ? become_rank() : gpu_backend()->probe(options, console);
  FORESHARD_TRY(may_write(options.output, options.force));
  const std::uint32_t gpus = options.gpus != 0 ? options.gpus : gpus_of_this_host();
  if (gpus == 0)
    return fail(ErrorKind::skipped, "no NVIDIA GPU here: /dev/nvidia0 is missing", {},
                "probe runs on the machine that is to be measured; calibrate reads files that were measured elsewhere");
  return start_ranks(gpus, console);
}

}  // namespace

Action add_probe(OptionSet& set) {
  auto options = std::make_shared<ProbeOptions>();
  set.add_option("-o,--output", options->output, "the profile to write").required().type_name("FILE").writes();
  set.add_option("--gpus", options->gpus, "GPUs to measure with; default: all of this host")
      .type_name("N")
      .range(1U, 64U);
  set.add_option("--base", options->base, "built-in profile whose other constants stay; default h200")
      .type_name("NAME")
      .suggest(sim::builtin_profile_names());
  set.add_option("--name", options->name, "name of the new profile; default probed").type_name("NAME");
  set.add_flag("--contention,!--no-contention", options->contention,
               "kernels and collectives beside each other; default on");
  set.add_flag("--force", options->force, "write over an existing file");
  set.add_flag("--json", options->json, "what was measured, as JSON; the profile is in the file");
  return [options](Console& console) { return probe(*options, console); };
}

}  // namespace foreshard::cli
