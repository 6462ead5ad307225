#include "cli/source_options.hpp"

#include <fmt/ranges.h>

#include "cli/options.hpp"

namespace foreshard::cli {

void SourceOptions::add_to(CLI::App& app) {
  app.add_option("source", source.text,
                 "a run store, a preset (llama-8b, mlp, …), a config.json, a safetensors file or folder, or a workload "
                 "file")
      ->required()
      ->type_name("SOURCE");
  app.add_option("--dim", source.dim, "another width of a preset")->type_name("N")->check(CLI::PositiveNumber);
  app.add_option("--layers", source.layers, "another number of blocks of a preset")
      ->type_name("N")
      ->check(CLI::Range(1U, 10'000U));
  app.add_option("--dropout", source.dropout, "another dropout of torch-transformer (0.1); 0 where it shall really run")
      ->type_name("P")
      ->check(CLI::Range(0.0, 0.99));
  app.add_flag("--compile", source.compiled,
               "torch.compile of each block of a model; an estimate: its kernels are derived from the eager ones");
  app.add_option("--machine", machine,
                 fmt::format("machine profile: {}, or a profile file; default h200",
                             fmt::join(sim::builtin_profile_names(), ", ")))
      ->type_name("NAME|FILE");
}

Result<sim::MachineProfile> read_machine(const std::string& machine) {
  if (machine.find('.') == std::string::npos && machine.find('/') == std::string::npos)
    return sim::builtin_profile(machine);
  const auto text = read_text(machine);
  if (!text) return tl::unexpected(text.error());
  return sim::parse_profile(*text, machine);
}

}  // namespace foreshard::cli
