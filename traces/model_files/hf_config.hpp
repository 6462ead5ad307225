// A Hugging Face `config.json` as a ModelConfig, for the families whose eager code is known.
//
// Keys and defaults are those of transformers 4.57 (configuration_llama.py, _mistral.py, _qwen2.py, _qwen3.py,
// _mixtral.py, _gpt2.py, configuration_utils.py). Keys that shape neither memory nor time (token ids, epsilons,
// rope_scaling, initializer_range) are passed over, as that library passes over what it does not know. Pure but for
// read_hf_config; never throws.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "traces/model_files/model_file.hpp"

namespace foreshard::traces {

/// "llama", "mistral", "qwen2", …
[[nodiscard]] std::span<const std::string_view> hf_model_types();

/// `name` stands for the file in messages; the model is called `model_name`, or what "_name_or_path" says.
/// ErrorKind::input: not JSON, a size that is missing, of the wrong type, out of range, or does not go with another
/// one; the message has the key. ErrorKind::usage: a model_type (or an activation) that no generator knows, with what
/// would work instead.
[[nodiscard]] Result<ModelFile> parse_hf_config(const std::string& text, const std::string& name,
                                                const std::string& model_name = {});
/// The same from a file of at most 4 MiB.
[[nodiscard]] Result<ModelFile> read_hf_config(const std::string& path, const std::string& model_name = {});

}  // namespace foreshard::traces
