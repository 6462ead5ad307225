// What of a model is trained: frozen parameters, and LoRA's update layers among a family's parameters.
//
// FSDP2 gathers frozen parameters (requires_grad=False) as the others, never reduces them, and asks the trained ones
// alone for dtypes (FSDPParamGroup._init_mp_dtypes, PyTorch 2.11); autograd makes no node where nothing that goes in
// requires a gradient, and the optimizer is given the trained ones.
//
// Who: generate.cpp, wrapped_model.cpp. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/error.hpp"
#include "core/models/model_config.hpp"

namespace foreshard::model {

struct TrainedModel {
  /// Where one of the family's own parameters stands among those of `units`.
  struct Place {
    ParameterId id;
    ParameterId lora_a;  ///< invalid: no update beside it
    ParameterId lora_b;
  };
  std::vector<Unit> units;          ///< the family's, update layers behind their linear layer, requires_grad as trained
  std::vector<ParameterId> order;   ///< model.parameters()
  std::vector<Place> places;        ///< by the family's number
  std::size_t root_parameters = 0;  ///< of the family's
};

/// `units` and `order` as the family gives them. Fails (usage) where a pattern names nothing, LoRA's layers are not
/// linear ones or not known for the family, or nothing is left to train.
[[nodiscard]] Result<TrainedModel> trained_model(const ModelConfig& model, const std::vector<Unit>& units,
                                                 const std::vector<ParameterId>& order);

}  // namespace foreshard::model
