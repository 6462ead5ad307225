// The headers of safetensors files: names, shapes and dtypes of a checkpoint's tensors. Weights are never read.
//
// The format is that of safetensors 0.6 (README.md, "Format"; tensor.rs, `Metadata::validate`): 8 bytes of header
// length (little endian), a JSON object of at most 100 MB, then the data; data_offsets follow one another without
// holes and cover the data to its end.
// Who: traces/workload_source. Reads files; deterministic; never throws.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"

namespace foreshard::traces {

inline constexpr std::uint64_t kLargestSafetensorsHeader = 100'000'000;  // safetensors 0.6: MAX_HEADER_SIZE

struct StoredTensor {
  std::string name;
  std::string dtype;  ///< the format's word: "F32", "BF16", "F8_E4M3", "U8", …
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

/// Tensors in the order of their data. `data_bytes`: what follows the header in the file. Refuses (input) whatever
/// the format refuses: unknown dtypes, negative or overflowing shapes, offsets that do not fit shape and dtype,
/// overlap, leave holes or pass the end of the data; a name that is there twice.
[[nodiscard]] Result<std::vector<StoredTensor>> parse_safetensors_header(const std::string& json,
                                                                         std::uint64_t data_bytes,
                                                                         const std::string& name);

/// Of one file.
[[nodiscard]] Result<std::vector<StoredTensor>> read_safetensors_header(const std::string& path);

/// Of a checkpoint in several files. With an index (`*.safetensors.index.json`) the files that it names, each
/// tensor where the index says; else every `*.safetensors` file of the folder, complete where their names count
/// ("model-00001-of-00004"). Fails where files or tensors are missing or there twice.
[[nodiscard]] Result<std::vector<StoredTensor>> read_safetensors_folder(const std::string& folder);

/// The folder's safetensors files and their indices, with the folder before their names; sorted.
[[nodiscard]] std::vector<std::string> safetensors_files(const std::string& folder);

/// Whether the folder has any file that read_safetensors_folder would read.
[[nodiscard]] bool has_safetensors(const std::string& folder);

/// A name as messages show it, cut at 120 characters: a header may hold anything.
[[nodiscard]] std::string shown(std::string_view name);

}  // namespace foreshard::traces
