#include "traces/workload_source/workload_source.hpp"

#include <fmt/format.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <iomanip>
#include <locale>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <system_error>

#include "core/base/digest.hpp"
#include "core/base/json_io.hpp"
#include "core/base/shell_word.hpp"
#include "core/base/suggest.hpp"
#include "core/models/presets.hpp"
#include "core/settings/settings_table.hpp"
#include "traces/files/read_file.hpp"
#include "traces/files/text_file.hpp"
#include "traces/model_files/checkpoint_model.hpp"
#include "traces/model_files/hf_config.hpp"
#include "traces/model_files/safetensors.hpp"
#include "traces/store/query.hpp"
#include "traces/store/store.hpp"
#include "traces/workload_file/workload_file.hpp"

namespace foreshard::traces {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kXz{
    "\xFD"
    "7zXZ",
    5};
constexpr std::string_view kGzip{"\x1F\x8B", 2};
constexpr std::string_view kZip{"PK\x03\x04", 4};
constexpr std::string_view kGguf = "GGUF";
constexpr Bytes kLargestText = kGiB;                          // no workload comes near it
constexpr std::size_t kLargestConfig = std::size_t{4} << 20;  // larger JSON is no config.json
constexpr std::string_view kKinds =
    "SOURCE is a run store (foreshard import … -o run.db), a preset, a config.json, a safetensors file or folder, or a "
    "workload file (docs/sources.md)";

Result<Source> of_workload(Result<Workload> workload) {
  FORESHARD_TRY(workload);
  Source source;
  source.name = workload->name;
  source.settings = workload->settings;
  source.lowering = workload->lowering;
  source.workload = std::make_shared<const Workload>(std::move(*workload));
  return source;
}

Source of_model(ModelFile file) {
  Source source;
  source.name = file.model.name;
  source.settings.batch = file.model.default_batch;
  source.settings.seq = file.model.default_seq;
  source.model = std::move(file.model);
  source.notes = std::move(file.notes);
  source.warnings = std::move(file.warnings);
  return source;
}

Result<Source> of_file(Result<ModelFile> file) {
  FORESHARD_TRY(file);
  return of_model(std::move(*file));
}

/// With the reason that its import gave.
tl::unexpected<Error> no_workload(const std::string& path, OpenOptions options) {
  std::string what = "the run store holds no workload to plan from: it was written without one";
  std::string hint = "explain, view, compare and query take it";
  const auto why = query(path,
                         "SELECT text, (SELECT count(*) FROM input WHERE role = 'snapshot') FROM import_stat WHERE "
                         "name = 'no_workload'",
                         {}, options);
  if (why && !why->rows.empty()) {
    if (const auto* text = std::get_if<std::string>(&why->rows.front()[0])) what = *text;
    const auto* snapshots = std::get_if<std::int64_t>(&why->rows.front()[1]);
    if (snapshots != nullptr && *snapshots == 0)
      hint = "import the same run's memory snapshot too (foreshard import --snapshot … --trace …); " + hint;
  }
  return fail(ErrorKind::input, std::move(what), path, std::move(hint));
}

/// What a plan's store says of its run beside the workload, which is the one that it was made from: what was asked for.
/// An executed run's settings are in the same place.
Result<void> add_question(const std::string& path, OpenOptions options, Source& source) {
  const auto settings = query(path, "SELECT key, value FROM settings ORDER BY id", {}, options);
  FORESHARD_TRY(settings);
  const auto text = [](const auto& cell) {
    const auto* found = std::get_if<std::string>(&cell);
    return found != nullptr ? *found : std::string();
  };
  for (const auto& row : settings->rows)
    if (const auto set = set_setting(source.settings, text(row[0]), text(row[1])); !set)
      return fail(ErrorKind::input, set.error().what, path, "write the store again with this foreshard");
  const auto results =
      query(path,
            "SELECT key, value FROM result WHERE key IN ('memory_capacity_bytes', 'fabric', "
            "'topology', 'model_options', 'job_options', 'hang', 'beside', 'ranks', 'trials', 'background_load', "
            "'flapping')",
            {}, options);
  FORESHARD_TRY(results);
  std::map<std::string, std::string> kept;
  for (const auto& row : results->rows) {
    const std::string key = text(row[0]);
    const nlohmann::json value = parse_json_text(text(row[1]));
    if (key == "memory_capacity_bytes" && value.is_number_unsigned()) source.memory_capacity = value.get<Bytes>();
    if (key == "fabric" && value.is_string()) source.fabric = value.get<std::string>();
    if (key == "topology" && value.is_object()) source.topology = text(row[1]);
    if (key == "model_options" && value.is_string()) source.model_options = value.get<std::string>();
    kept[key] = text(row[1]);
  }
  source.job_options = job_options(kept);
  source.store = path;
  source.preset = stored_preset(source.name, source.model_options);
  return {};
}

/// A row of from_store()'s question. Large values are read where they lie.
Result<Source> from_row(const std::vector<QueryValue>& row, const std::string& path, OpenOptions options) {
  const auto text = [&row](std::size_t column) {
    const auto* found = std::get_if<std::string>(&row[column]);
    return found != nullptr ? *found : std::string();
  };
  const std::string kind = text(2);
  const auto* json = std::get_if<std::string>(&row.front());
  if (json == nullptr) return fail(ErrorKind::input, "the workload is no text: the store is damaged", path);
  auto source = of_workload(stored_workload(*json, kind == "executed", path + " (workload)"));
  if (!source) return source;
  source->machine = text(1);
  source->gpu = text(3);
  source->recorded = kind == "imported";
  if (source->recorded && options.takes_kept_calibration()) {
    source->calibration = text(4);
    if (!source->calibration.empty()) source->stored_digest = digest_of(*json);
  }
  if (!source->recorded) FORESHARD_TRY(add_question(path, options, *source));
  return source;
}

Result<Source> from_store(const std::string& path, OpenOptions options) {
  std::optional<Result<Source>> source;
  const RowSink sink{[](const std::vector<std::string>&) {},
                     [&](const std::vector<QueryValue>& row) {
                       source = from_row(row, path, options);
                       return false;
                     }};
  FORESHARD_TRY(query_rows(path,
                           "SELECT json, (SELECT machine FROM run), (SELECT kind FROM run), (SELECT gpu FROM run), "
                           "(SELECT value FROM result "
                           "WHERE key = 'kept_calibration') FROM workload",
                           {}, sink, options));
  if (!source) return no_workload(path, options);
  if (*source && options.unverified)
    (*source)->warnings.push_back(path + " was read unverified (--unverified): it may be changed or damaged");
  return std::move(*source);
}

Result<Source> from_folder(const std::string& path) {
  const std::string config = (fs::path(path) / "config.json").string();
  std::error_code error;
  const bool has_config = fs::is_regular_file(config, error);
  if (!has_config && !has_safetensors(path))
    return fail(ErrorKind::input, "is a folder without a config.json and without safetensors files", path,
                std::string(kKinds));
  if (!has_config) return of_file(read_checkpoint(path));
  const std::string name = fs::weakly_canonical(path, error).filename().string();
  auto file = read_hf_config(config, name);
  // A family that no generator knows still has its parameters.
  if (file || file.error().kind != ErrorKind::usage || !has_safetensors(path)) return of_file(std::move(file));
  const std::string reason = file.error().what;
  auto source = of_file(read_checkpoint(path));
  if (source)
    source->warnings.insert(source->warnings.begin(),
                            "config.json: " + reason + "; the parameters are those of the safetensors headers");
  return source;
}

bool is_config(const std::string& path) {
  return fs::path(path).filename() == "config.json";
}

/// Not there: a name that was meant for a preset, or a path.
tl::unexpected<Error> missing(const std::string& text) {
  const std::string reason = std::generic_category().message(errno);
  std::error_code error;  // not known whether: a loop of links, a name that is too long
  if (fs::symlink_status(text, error).type() != fs::file_type::not_found ||
      text.find_first_of("/\\") != std::string::npos || text.find(".json") != std::string::npos)
    return fail(ErrorKind::input, "cannot be opened: " + reason, text, std::string(kKinds));
  const std::vector<std::string> names = preset_names();
  const std::vector<std::string_view> known(names.begin(), names.end());
  const auto near = nearest(text, known);
  return fail(ErrorKind::input, "is neither a file nor a preset", text,
              near ? "did you mean '" + *near + "'?" : fmt::format("presets: {}", fmt::join(names, ", ")));
}

bool looks_like_safetensors(const std::string& path, std::string_view start) {
  if (path.ends_with(".safetensors")) return true;
  // The eighth byte of the length is 0 for every header the format allows, and the header is an object.
  return start.size() >= 9 && start[7] == '\0' && start[6] == '\0' && start[8] == '{';
}

/// A config.json among JSON files: no workload has the key.
bool looks_like_config(const std::string& path, const std::string& text) {
  if (text.size() > kLargestConfig || text.find(kWorkloadFormat) != std::string::npos) return false;
  return is_config(path) || text.find("\"model_type\"") != std::string::npos;
}

/// A small JSON object that says nothing of what it is.
bool is_other_object(const std::string& text) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  return start != std::string::npos && text[start] == '{' && text.size() <= kLargestConfig &&
         text.find("\"format\"") == std::string::npos;
}

Result<Source> from_file(const std::string& path, OpenOptions options) {
  if (std::error_code error; fs::exists(path, error) && !fs::is_regular_file(path, error))
    return fail(ErrorKind::input, "is a pipe or a device, a file is needed", path);
  ReadFile file(path, FileKind::regular);
  if (!file) return missing(path);
  std::array<char, 16> head{};
  const std::string_view start(head.data(), file.read(head).value_or(0));
  if (starts_as_store(start)) return from_store(path, options);
  if (looks_like_safetensors(path, start)) return of_file(read_checkpoint(path));
  if (start.starts_with(kZip) || start.starts_with(kGguf))
    return fail(ErrorKind::usage, "is a checkpoint of another format", path,
                "give its config.json, or the same checkpoint as safetensors");
  if (start.starts_with(kXz) || start.starts_with(kGzip) || start.starts_with('\x80'))
    return fail(ErrorKind::usage, "is a recording, not a run", path,
                "import it first: foreshard import --snapshot … --trace … --about … -o run.db");
  const auto text = read_text(path, kLargestText);
  FORESHARD_TRY(text);
  if (const std::size_t first = text->find_first_not_of(" \t\r\n");
      first == std::string::npos || ((*text)[first] != '{' && (*text)[first] != '['))
    return fail(ErrorKind::input, "is no SOURCE: neither a run store nor JSON", path, std::string(kKinds));
  if (looks_like_config(path, *text)) return of_file(parse_hf_config(*text, path));
  if (is_other_object(*text))
    return fail(
        ErrorKind::input, "is neither a workload file nor a Hugging Face config.json", path,
        "a config.json has the key model_type; a workload file begins with {\"format\": \"foreshard workload\"");
  return of_workload(from_json(*text, path));
}

Result<Source> read_unchanged(const SourceRequest& request) {
  if (is_preset(request.text)) {
    auto model = preset(request.text, {request.dim, request.layers, request.dropout});
    FORESHARD_TRY(model);
    return of_model({std::move(*model), {}, {}});
  }
  if (request.dim || request.layers || request.dropout)
    return fail(ErrorKind::usage,
                fmt::format("{} is an option of presets", request.dim      ? "--dim"
                                                          : request.layers ? "--layers"
                                                                           : "--dropout"),
                {}, "change the model's own file");
  std::error_code error;
  return fs::is_directory(request.text, error) ? from_folder(request.text) : from_file(request.text, request.store);
}

/// The options that make another program of a model.
Result<void> change_model(const SourceRequest& request, Source& source) {
  if (request.lora.rank == 0 && !request.lora.targets.empty())
    return fail(ErrorKind::usage, "--lora-targets says where --lora puts its layers", {}, "add --lora RANK");
  const bool trains_less = request.lora.rank > 0 || !request.frozen.empty();
  if (trains_less && !source.model)
    return fail(ErrorKind::usage,
                fmt::format("{} changes what of a model is trained: a recording has its own",
                            request.lora.rank > 0 ? "--lora" : "--freeze"),
                request.text, "record that training, or plan from a preset or a config.json");
  if (request.compiled && (!source.model || source.model->family == ModelFamily::states_only))
    return fail(ErrorKind::usage, "--compile changes a model's kernels: a recording has its own", request.text,
                "record the compiled model, or plan from a preset or a config.json");
  if (!source.model) return {};
  source.model_options = model_options(request);
  source.model->compiled = request.compiled;
  source.model->frozen = request.frozen;
  source.model->lora = request.lora;
  return {};
}

}  // namespace

std::string model_options(const SourceRequest& request) {
  std::vector<std::string> words;
  const auto add = [&](std::string_view option, const std::string& value) {
    words.push_back(fmt::format("{} {}", option, shell_word(value)));
  };
  if (request.dim) add("--dim", std::to_string(*request.dim));
  if (request.layers) add("--layers", std::to_string(*request.layers));
  if (request.dropout) add("--dropout", fmt::format("{}", *request.dropout));
  if (request.compiled) words.emplace_back("--compile");
  if (!request.frozen.empty()) add("--freeze", fmt::format("{}", fmt::join(request.frozen, ",")));
  if (request.lora.rank > 0) add("--lora", std::to_string(request.lora.rank));
  if (!request.lora.targets.empty()) add("--lora-targets", fmt::format("{}", fmt::join(request.lora.targets, ",")));
  return fmt::format("{}", fmt::join(words, " "));
}

std::vector<std::string> left_out(const Source& source, const JobOptions& given) {
  const JobOptions options = not_given(source.job_options, given);
  if (options.empty()) return {};
  // Of a model's plan that is of no preset only the program of its own length is known.
  const bool lengths = find_option(options, "--lengths") != nullptr;
  const bool needs_model = lengths || find_option(options, "--rank-seq") != nullptr;
  return {fmt::format("{} was planned with {}, which is left out here{}: plan {} with the same to have it",
                      source.store, text_of(options), lengths ? ", so that all samples have one length" : "",
                      needs_model && !source.preset ? "the model itself" : "it")};
}

std::vector<std::string> source_files(const std::string& text) {
  std::error_code error;
  const bool folder = fs::is_directory(text, error);
  std::vector<std::string> files{text};
  if (!folder && !is_config(text) && !text.ends_with(".safetensors")) return files;
  const fs::path model = folder ? fs::path(text) : fs::path(text).parent_path();
  files.push_back((model / "config.json").string());
  for (std::string& file : safetensors_files(model.empty() ? "." : model.string())) files.push_back(std::move(file));
  return files;
}

namespace {

/// "a,b" as two.
std::vector<std::string> listed(const std::string& text) {
  std::vector<std::string> out;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) out.push_back(item);
  return out;
}

}  // namespace

std::optional<ModelConfig> stored_preset(const std::string& name, const std::string& options) {
  if (!is_preset(name)) return std::nullopt;
  SourceRequest request{name};
  std::istringstream words(options);
  for (std::string option, value; words >> option;) {
    if (option == "--compile") {
      request.compiled = true;
      continue;
    }
    if (!(words >> std::quoted(value, '\'', '\0'))) return std::nullopt;  // as shell_word() writes it, but for a quote
    std::istringstream number(value);
    number.imbue(std::locale::classic());
    const auto read = [&number](auto& out) { number >> out.emplace(); };
    if (option == "--dim") read(request.dim);
    if (option == "--layers") read(request.layers);
    if (option == "--dropout") read(request.dropout);
    if (option == "--freeze") request.frozen = listed(value);
    if (option == "--lora") number >> request.lora.rank;
    if (option == "--lora-targets") request.lora.targets = listed(value);
  }
  if (model_options(request) != options) return std::nullopt;  // said otherwise
  const auto source = read_source(request);
  return source ? source->model : std::nullopt;
}

Result<Source> read_source(const SourceRequest& request) {
  auto source = read_unchanged(request);
  if (source && request.lowering && *request.lowering != source->lowering) {
    source->lowering = *request.lowering;
    if (source->workload) {
      source->stored_lowering = source->workload->lowering;
      auto changed = std::make_shared<Workload>(*source->workload);
      changed->lowering = source->lowering;
      source->workload = std::move(changed);
      source->calibration.clear();
    }
  }
  if (source) FORESHARD_TRY(change_model(request, *source));
  return source;
}

}  // namespace foreshard::traces
