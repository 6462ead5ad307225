// The parameters of a Hugging Face model's blocks, by name, and the order of model.parameters().
//
// Who: hf_decoder_family.cpp, hf_gpt2.cpp. Not for other rooms.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/error.hpp"
#include "core/models/family.hpp"

namespace foreshard::model {

/// The parameters of one block, in fully_shard's order, names below the block's.
class HfBlockParameters {
 public:
  /// `experts`: of one expert-parallel rank.
  void add(std::string name, std::vector<std::int64_t> shape, bool experts = false);
  /// NAME.weight and, where asked for, NAME.bias of an nn.Linear.
  void add_linear(const std::string& name, std::uint64_t out, std::uint64_t in, bool bias);

  [[nodiscard]] std::size_t size() const { return parameters_.size(); }
  [[nodiscard]] bool has(std::string_view name) const;
  /// Position of a parameter that is there.
  [[nodiscard]] std::size_t index(std::string_view name) const;
  /// The unit of block `number`: PREFIX.NUMBER and PREFIX.NUMBER.NAME.
  [[nodiscard]] Unit unit(std::string_view prefix, std::uint32_t number, DType dtype) const;

 private:
  std::vector<Parameter> parameters_;
};

/// model.parameters(): the first `before` of the root's, the blocks', the rest of the root's.
[[nodiscard]] std::vector<ParameterId> hf_parameters_order(std::size_t root, std::size_t before, std::size_t blocks);

}  // namespace foreshard::model
