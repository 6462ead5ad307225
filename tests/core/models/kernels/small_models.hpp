// Models of a few hundred parameters, whose programs run on the host in milliseconds.
#pragma once

#include "core/models/generate.hpp"
#include "core/models/presets.hpp"
#include "tests/catch.hpp"

namespace foreshard {

/// Of a plain family, with the heads and the vocabulary cut down as well.
inline ModelConfig small_model(std::string_view name, std::uint32_t kv_heads = 2) {
  ModelConfig model = *preset(name);
  model.layers = 2;
  model.dim = 16;
  model.ffn = model.family == ModelFamily::mlp ? 16 : 24;
  model.heads = model.family == ModelFamily::mlp ? 1 : 2;
  model.kv_heads = kv_heads;
  model.head_dim = 8;
  if (model.vocab > 0) model.vocab = 11;
  model.dropout = 0;
  return model;
}

inline Settings small_settings() {
  Settings s;
  s.batch = 2;
  s.seq = 5;
  return s;
}

inline Settings small_mixed() {
  Settings s = small_settings();
  s.param_dtype = DType::bfloat16;
  s.reduce_dtype = DType::float32;
  return s;
}

/// An mlp's inputs have no sequence.
inline Settings settings_for(const ModelConfig& model, Settings settings) {
  if (model.family == ModelFamily::mlp) settings.seq.reset();
  return settings;
}

inline Workload computing(const ModelConfig& model, const Settings& settings) {
  auto w = generate(model, settings_for(model, settings), {}, 132, true);
  REQUIRE(w);
  return std::move(*w);
}

}  // namespace foreshard
