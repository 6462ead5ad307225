#include "core/workload/embedding_table.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace foreshard {

bool is_embedding_table(const Parameter& parameter) {
  constexpr std::array<std::string_view, 14> kModules{"tok",
                                                      "tok_embeddings",
                                                      "embed_tokens",
                                                      "embed_tokens_per_layer",
                                                      "embed_positions",
                                                      "wte",
                                                      "wpe",
                                                      "emb",
                                                      "embed",
                                                      "word_embeddings",
                                                      "pos_embeddings",
                                                      "position_embeddings",
                                                      "embedding",
                                                      "embeddings"};
  if (parameter.shape.size() != 2) return false;
  std::string_view name = parameter.name;
  while (!name.empty()) {  // "layers.0.attention.wq.weight" has "wq"
    const std::size_t end = std::min(name.find('.'), name.size());
    if (std::find(kModules.begin(), kModules.end(), name.substr(0, end)) != kModules.end()) return true;
    name.remove_prefix(std::min(end + 1, name.size()));
  }
  return false;
}

}  // namespace foreshard
