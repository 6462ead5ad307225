// A checkpoint's tensors as a model of which only the parameters are known (ModelFamily::states_only).
//
// Units: the outermost `layers.N.`, `layer.N.`, `h.N.`, `blocks.N.`, `block.N.`, `transformer_blocks.N.` or
// `single_transformer_blocks.N.` of a name is its block, as training scripts wrap them; everything else is the
// root's. Pure and deterministic.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "traces/model_files/model_file.hpp"
#include "traces/model_files/safetensors.hpp"

namespace foreshard::traces {

/// `name`: of the model; `where`: the file or folder, for messages. Refused (usage): quantised checkpoints (scales,
/// packed or 8-bit weights), adapters, scalars (fully_shard refuses them), files without any parameter. Counted in
/// the notes: buffers that are stored beside the parameters, fused projections, a head that is tied away.
[[nodiscard]] Result<ModelFile> states_model(const std::vector<StoredTensor>& tensors, const std::string& name,
                                             const std::string& where);

/// read_safetensors_header or _folder, then states_model. The model is called as the file or the folder.
[[nodiscard]] Result<ModelFile> read_checkpoint(const std::string& path);

}  // namespace foreshard::traces
