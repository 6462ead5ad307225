// Any variables ("NAME=value" by line) give a rank that fits its run, or an Error.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/check.hpp"
#include "gpu/bootstrap/environment.hpp"
#include "gpu/bootstrap/slurm_lists.hpp"

using namespace foreshard::gpu;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  (void)slurm_hosts(text);
  (void)slurm_tasks_per_node(text);
  Variables variables;
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t equals = line.find('=');
    if (equals != std::string_view::npos) variables.emplace(line.substr(0, equals), line.substr(equals + 1));
  }
  const auto e = read_environment(variables);
  if (!e) return 0;
  FORESHARD_CHECK(e->rank < e->ranks && e->local_rank < e->local_ranks && e->local_rank <= e->rank, "numbers");
  FORESHARD_CHECK(e->rank - e->local_rank + e->local_ranks <= e->ranks, "the host's ranks are consecutive");
  FORESHARD_CHECK(e->one_host() || !e->secret.empty() || !e->secret_file.empty(), "several hosts have a secret");
  FORESHARD_CHECK((e->port != 0 || e->ranks == 1) && !e->address.empty(), "the others can find it");
  return 0;
}
