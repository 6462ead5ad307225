#include "core/models/embedding_and_head.hpp"

#include <utility>

#include "core/adapt/split_root.hpp"
#include "core/models/fsdp_section_costs.hpp"

namespace foreshard::model {

Result<void> wrap_embedding_and_head(Workload& workload, const HostCosts& host) {
  auto split = split_root(workload);
  if (!split) {
    Error error = split.error();
    error.where = "--fully-shard-embedding-and-head";
    return tl::unexpected(std::move(error));
  }
  workload = std::move(split->workload);
  workload.settings.fully_shard_embedding_and_head = true;
  auto sections = section_costs(workload, host);
  FORESHARD_TRY(sections);
  workload.sections = std::move(*sections);
  return {};
}

}  // namespace foreshard::model
