// Which parameters are looked up: the names that models have, whole, of matrices alone.
#include "core/workload/embedding_table.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

bool is_table(const char* name, std::vector<std::int64_t> shape = {100, 8}) {
  Parameter parameter;
  parameter.name = name;
  parameter.shape = std::move(shape);
  return is_embedding_table(parameter);
}

TEST_CASE("embedding tables of a checkpoint and of a recording go by the same names") {
  for (const char* name : {"tok_embeddings.weight", "model.embed_tokens.weight", "transformer.wte.weight", "wpe.weight",
                           "decoder.embed_positions.weight", "bert.embeddings.word_embeddings.weight", "tok.weight",
                           "embedding.weight", "model.embed_tokens_per_layer.weight"})
    CHECK(is_table(name));
}

TEST_CASE("parts of names, vectors and kernels of convolutions are no tables") {
  CHECK_FALSE(is_table("model.layers.0.newtext.weight"));
  CHECK_FALSE(is_table("time_embed_proj.weight"));
  CHECK_FALSE(is_table("embeddings.LayerNorm.weight", {8}));
  CHECK_FALSE(is_table("embeddings.patch_embeddings.projection.weight", {8, 3, 16, 16}));
}

}  // namespace
}  // namespace foreshard
