#include "traces/model_files/checkpoint_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>

namespace foreshard::traces {
namespace {

// Lists of blocks in transformers, diffusers, timm and torchtitan models.
constexpr std::array<std::string_view, 7> kBlockLists{
    "layers", "layer", "h", "blocks", "block", "transformer_blocks", "single_transformer_blocks"};

// Tensors that come with quantised weights: GPTQ and AWQ (qweight, qzeros, g_idx), bitsandbytes (SCB, absmax,
// quant_map, quant_state), compressed-tensors and DeepSeek's float8 (weight_scale, weight_scale_inv, input_scale).
constexpr std::array<std::string_view, 14> kQuantised{
    ".qweight",     ".qzeros",        ".g_idx",         ".scales",           ".SCB",
    ".absmax",      ".quant_map",     ".nested_absmax", ".weight_scale",     ".weight_scale_inv",
    ".input_scale", ".weight_packed", ".weight_shape",  ".weight_zero_point"};

// Buffers that old checkpoints store: rotary frequencies, causal masks (gpt2), position ids, batch norm's.
constexpr std::array<std::string_view, 7> kBuffers{".inv_freq",     ".masked_bias", "position_ids",
                                                   ".running_mean", ".running_var", ".num_batches_tracked",
                                                   ".causal_mask"};

constexpr std::array<std::string_view, 6> kFused{".qkv_proj.", ".gate_up_proj", ".query_key_value.",
                                                 ".c_attn.",   ".Wqkv.",        ".in_proj_weight"};

template <std::size_t N>
bool ends_with_any(std::string_view name, const std::array<std::string_view, N>& endings) {
  return std::any_of(endings.begin(), endings.end(), [&](std::string_view e) { return name.ends_with(e); });
}

std::optional<DType> floating(std::string_view word) {
  if (word == "F32") return DType::float32;
  if (word == "BF16") return DType::bfloat16;
  if (word == "F16") return DType::float16;
  if (word == "F64") return DType::float64;
  return std::nullopt;
}

bool is_buffer(const StoredTensor& tensor) {
  if (ends_with_any(tensor.name, kBuffers)) return true;
  // gpt2 stores its causal mask as h.N.attn.bias [1, 1, n, n].
  return tensor.name.ends_with(".attn.bias") && tensor.shape.size() == 4;
}

bool is_quantised(const StoredTensor& tensor) {
  if (ends_with_any(tensor.name, kQuantised) || tensor.name.find(".quant_state.") != std::string::npos) return true;
  if (tensor.dtype.starts_with("F8") || tensor.dtype.starts_with("F6") || tensor.dtype.starts_with("F4")) return true;
  return tensor.name.ends_with(".weight") && !floating(tensor.dtype);  // packed integers
}

/// Where a name belongs: the block list's place ("model.layers") and the number in it.
struct BlockPlace {
  std::string list;
  std::uint64_t number = 0;
  [[nodiscard]] std::string unit() const { return fmt::format("{}.{}", list, number); }
  auto operator<=>(const BlockPlace&) const = default;
};

std::optional<BlockPlace> block_of(std::string_view name) {
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t dot = name.find('.', begin);
    if (dot == std::string_view::npos) return std::nullopt;
    const std::string_view word = name.substr(begin, dot - begin);
    const std::size_t next = name.find('.', dot + 1);
    if (next != std::string_view::npos &&
        std::find(kBlockLists.begin(), kBlockLists.end(), word) != kBlockLists.end()) {
      const std::string_view digits = name.substr(dot + 1, next - dot - 1);
      std::uint64_t number = 0;
      const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
      if (error == std::errc() && end == digits.data() + digits.size())
        return BlockPlace{std::string(name.substr(0, dot)), number};
    }
    begin = dot + 1;
  }
  return std::nullopt;
}

Result<void> refuse_foreign(const std::vector<StoredTensor>& tensors, const std::string& where) {
  const auto count = std::count_if(tensors.begin(), tensors.end(), is_quantised);
  if (count > 0) {
    const auto first = std::find_if(tensors.begin(), tensors.end(), is_quantised);
    return fail(ErrorKind::usage,
                fmt::format("holds quantised weights ({} of {} tensors, as '{}' in {}), which are not trained with "
                            "fully_shard",
                            count, tensors.size(), shown(first->name), first->dtype),
                where, "give the checkpoint of the unquantised model");
  }
  const auto adapter = std::find_if(tensors.begin(), tensors.end(), [](const StoredTensor& t) {
    return t.name.find(".lora_A.") != std::string::npos || t.name.find(".lora_B.") != std::string::npos;
  });
  if (adapter != tensors.end())
    return fail(ErrorKind::usage, fmt::format("holds an adapter ('{}'), not a model", shown(adapter->name)), where,
                "give the checkpoint of the model itself");
  return {};
}

/// Sorts tensors into units and counts what is no parameter.
class Sorter {
 public:
  Result<void> add(const StoredTensor& tensor, const std::string& where) {
    const auto dtype = floating(tensor.dtype);
    if (is_buffer(tensor) || !dtype) {
      if (!dtype) integers_ = fmt::format("'{}' is {}", shown(tensor.name), shown(tensor.dtype));
      ++buffers_;
      return {};
    }
    if (tensor.shape.empty())
      return fail(ErrorKind::usage, fmt::format("the tensor '{}' is a scalar", shown(tensor.name)), where,
                  "fully_shard does not support scalar parameters: make it a tensor of shape [1]");
    if (tensor.bytes == 0) {
      ++empty_;
      return {};
    }
    fused_ += std::any_of(kFused.begin(), kFused.end(),
                          [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; });
    embedding_ |= tensor.name.ends_with("embed_tokens.weight") || tensor.name.ends_with("wte.weight");
    head_ |= tensor.name.ends_with("lm_head.weight") || tensor.name == "output.weight";
    ++types_[*dtype];
    Parameter parameter{tensor.name, tensor.shape, *dtype};
    if (const auto block = block_of(tensor.name))
      blocks_[*block].push_back(std::move(parameter));
    else
      root_.push_back(std::move(parameter));
    return {};
  }

  Result<ModelFile> finish(const std::string& name, const std::string& where) {
    if (types_.empty())
      return fail(ErrorKind::input,
                  integers_.empty()
                      ? std::string("holds no parameters")
                      : fmt::format("holds no parameters: {}, and only floating point is trained", integers_),
                  where);
    if (blocks_.empty())
      return fail(ErrorKind::usage, fmt::format("none of its {} parameters is in a block", root_.size()), where,
                  "blocks are told by names like model.layers.0.… or h.0.…");
    ModelFile file;
    file.model.name = name;
    file.model.family = ModelFamily::states_only;
    file.model.units.push_back({"", std::move(root_)});
    for (auto& [place, parameters] : blocks_) file.model.units.push_back({place.unit(), std::move(parameters)});
    file.model.layers = static_cast<std::uint32_t>(blocks_.size());
    file.model.dtype =
        std::max_element(types_.begin(), types_.end(), [](auto& a, auto& b) { return a.second < b.second; })->first;
    file.model.tied_embedding = embedding_ && !head_;
    add_notes(file);
    return file;
  }

 private:
  void add_notes(ModelFile& file) const {
    file.warnings.emplace_back(
        "only the parameters are known: memory holds parameters, gradients, optimizer states and FSDP2's buffers but "
        "no "
        "activations, and compute is estimated as 6 FLOP a parameter and token");
    if (buffers_ > 0) file.notes.push_back(fmt::format("{} tensors are buffers and are left out", buffers_));
    if (empty_ > 0) file.notes.push_back(fmt::format("{} tensors are empty and are left out", empty_));
    if (fused_ > 0)
      file.notes.push_back(fmt::format(
          "{} parameters are fused projections, taken as they are stored: each is one parameter of its unit", fused_));
    if (file.model.tied_embedding)
      file.notes.emplace_back("no output head is stored: taken as tied to the embedding, one parameter of the root");
  }

  std::vector<Parameter> root_;
  std::map<BlockPlace, std::vector<Parameter>> blocks_;
  std::map<DType, std::uint64_t> types_;
  std::uint64_t buffers_ = 0;
  std::string integers_;  ///< one of them that is no floating point
  std::uint64_t empty_ = 0;
  std::uint64_t fused_ = 0;
  bool embedding_ = false;
  bool head_ = false;
};

}  // namespace

Result<ModelFile> states_model(const std::vector<StoredTensor>& tensors, const std::string& name,
                               const std::string& where) {
  FORESHARD_TRY(refuse_foreign(tensors, where));
  Sorter sorter;
  for (const StoredTensor& tensor : tensors) FORESHARD_TRY(sorter.add(tensor, where));
  return sorter.finish(name, where);
}

Result<ModelFile> read_checkpoint(const std::string& path) {
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  auto tensors = folder ? read_safetensors_folder(path) : read_safetensors_header(path);
  FORESHARD_TRY(tensors);
  std::filesystem::path plain(path);
  if (folder && !plain.has_filename()) plain = plain.parent_path();
  return states_model(*tensors, folder ? plain.filename().string() : plain.stem().string(), path);
}

}  // namespace foreshard::traces
