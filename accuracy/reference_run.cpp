#include "accuracy/reference_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <numeric>

#include "core/base/median.hpp"
#include "core/base/strict_json.hpp"
#include "core/models/presets.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/files/text_file.hpp"
#include "traces/import/import.hpp"
#include "traces/model_files/hf_config.hpp"
#include "traces/pytorch/about.hpp"
#include "traces/pytorch/json_object.hpp"

namespace foreshard::accuracy {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSnapshot = ".pickle.xz";
constexpr std::size_t kWarmUp = Measured::kWarmUp;
constexpr std::size_t kFewestSteps = 4;  // that have a second smallest and a second largest

Result<traces::OrderedJson> read_object(const std::string& path) {
  const auto text = traces::read_text(path);
  FORESHARD_TRY(text);
  auto json = parse_strict_ordered_json(*text, path);
  if (json && !json->is_object())
    return fail(ErrorKind::input, "an object is needed, this is " + traces::describe(*json), path);
  return json;
}

tl::unexpected<Error> wrong(const std::string& path, std::string_view key, std::string what) {
  return fail(ErrorKind::input, std::move(what), fmt::format("{}, {}", path, key));
}

Result<Bytes> peak(const traces::OrderedJson& step, const std::string& path, const std::string& key) {
  const auto it = step.find(key);
  if (it == step.end() || !it->is_number_unsigned()) return wrong(path, "memory_steps." + key, "no number of bytes");
  return it->get<Bytes>();
}

Result<MemoryPeaks> read_peaks(const traces::OrderedJson& step, const std::string& path) {
  if (!step.is_object()) return wrong(path, "memory_steps", "the statistics of each recorded step are missing");
  MemoryPeaks peaks;
  const std::pair<const char*, Bytes MemoryPeaks::*> keys[] = {{"requested_bytes.all.peak", &MemoryPeaks::requested},
                                                               {"allocated_bytes.all.peak", &MemoryPeaks::allocated},
                                                               {"active_bytes.all.peak", &MemoryPeaks::active},
                                                               {"reserved_bytes.all.peak", &MemoryPeaks::reserved}};
  for (const auto& [key, member] : keys) {
    const auto value = peak(step, path, key);
    FORESHARD_TRY(value);
    peaks.*member = *value;
  }
  return peaks;
}

Result<std::vector<MemoryPeaks>> read_recorded(const traces::OrderedJson& json, const std::string& path) {
  const auto steps = json.find("memory_steps");
  if (steps == json.end() || !steps->is_array() || steps->empty())
    return wrong(path, "memory_steps", "the statistics of each recorded step are missing");
  std::vector<MemoryPeaks> out;
  for (const auto& step : *steps) {
    const auto peaks = read_peaks(step, path);
    if (&step == &steps->back()) FORESHARD_TRY(peaks);
    out.push_back(peaks.value_or(MemoryPeaks{}));
  }
  return out;
}

Result<MeasuredRun> measured_of(const traces::OrderedJson& json, const std::string& path) {
  MeasuredRun out;
  const auto steps = json.find("step_ms");
  const bool numbers = steps != json.end() && steps->is_array() &&
                       std::all_of(steps->begin(), steps->end(), [](const auto& s) { return s.is_number(); });
  if (!numbers || steps->size() < kWarmUp + kFewestSteps)
    return wrong(path, "step_ms", fmt::format("at least {} times of steps are needed", kWarmUp + kFewestSteps));
  for (std::size_t i = kWarmUp; i < steps->size(); ++i) out.step_ms.push_back((*steps)[i].get<double>());
  std::vector<double> sorted = out.step_ms;
  std::sort(sorted.begin(), sorted.end());
  const std::size_t n = sorted.size();
  out.low_ms = sorted[1];
  out.high_ms = sorted[n - 2];
  out.median_ms = median(sorted);
  if (sorted.front() <= 0) return wrong(path, "step_ms", "a step takes more than 0 ms");
  auto recorded = read_recorded(json, path);
  FORESHARD_TRY(recorded);
  out.recorded = std::move(*recorded);
  out.peaks = out.recorded.back();
  if (const auto end = json.find("peak_reserved_end"); end != json.end() && end->is_number_unsigned())
    out.reserved_at_end = end->get<Bytes>();
  return out;
}

std::string text_of(const traces::OrderedJson& config, const char* key) {
  const auto it = config.find(key);
  return it == config.end() ? std::string() : it->dump();
}

/// A number of "config", 0 where the recorder did not know the option yet.
std::int64_t option(const traces::OrderedJson& config, const char* key, std::int64_t absent = 0) {
  const auto it = config.find(key);
  return it != config.end() && it->is_number_integer() ? it->get<std::int64_t>() : absent;
}

constexpr std::int64_t kNoRank = -1;  // of "slow_rank"

/// What must be equal for one recording to stand for another's program: the model with its parameters' shapes, the
/// sizes of a batch, and what no setting changes.
std::string program_of(const traces::OrderedJson& config, const Workload& workload) {
  std::vector<std::string> shapes;
  for (const Unit& unit : workload.units)
    for (const Parameter& p : unit.parameters) shapes.push_back(fmt::format("{}", fmt::join(p.shape, "x")));
  std::sort(shapes.begin(), shapes.end());
  std::string key = fmt::format("{} {}", text_of(config, "model"), fmt::join(shapes, " "));
  for (const char* fixed : {"lora", "freeze", "tp", "compile", "vary"})
    key += fmt::format(" {} {}", fixed, option(config, fixed));
  key += fmt::format(" slow {}", option(config, "slow_rank", kNoRank));
  const Settings& s = workload.settings;
  return fmt::format("{} batch {} seq {} {}", key, s.batch.value_or(0), s.seq.value_or(0),
                     s.param_dtype ? name(*s.param_dtype) : "none");
}

/// The recorder's models of one size have its defaults of "dim" and "layers", which say nothing.
bool has_own_size(ModelFamily family) {
  return family == ModelFamily::mlp || family == ModelFamily::torch_transformer;
}

/// `program` in a few words: the model, what is trained of it and how, and the sizes of a batch.
std::string program_name_of(const traces::OrderedJson& config, const Workload& workload, const std::string& model) {
  std::string text = model;
  for (const char* key : {"dim", "layers"})
    if (const auto usual = preset(model); usual && has_own_size(usual->family))
      text += fmt::format(" {} {}", key, option(config, key));
  for (const char* fixed : {"lora", "freeze", "tp", "compile", "vary"})
    if (const std::int64_t value = option(config, fixed); value != 0) text += fmt::format(" {} {}", fixed, value);
  if (const std::int64_t rank = option(config, "slow_rank", kNoRank); rank != kNoRank)
    text += fmt::format(" slow rank {}", rank);
  const Settings& s = workload.settings;
  return text + fmt::format(" {}x{}", s.batch.value_or(0), s.seq.value_or(0));
}

/// What the run's own options say that its model and settings do not.
void add_beyond(const traces::OrderedJson& config, ReferenceRun& run) {
  if (option(config, "vary") != 0) run.beyond_model = "sequence lengths change from step to step";
  if (const std::int64_t rank = option(config, "slow_rank", kNoRank); rank != kNoRank)
    run.beyond_model = fmt::format("rank {} computes more than the others", rank);
}

/// What the recorder's options change of a preset: compiled blocks, LoRA of wq and wv, the embedding and the first
/// blocks frozen.
void add_trained(const traces::OrderedJson& config, ModelConfig& model) {
  model.compiled = option(config, "compile") != 0;
  model.lora.rank = static_cast<std::uint32_t>(std::clamp<std::int64_t>(option(config, "lora"), 0, UINT32_MAX));
  if (model.lora.rank > 0) model.lora.targets = {"wq", "wv"};
  if (const std::int64_t blocks = option(config, "freeze"); blocks > 0)
    model.frozen = {"tok", fmt::format("layers.0-{}", blocks - 1)};
}

Result<std::optional<ModelConfig>> model_of(const traces::OrderedJson& json, const std::string& path,
                                            const std::string& about_path) {
  const auto config = json.find("config");
  if (config == json.end() || !config->is_object() || !config->contains("model") || !(*config)["model"].is_string())
    return wrong(path, "config.model", "the model's name is missing");
  const auto model = (*config)["model"].get<std::string>();
  std::string hf;  // the recording's own word comes first
  if (std::error_code error; fs::exists(about_path, error)) {
    const auto about = traces::read_about(about_path);
    FORESHARD_TRY(about);
    hf = about->model_config;
  }
  if (hf.empty() && is_preset(model)) {
    PresetOverrides overrides;
    const auto usual = preset(model);
    if (usual && has_own_size(usual->family)) {
      const traces::JsonObject object{*config, path + ", config"};
      const auto dim = object.count("dim", 1);
      const auto layers = object.count("layers", 1);
      if (!dim || !layers) return tl::unexpected(dim ? layers.error() : dim.error());
      overrides = {*dim, *layers};
    }
    auto found = preset(model, overrides);
    FORESHARD_TRY(found);
    add_trained(*config, *found);
    return std::optional(std::move(*found));
  }
  if (hf.empty()) return std::optional<ModelConfig>();
  auto file = traces::parse_hf_config(hf, about_path + ", model_config", model);
  if (!file && file.error().kind == ErrorKind::usage) return std::optional<ModelConfig>();
  FORESHARD_TRY(file);
  return std::optional(std::move(file->model));
}

}  // namespace

Result<std::vector<std::string>> reference_run_names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (file.size() > kSnapshot.size() && file.ends_with(kSnapshot))
      names.push_back(file.substr(0, file.size() - kSnapshot.size()));
  }
  if (error) return fail(ErrorKind::input, "cannot be read: " + error.message(), folder);
  std::sort(names.begin(), names.end());
  return names;
}

void take_cycles(MeasuredRun& run, std::size_t cycle) {
  std::vector<double> means;
  for (std::size_t first = 0; first + cycle <= run.step_ms.size(); ++first) {
    const auto begin = run.step_ms.begin() + static_cast<std::ptrdiff_t>(first);
    means.push_back(std::accumulate(begin, begin + static_cast<std::ptrdiff_t>(cycle), 0.0) /
                    static_cast<double>(cycle));
  }
  if (means.size() < kFewestSteps) return;
  std::sort(means.begin(), means.end());
  run.low_ms = means[1];
  run.high_ms = means[means.size() - 2];
  const auto whole = static_cast<std::ptrdiff_t>(run.step_ms.size() / cycle * cycle);
  run.median_ms = std::accumulate(run.step_ms.end() - whole, run.step_ms.end(), 0.0) / static_cast<double>(whole);
}

Result<MeasuredRun> read_measured(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name + ".json";
  const auto json = read_object(path);
  FORESHARD_TRY(json);
  return measured_of(*json, path);
}

Result<std::optional<ModelConfig>> model_of_run(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name + ".json";
  const auto json = read_object(path);
  FORESHARD_TRY(json);
  return model_of(*json, path, folder + "/" + name + ".about.json");
}

Result<ReferenceRun> read_reference_run(const std::string& folder, const std::string& name) {
  const std::string base = folder + "/" + name;
  const auto json = read_object(base + ".json");
  FORESHARD_TRY(json);
  ReferenceRun run;
  run.name = name;
  auto measured = measured_of(*json, base + ".json");
  FORESHARD_TRY(measured);
  run.measured = std::move(*measured);
  const auto config = json->find("config");
  if (config == json->end() || !config->is_object() || !config->contains("model") || !(*config)["model"].is_string())
    return wrong(base + ".json", "config.model", "the model's name is missing");
  run.model_name = (*config)["model"].get<std::string>();
  traces::ImportRequest request;
  request.snapshot = base + std::string(kSnapshot);
  request.about = base + ".about.json";
  std::error_code error;
  for (const char* trace : {".trace.json.xz", ".rank0.trace.json.xz"})
    if (request.trace.empty() && fs::exists(base + trace, error)) request.trace = base + trace;
  auto imported = import_recording(request);
  if (!imported) {
    run.not_importable = imported.error().what;
    return run;
  }
  if (!imported->workload) return fail(ErrorKind::mismatch, "the import made no workload", base);
  run.workload = std::move(*imported->workload);
  if (run.workload.cycle > 1) take_cycles(run.measured, run.workload.cycle);
  add_beyond(*config, run);
  constexpr std::uint32_t kBeforeCapture = 3;  // the recorder's, behind the steps that it records
  if (option(*config, "graph") != 0 && !run.workload.settings.cuda_graph)
    run.graph = CudaGraph{static_cast<std::uint32_t>(std::clamp<std::int64_t>(option(*config, "steps"), 0, 16)),
                          kBeforeCapture};
  auto model = model_of(*json, base + ".json", request.about);
  FORESHARD_TRY(model);
  run.model = std::move(*model);
  run.program = program_of(*config, run.workload);
  run.program_name = program_name_of(*config, run.workload, run.model_name);
  return run;
}

}  // namespace foreshard::accuracy
