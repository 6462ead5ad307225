#include "cli/options/source_options.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "cli/options/fabric_option.hpp"
#include "cli/options/kept_calibration.hpp"
#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "core/models/presets.hpp"
#include "core/workload/workload_names.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/predict/predict.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::cli {
namespace {

constexpr std::string_view kDefaultMachine = "h200";
constexpr unsigned kLargestRank = 65'536;

/// "a,b" and "c": a, b, c. An empty word stays: it names nothing, and is refused as such.
std::vector<std::string> words_of(const std::vector<std::string>& texts) {
  std::vector<std::string> out;
  for (const std::string& text : texts)
    for (std::size_t from = 0; from <= text.size();) {
      const std::size_t comma = std::min(text.find(',', from), text.size());
      out.push_back(text.substr(from, comma - from));
      from = comma + 1;
    }
  return out;
}

}  // namespace

void SourceOptions::add_to(OptionSet& set) {
  set.add_option("source", source.text,
                 "a run store, a preset (llama-8b, mlp, …), a config.json, a safetensors file or folder, or a workload "
                 "file")
      .required()
      .type_name("SOURCE")
      .suggest(preset_names());
  set.add_option("--dim", source.dim, "another width of a preset").type_name("N").positive();
  set.add_option("--layers", source.layers, "another number of blocks of a preset").type_name("N").range(1U, 10'000U);
  set.add_option("--dropout", source.dropout, "another dropout of torch-transformer (0.1); 0 where it shall really run")
      .type_name("P")
      .range(0.0, 0.99);
  set.add_flag(
      "--compile", source.compiled,
      "torch.compile of each block of a model; of other models than plain Llamas an estimate, derived from the "
      "eager kernels");
  set.add_texts(
         "--freeze", [this](const std::vector<std::string>& texts) { source.frozen = words_of(texts); },
         "modules or parameters of a model that are not trained (requires_grad_(False)): names, or parts of them, "
         "with *, ? and ranges, as tok,layers.0-7 or *norm*",
         Values::all)
      .type_name("NAME,…");
  set.add_option("--lora", source.lora.rank,
                 "LoRA of this rank beside a model's linear layers, everything else frozen, as PEFT does it")
      .type_name("RANK")
      .range(1U, kLargestRank);
  set.add_texts(
         "--lora-targets", [this](const std::vector<std::string>& texts) { source.lora.targets = words_of(texts); },
         "which linear layers --lora is for (PEFT's target_modules): names or their ends, or all-linear; default: "
         "PEFT's, the projections to queries and values",
         Values::all)
      .type_name("NAME,…");
  set.add_option("--machine", machine,
                 fmt::format("machine profile: {}, or a profile file; default: the run store's, else h200",
                             fmt::join(sim::builtin_profile_names(), ", ")))
      .type_name("NAME|FILE")
      .suggest(sim::builtin_profile_names());
  set.add_option("--fabric", fabric, kFabricHelp).type_name("FABRIC");
  set.add_option("--topology", topology, kTopologyHelp).type_name("FILE");
}

Result<traces::Source> read_source(const SourceOptions& options, const Console& console) {
  traces::SourceRequest request = options.source;
  request.store.unverified = console.unverified;
  return traces::read_source(request);
}

bool is_profile_file(std::string_view machine) {
  return machine.find_first_of("./") != std::string_view::npos;
}

Result<std::string> profile_text(const std::string& machine) {
  if (is_profile_file(machine)) return traces::read_text(machine);
  return sim::builtin_profile_json(machine).map([](std::string_view json) { return std::string(json); });
}

Result<sim::MachineProfile> read_machine(const std::string& machine) {
  if (!is_profile_file(machine)) return sim::builtin_profile(machine);
  return profile_text(machine).and_then([&](const std::string& text) { return sim::parse_profile(text, machine); });
}

void SourceOptions::add_lowering_to(OptionSet& set) {
  set.add_text(
         "--lowering",
         [this](const std::string& text) -> Result<void> {
           source.lowering = parse_name<Lowering>(text);
           if (!source.lowering)
             return fail(ErrorKind::usage, fmt::format("one program is planned, pytorch or foreshard, not '{}'", text),
                         {}, "a list of both is none: give one after the other, and compare");
           return {};
         },
         "whose program is planned: pytorch (eager PyTorch's kernels and copies) or foreshard (what `foreshard run` "
         "issues); default: the run store's, else pytorch")
      .type_name("pytorch|foreshard")
      .suggest({"pytorch", "foreshard"});
}

std::string machine_note(const std::string& of_run) {
  if (of_run.empty() || sim::builtin_profile_json(of_run)) return {};
  return fmt::format("the run's machine '{}' is not built in: {} is taken; --machine FILE gives its profile", of_run,
                     kDefaultMachine);
}

std::string host_note(const std::string& of_run, Lowering lowering, const sim::MachineProfile& machine) {
  if (of_run.empty() || of_run == machine.name || lowering != Lowering::foreshard) return {};
  return fmt::format(
      "the host's work is what the run's machine '{}' says of it, not {}'s; plan from the model's name or "
      "config for that",
      of_run, machine.name);
}

std::string machine_named(const std::string& asked, const std::string& of_run) {
  if (!asked.empty()) return asked;
  return of_run.empty() || !machine_note(of_run).empty() ? std::string(kDefaultMachine) : of_run;
}

Result<sim::MachineProfile> machine_of(const std::string& asked, const std::string& of_run) {
  return read_machine(machine_named(asked, of_run));
}

Result<sim::MachineProfile> machine_for(const SourceOptions& options, traces::Source& source, Topology& topology,
                                        Console& console) {
  const std::string note = machine_note(source.machine);
  if (options.machine.empty() && !note.empty()) console.note("note: " + note);
  auto machine = machine_of(options.machine, source.machine);
  FORESHARD_TRY(machine);
  topology = {};
  if (!options.topology.empty()) {
    auto read = read_topology_file(options.topology, console);
    FORESHARD_TRY(read);
    topology = std::move(*read);
  } else if (Topology stored = stored_topology(source.topology); options.machine.empty() && note.empty()) {
    topology = std::move(stored);
  } else if (stored.given()) {
    console.note(fmt::format(
        "the plan's topology {} is left out, which was its own machine's: --topology FILE gives one", stored.file));
  }
  FORESHARD_TRY(put_on(*machine, topology));
  tell(topology, console);
  if (const std::string fabric = fabric_of(options, source); machine && !fabric.empty())
    FORESHARD_TRY(set_fabric(fabric, machine->network));
  else if (!topology.given())
    take_calibration(machine_named(options.machine, source.machine), source);
  if (machine)
    if (const std::string other = host_note(source.machine, source.lowering, *machine); !other.empty())
      console.warn(other);
  return machine;
}

bool machine_assumed(const SourceOptions& options, const traces::Source& source) {
  const bool named = source.machine != kDefaultMachine && sim::builtin_profile(source.machine);  // import --machine
  return source.recorded && options.machine.empty() && !named && !sim::builtin_profile_of(source.gpu);
}

std::string fabric_of(const SourceOptions& options, const traces::Source& source) {
  return options.fabric.empty() && options.machine.empty() ? source.fabric : options.fabric;
}

Result<std::optional<Bytes>> memory_limit_of(std::optional<Bytes> asked, std::optional<Bytes> planned,
                                             const std::string& asked_machine, const sim::MachineProfile& machine) {
  const Bytes most = sim::memory_options(machine).capacity;
  FORESHARD_TRY(sim::check_memory_limit(asked, machine));
  if (asked) return std::min(*asked, most);
  if (!planned || !asked_machine.empty() || *planned >= most) return std::nullopt;
  return sim::check_memory_limit(planned, machine) ? planned : std::nullopt;
}

}  // namespace foreshard::cli
