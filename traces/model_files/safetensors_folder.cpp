#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/base/strict_json.hpp"
#include "traces/files/text_file.hpp"
#include "traces/model_files/safetensors.hpp"

namespace foreshard::traces {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSuffix = ".safetensors";
constexpr std::string_view kIndexSuffix = ".safetensors.index.json";
constexpr Bytes kLargestIndex = 200'000'000;  // twice a header's most: names with their files

using Tensors = std::vector<StoredTensor>;

struct Folder {
  std::vector<std::string> files;    ///< names, sorted
  std::vector<std::string> indices;  ///< the same
};

Folder list(const std::string& path) {
  Folder folder;
  std::error_code error;
  for (fs::directory_iterator it(path, error), end; !error && it != end; it.increment(error)) {
    const std::string name = it->path().filename().string();
    if (name.ends_with(kIndexSuffix)) folder.indices.push_back(name);
    if (name.ends_with(kSuffix)) folder.files.push_back(name);
  }
  std::sort(folder.files.begin(), folder.files.end());
  std::sort(folder.indices.begin(), folder.indices.end());
  return folder;
}

/// "model-00002-of-00005.safetensors"
struct Part {
  std::string stem;
  std::uint32_t number = 0;
  std::uint32_t count = 0;
};

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::optional<Part> part_of(std::string_view file) {
  file.remove_suffix(kSuffix.size());
  const std::size_t of = file.rfind("-of-");
  if (of == std::string_view::npos || of == 0) return std::nullopt;
  const std::size_t dash = file.rfind('-', of - 1);
  if (dash == std::string_view::npos) return std::nullopt;
  const auto number = number_of(file.substr(dash + 1, of - dash - 1));
  const auto count = number_of(file.substr(of + 4));
  if (!number || !count) return std::nullopt;
  return Part{std::string(file.substr(0, dash)), *number, *count};
}

/// Files that count themselves must all be there.
Result<void> check_complete(const std::vector<std::string>& files, const std::string& folder) {
  std::map<std::pair<std::string, std::uint32_t>, std::uint32_t> found;
  for (const std::string& file : files)
    if (const auto part = part_of(file)) ++found[{part->stem, part->count}];
  for (const auto& [key, count] : found)
    if (count != key.second)
      return fail(ErrorKind::input,
                  fmt::format("{} of the {} files {}-…-of-{:05} are there", count, key.second, key.first, key.second),
                  folder, "download the checkpoint whole; its headers are enough");
  return {};
}

Result<Tensors> read_files(const std::vector<std::string>& files, const std::string& folder,
                           const std::map<std::string, std::string>* file_of) {
  Tensors all;
  std::map<std::string, std::string> seen;  // tensor, its file
  for (const std::string& file : files) {
    auto tensors = read_safetensors_header((fs::path(folder) / file).string());
    FORESHARD_TRY(tensors);
    for (StoredTensor& tensor : *tensors) {
      if (const auto [it, fresh] = seen.emplace(tensor.name, file); !fresh)
        return fail(ErrorKind::input,
                    fmt::format("the tensor '{}' is in {} and in {}", tensor.name.substr(0, 120), it->second, file),
                    folder, "name one file, or a folder with one checkpoint");
      if (file_of != nullptr) {
        const auto where = file_of->find(tensor.name);
        if (where == file_of->end() || where->second != file)
          return fail(ErrorKind::input,
                      fmt::format("the tensor '{}' of {} is not there in the index", tensor.name.substr(0, 120), file),
                      folder, "index and files are of different checkpoints");
      }
      all.push_back(std::move(tensor));
    }
  }
  if (file_of != nullptr)
    for (const auto& [tensor, file] : *file_of)
      if (!seen.contains(tensor))
        return fail(ErrorKind::input,
                    fmt::format("the index has the tensor '{}' in {}, the file does not", tensor.substr(0, 120), file),
                    folder, "index and files are of different checkpoints");
  return all;
}

Result<Tensors> read_indexed(const std::string& folder, const std::string& index) {
  const std::string path = (fs::path(folder) / index).string();
  const auto text = read_text(path, kLargestIndex);
  FORESHARD_TRY(text);
  const auto json = parse_strict_ordered_json(*text, path);
  FORESHARD_TRY(json);
  if (!json->is_object() || !json->contains("weight_map") || !json->at("weight_map").is_object())
    return fail(ErrorKind::input, "the object 'weight_map' is missing", path);
  std::map<std::string, std::string> file_of;
  std::vector<std::string> files;
  for (const auto& [tensor, file] : json->at("weight_map").items()) {
    if (!file.is_string()) return fail(ErrorKind::input, "a file name is needed", path + ", weight_map." + tensor);
    const auto name = file.get<std::string>();
    if (name.find('/') != std::string::npos || !name.ends_with(kSuffix))
      return fail(ErrorKind::input, fmt::format("'{}' is no safetensors file beside the index", name.substr(0, 120)),
                  path + ", weight_map." + tensor);
    file_of.emplace(tensor, name);
    files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return read_files(files, folder, &file_of);
}

}  // namespace

std::vector<std::string> safetensors_files(const std::string& folder) {
  const Folder found = list(folder);
  std::vector<std::string> paths;
  for (const auto* names : {&found.files, &found.indices})
    for (const std::string& name : *names) paths.push_back((fs::path(folder) / name).string());
  return paths;
}

bool has_safetensors(const std::string& folder) {
  const Folder found = list(folder);
  return !found.files.empty() || !found.indices.empty();
}

Result<Tensors> read_safetensors_folder(const std::string& folder) {
  const Folder found = list(folder);
  if (found.indices.size() > 1)
    return fail(ErrorKind::usage, fmt::format("has {} indices of safetensors files", found.indices.size()), folder,
                "name the folder of one checkpoint, or one file");
  if (found.indices.size() == 1) return read_indexed(folder, found.indices.front());
  if (found.files.empty()) return fail(ErrorKind::input, "has no safetensors file", folder);
  // A folder may hold the same weights once more as consolidated.safetensors; those of the library are "model…".
  std::vector<std::string> files;
  for (const std::string& file : found.files)
    if (file.starts_with("model")) files.push_back(file);
  if (files.empty()) files = found.files;
  FORESHARD_TRY(check_complete(files, folder));
  return read_files(files, folder, nullptr);
}

}  // namespace foreshard::traces
