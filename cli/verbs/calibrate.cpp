// `foreshard calibrate FILES`: a machine profile from what was measured on the machine.

#include <fmt/core.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/options/option_set.hpp"
#include "cli/options/options.hpp"
#include "cli/options/source_options.hpp"
#include "cli/terminal/output.hpp"
#include "cli/terminal/version.hpp"
#include "cli/verbs/verbs.hpp"
#include "core/base/json_io.hpp"
#include "core/base/suggest.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/calibrate/capture_sample.hpp"
#include "sim/calibrate/fit_machine.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/host_scale.hpp"
#include "traces/files/text_file.hpp"
#include "traces/import/file_digest.hpp"
#include "traces/store/store.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::cli {
namespace {

struct CalibrateOptions {
  std::vector<std::string> files;
  std::string output;
  std::string base = "h200";
  std::string name;
  std::string transport = "nccl";
  bool force = false;
  bool json = false;
};

/// A run store: gaps of the imported device ops, and the host factor where it has a workload.
Result<sim::Measurements> read_store(const std::string& path, const sim::MachineProfile& base,
                                     traces::OpenOptions open) {
  const auto run = traces::read_run(path, open);
  FORESHARD_TRY(run);
  if (run->info.kind == RunKind::planned)
    return fail(ErrorKind::input, "is a prediction, not a measurement", path, "give a store that import wrote");
  sim::Measurements out;
  out.format = "run store";
  out.gpu = run->info.gpu;
  out.capture = sim::capture_sample(*run);
  if (run->workload_json.empty()) {
    out.note("runs without a workload: no host factor");
    return out;
  }
  const auto workload = traces::from_json(run->workload_json, path);
  FORESHARD_TRY(workload);
  if (!workload->has_timing || !workload->measured || workload->measured->step_ms.empty()) {
    out.note("runs without unprofiled step times: no host factor");
    return out;
  }
  const auto found = sim::find_host_scale(*workload, base);
  FORESHARD_TRY(found);
  if (found->source != sim::HostScale::Source::none) out.capture->host_scale = found->factor;
  return out;
}

Result<sim::Measurements> read_input(const std::string& path, const sim::MachineProfile& base,
                                     const sim::ReadOptions& options, traces::OpenOptions open) {
  auto read = [&]() -> Result<sim::Measurements> {
    if (traces::is_store(path)) return read_store(path, base, open);
    const auto text = traces::read_text(path);
    FORESHARD_TRY(text);
    return sim::read_measurements(*text, path, options);
  }();
  if (!read) return read;
  const auto digest = traces::file_digest(path);
  FORESHARD_TRY(digest);
  read->path = path;
  read->digest = digest->text;
  read->size = digest->bytes;
  return read;
}

Result<Transport> transport_of(const std::string& word) {
  const auto words = EnumNames<Transport>::kNames;
  for (std::size_t i = 0; i < words.size(); ++i)
    if (words[i] == word) return static_cast<Transport>(i);
  return fail(ErrorKind::usage, fmt::format("unknown transport '{}'", word), {}, suggestion(word, words));
}

Json inputs_json(std::span<const sim::Measurements> inputs) {
  Json json = Json::array();
  for (const sim::Measurements& input : inputs) {
    Json notes = Json::array();
    for (const sim::InputNote& note : input.notes) notes.push_back({{"count", note.count}, {"text", note.text}});
    json.push_back({{"bytes", input.size},
                    {"digest", input.digest},
                    {"format", input.format},
                    {"notes", notes},
                    {"path", input.path},
                    {"samples", input.samples()}});
  }
  return json;
}

Json residuals_json(std::span<const sim::Residual> residuals) {
  Json json = Json::array();
  for (const sim::Residual& r : residuals)
    json.push_back({{"mean", r.mean}, {"model", r.model}, {"points", r.points}, {"what", r.what}, {"worst", r.worst}});
  return json;
}

Json covers_json(const sim::ValidRange& valid_range) {
  Json json;
  const auto range = [&](const char* key, const auto& limits) {
    if (limits) json[key] = {limits->least, limits->most};
  };
  const auto words = [&](const char* key, const auto& list, const auto& word) {
    for (const auto& one : list) json[key].push_back(word(one));
  };
  range("bytes", valid_range.bytes);
  words("dtypes", valid_range.dtypes, [](DType dtype) { return name(dtype); });
  words("kernels", valid_range.kernels, [](KernelClass kernel) { return dashed_name(kernel); });
  range("nodes", valid_range.nodes);
  range("ranks", valid_range.ranks);
  json["source"] = valid_range.source;
  words("transports", valid_range.transports, [](Transport transport) { return name(transport); });
  return json;
}

Json as_json(const CalibrateOptions& options, std::span<const sim::Measurements> inputs, const sim::MachineFit& fit) {
  Json json = json_result("calibrate");
  json["output"] = options.output;
  json["base"] = options.base;
  json["tables"] = fit.tables;
  json["constants"] = Json::array();
  for (const sim::FittedConstant& c : fit.constants)
    json["constants"].push_back({{"place", c.place},
                                 {"unit", c.unit},
                                 {"before", c.before},
                                 {"after", c.after},
                                 {"samples", c.samples},
                                 {"source", c.source}});
  json["inputs"] = inputs_json(inputs);
  json["residuals"] = residuals_json(fit.residuals);
  json["covers"] = covers_json(fit.machine.valid_range);
  json["notes"] = fit.notes;
  return json;
}

std::string percent(double share) {
  return fmt::format("{:.1f} %", share * 100);
}

void print_tables(Console& console, const CalibrateOptions& options, std::span<const sim::Measurements> inputs,
                  const sim::MachineFit& fit) {
  constexpr auto kRight = Table::Align::right;
  Table read({{"read"}, {"as"}, {"samples", kRight}});
  for (const sim::Measurements& input : inputs) read.row({input.path, input.format, std::to_string(input.samples())});
  read.print(console.out);
  if (!fit.constants.empty()) {
    Table constants({{"constant"}, {"before", kRight}, {"after", kRight}, {"unit"}, {"samples", kRight}});
    for (const sim::FittedConstant& c : fit.constants)
      constants.row({c.place, fmt::format("{:.4g}", c.before), fmt::format("{:.4g}", c.after), c.unit,
                     std::to_string(c.samples)});
    console.out << '\n';
    constants.print(console.out);
  }
  if (!fit.residuals.empty()) {
    Table residuals({{"residual of"}, {"predicted by"}, {"points", kRight}, {"mean", kRight}, {"worst", kRight}});
    for (const sim::Residual& r : fit.residuals)
      residuals.row({r.what, r.model, std::to_string(r.points), percent(r.mean), percent(r.worst)});
    console.out << '\n';
    residuals.print(console.out);
  }
  console.out << fmt::format("\nwritten: {}, {} tables and {} constants over {}\n", options.output, fit.tables,
                             fit.constants.size(), options.base);
}

Result<int> calibrate_machine(CalibrateOptions& options, Console& console) {
  FORESHARD_TRY(may_write(options.output, options.force));
  sim::FitRequest request{options.name, options.base, {}};
  const auto base_json = profile_text(options.base);
  FORESHARD_TRY(base_json);
  if (is_profile_file(options.base)) request.base_json = *base_json;
  const auto base = sim::parse_profile(*base_json, options.base);
  FORESHARD_TRY(base);
  if (request.name.empty()) request.name = base->name + "-calibrated";
  const auto transport = transport_of(options.transport);
  FORESHARD_TRY(transport);
  std::vector<sim::Measurements> inputs;
  for (const std::string& path : options.files) {
    auto input = read_input(path, *base, {*transport}, {console.unverified});
    FORESHARD_TRY(input);
    for (const sim::InputNote& note : input->notes)
      console.note(fmt::format("note: {}: {} ({} times)", path, note.text, note.count));
    inputs.push_back(std::move(*input));
  }
  const auto fit = sim::fit_machine(inputs, request);
  FORESHARD_TRY(fit);
  for (const std::string& note : fit->notes) console.note("note: " + note);
  FORESHARD_TRY(write_text(options.output, fit->json + "\n", options.force));
  if (options.json)
    print_json(console.out, as_json(options, inputs, *fit));
  else
    print_tables(console, options, inputs, *fit);
  return kDone;
}

}  // namespace

Action add_calibrate(OptionSet& set) {
  auto options = std::make_shared<CalibrateOptions>();
  set.add_option("files", options->files,
                 "probe files, output of nccl-tests (text or -J), NCCL_TOPO_DUMP_FILE's XML, run stores of import")
      .required()
      .type_name("FILE");
  set.add_option("-o,--output", options->output, "the profile to write").required().type_name("FILE").writes();
  set.add_option("--base", options->base, "profile whose other constants stay: a built-in name or a file; default h200")
      .type_name("NAME|FILE")
      .suggest(sim::builtin_profile_names());
  set.add_option("--name", options->name, "name of the new profile; default: the base's and -calibrated")
      .type_name("NAME");
  set.add_option("--transport", options->transport,
                 "what nccl-tests' text measured, which does not say: nccl, nccl-registered (-R 1), symmetric (-R 2), "
                 "copy-engine (-R 2 -x 2); default nccl")
      .type_name("NAME");
  set.add_flag("--force", options->force, "write over an existing file");
  set.add_flag("--json", options->json, "what was fitted, as JSON; the profile is in the file");
  return [options](Console& console) { return calibrate_machine(*options, console); };
}

}  // namespace foreshard::cli
