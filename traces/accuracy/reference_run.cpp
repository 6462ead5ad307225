#include "traces/accuracy/reference_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/models/presets.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/import/import.hpp"
#include "traces/model_files/hf_config.hpp"
#include "traces/pytorch/about.hpp"
#include "traces/pytorch/json_object.hpp"

namespace foreshard::traces {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSnapshot = ".pickle.xz";
constexpr std::size_t kWarmUp = 2;       // steps before the measured ones
constexpr std::size_t kFewestSteps = 4;  // that have a second smallest and a second largest

Result<OrderedJson> read_object(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return fail(ErrorKind::input, "cannot be opened", path);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  auto json = parse_json(text, path);
  if (json && !json->is_object())
    return fail(ErrorKind::input, "an object is needed, this is " + describe(*json), path);
  return json;
}

tl::unexpected<Error> wrong(const std::string& path, std::string_view key, std::string what) {
  return fail(ErrorKind::input, std::move(what), fmt::format("{}, {}", path, key));
}

Result<Bytes> peak(const OrderedJson& step, const std::string& path, const std::string& key) {
  const auto it = step.find(key);
  if (it == step.end() || !it->is_number_unsigned()) return wrong(path, "memory_steps." + key, "no number of bytes");
  return it->get<Bytes>();
}

Result<MemoryPeaks> read_peaks(const OrderedJson& json, const std::string& path) {
  const auto steps = json.find("memory_steps");
  if (steps == json.end() || !steps->is_array() || steps->empty() || !steps->back().is_object())
    return wrong(path, "memory_steps", "the statistics of each recorded step are missing");
  MemoryPeaks peaks;
  const std::pair<const char*, Bytes MemoryPeaks::*> keys[] = {{"requested_bytes.all.peak", &MemoryPeaks::requested},
                                                               {"allocated_bytes.all.peak", &MemoryPeaks::allocated},
                                                               {"active_bytes.all.peak", &MemoryPeaks::active},
                                                               {"reserved_bytes.all.peak", &MemoryPeaks::reserved}};
  for (const auto& [key, member] : keys) {
    const auto value = peak(steps->back(), path, key);
    if (!value) return tl::unexpected(value.error());
    peaks.*member = *value;
  }
  return peaks;
}

Result<MeasuredRun> measured_of(const OrderedJson& json, const std::string& path) {
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
  out.median_ms = n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
  if (sorted.front() <= 0) return wrong(path, "step_ms", "a step takes more than 0 ms");
  const auto peaks = read_peaks(json, path);
  if (!peaks) return tl::unexpected(peaks.error());
  out.peaks = *peaks;
  return out;
}

std::string text_of(const OrderedJson& config, const char* key) {
  const auto it = config.find(key);
  return it == config.end() ? std::string() : it->dump();
}

/// What must be equal for one recording to stand for another's program.
std::string program_of(const OrderedJson& config, const Workload& workload) {
  std::string key = text_of(config, "model");
  if (key == "\"mlp\"" || key == "\"torch-transformer\"")
    key += ' ' + text_of(config, "dim") + ' ' + text_of(config, "layers");
  const Settings& s = workload.settings;
  return fmt::format("{} batch {} seq {} {}", key, s.batch.value_or(0), s.seq.value_or(0),
                     s.param_dtype ? name(*s.param_dtype) : "none");
}

Result<std::optional<ModelConfig>> model_of(const OrderedJson& json, const std::string& path,
                                            const std::string& about_path) {
  const auto config = json.find("config");
  if (config == json.end() || !config->is_object() || !config->contains("model") || !(*config)["model"].is_string())
    return wrong(path, "config.model", "the model's name is missing");
  const auto model = (*config)["model"].get<std::string>();
  std::string hf;  // the recording's own word comes first
  if (fs::exists(about_path)) {
    const auto about = read_about(about_path);
    if (!about) return tl::unexpected(about.error());
    hf = about->model_config;
  }
  if (hf.empty() && is_preset(model)) {
    PresetOverrides overrides;
    if (model == "mlp" || model == "torch-transformer") {  // the recorder's other models have one size
      const JsonObject object{*config, path + ", config"};
      const auto dim = object.count("dim", 1);
      const auto layers = object.count("layers", 1);
      if (!dim || !layers) return tl::unexpected(dim ? layers.error() : dim.error());
      overrides = {*dim, *layers};
    }
    auto found = preset(model, overrides);
    if (!found) return tl::unexpected(found.error());
    return std::optional(std::move(*found));
  }
  if (hf.empty()) return std::optional<ModelConfig>();
  auto file = parse_hf_config(hf, about_path + ", model_config", model);
  if (!file && file.error().kind == ErrorKind::usage) return std::optional<ModelConfig>();
  if (!file) return tl::unexpected(file.error());
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

Result<MeasuredRun> read_measured(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name + ".json";
  const auto json = read_object(path);
  if (!json) return tl::unexpected(json.error());
  return measured_of(*json, path);
}

Result<std::optional<ModelConfig>> model_of_run(const std::string& folder, const std::string& name) {
  const std::string path = folder + "/" + name + ".json";
  const auto json = read_object(path);
  if (!json) return tl::unexpected(json.error());
  return model_of(*json, path, folder + "/" + name + ".about.json");
}

Result<ReferenceRun> read_reference_run(const std::string& folder, const std::string& name) {
  const std::string base = folder + "/" + name;
  const auto json = read_object(base + ".json");
  if (!json) return tl::unexpected(json.error());
  ImportRequest request;
  request.snapshot = base + std::string(kSnapshot);
  request.about = base + ".about.json";
  if (fs::exists(base + ".trace.json.xz")) request.trace = base + ".trace.json.xz";
  auto imported = import_recording(request);
  if (!imported) return tl::unexpected(imported.error());
  if (!imported->workload) return fail(ErrorKind::mismatch, "the import made no workload", base);
  ReferenceRun run;
  run.name = name;
  run.workload = std::move(*imported->workload);
  auto measured = measured_of(*json, base + ".json");
  if (!measured) return tl::unexpected(measured.error());
  run.measured = std::move(*measured);
  auto model = model_of(*json, base + ".json", request.about);
  if (!model) return tl::unexpected(model.error());
  run.model = std::move(*model);
  run.program = program_of((*json)["config"], run.workload);
  return run;
}

}  // namespace foreshard::traces
