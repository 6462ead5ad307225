#include "gpu/bootstrap/environment.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "core/base/units.hpp"
#include "gpu/bootstrap/proof.hpp"
#include "gpu/bootstrap/slurm_lists.hpp"

namespace foreshard::gpu {
namespace {

constexpr std::uint32_t kMaxRanks = 65'536;
constexpr std::uint32_t kDefaultPort = 29'600;
constexpr std::size_t kLongestText = 1024;

/// The four numbers of one launcher's ranks; the last two may be empty where they come from elsewhere (Slurm).
struct Names {
  std::string_view launcher, rank, ranks, local_rank, local_ranks;
};

constexpr std::array kLaunchers{
    Names{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    Names{"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
          "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Names{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
    Names{"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""},
};

const std::string* find(const Variables& variables, std::string_view name) {
  const auto found = name.empty() ? variables.end() : variables.find(std::string(name));
  return found == variables.end() || found->second.empty() ? nullptr : &found->second;
}

tl::unexpected<Error> unusable(std::string what, std::string hint = {}) {
  return fail(ErrorKind::usage, std::move(what), "environment", std::move(hint));
}

Result<std::uint32_t> read_number(const Variables& variables, std::string_view name, std::string_view launcher) {
  const std::string* text = find(variables, name);
  if (text == nullptr)
    return unusable(fmt::format("{} is not set, though other variables of {} are", name, launcher),
                    fmt::format("start every rank with {}, or unset its variables", launcher));
  const auto value = parse_count(*text);
  if (!value || *value > kMaxRanks)
    return unusable(fmt::format("{} is '{:.40}': a number up to {} was expected", name, *text, kMaxRanks));
  return *value;
}

/// Slurm's variables mean a rank only inside a step: a batch script and an salloc shell have SLURM_PROCID or
/// SLURM_NTASKS too.
bool is_there(const Variables& variables, const Names& names) {
  if (names.launcher == "Slurm")
    return find(variables, "SLURM_STEP_ID") != nullptr && find(variables, names.rank) != nullptr;
  if (names.launcher == "PMI") return find(variables, names.rank) != nullptr;
  return find(variables, names.rank) != nullptr || find(variables, names.ranks) != nullptr;
}

/// Tasks of this host: from the step's compressed list and this node's place in it, or as the user asked for them.
Result<std::uint32_t> slurm_local_ranks(const Variables& variables) {
  for (const std::string_view name : {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
    const std::string* list = find(variables, name);
    if (list == nullptr) continue;
    const auto tasks = slurm_tasks_per_node(*list);
    if (!tasks) return unusable(fmt::format("{}: {}", name, tasks.error().what));
    const auto node = read_number(variables, "SLURM_NODEID", "Slurm");
    FORESHARD_TRY(node);
    if (*node < tasks->size()) return (*tasks)[*node];
    return unusable(fmt::format("SLURM_NODEID is {}, but {} has {} hosts", *node, name, tasks->size()));
  }
  return read_number(variables, "SLURM_NTASKS_PER_NODE", "Slurm");
}

Result<Task> read_task_of(const Variables& variables, const Names& names) {
  const auto rank = read_number(variables, names.rank, names.launcher);
  FORESHARD_TRY(rank);
  // A step's own number of tasks may be below the job's.
  const bool step = names.launcher == "Slurm" && find(variables, "SLURM_STEP_NUM_TASKS") != nullptr;
  const auto ranks = read_number(variables, step ? "SLURM_STEP_NUM_TASKS" : names.ranks, names.launcher);
  FORESHARD_TRY(ranks);
  return Task{std::string(names.launcher), *rank, *ranks};
}

/// sbatch(1), "--array": ids go from SLURM_ARRAY_TASK_MIN by SLURM_ARRAY_TASK_STEP.
Result<std::optional<Task>> read_array_task(const Variables& variables) {
  constexpr std::string_view kArray = "Slurm's job array";
  if (find(variables, "SLURM_ARRAY_TASK_ID") == nullptr) return std::nullopt;
  const auto id = read_number(variables, "SLURM_ARRAY_TASK_ID", kArray);
  FORESHARD_TRY(id);
  const auto first = read_number(variables, "SLURM_ARRAY_TASK_MIN", kArray);
  FORESHARD_TRY(first);
  const auto count = read_number(variables, "SLURM_ARRAY_TASK_COUNT", kArray);
  FORESHARD_TRY(count);
  std::uint32_t step = 1;
  if (find(variables, "SLURM_ARRAY_TASK_STEP") != nullptr) {
    const auto given = read_number(variables, "SLURM_ARRAY_TASK_STEP", kArray);
    FORESHARD_TRY(given);
    step = *given;
  }
  if (step == 0 || *id < *first || (*id - *first) % step != 0 || (*id - *first) / step >= *count)
    return unusable(fmt::format("task {} is none of a job array of {} tasks from {} by {}", *id, *count, *first, step),
                    "give --array=0-7, or any other range with a step: lists with gaps have no places");
  return Task{std::string(kArray), (*id - *first) / step, *count};
}

Result<void> read_ranks(const Variables& variables, const Names& names, Environment& out) {
  out.launcher = names.launcher;
  const auto task = read_task_of(variables, names);
  FORESHARD_TRY(task);
  const auto local_rank = read_number(variables, names.local_rank, names.launcher);
  FORESHARD_TRY(local_rank);
  const auto local_ranks = names.local_ranks.empty() ? slurm_local_ranks(variables)
                                                     : read_number(variables, names.local_ranks, names.launcher);
  FORESHARD_TRY(local_ranks);
  out.rank = task->task;
  out.ranks = task->tasks;
  out.local_rank = *local_rank;
  out.local_ranks = *local_ranks;
  return {};
}

Result<void> check_ranks(const Environment& e) {
  const auto contradiction = [&](std::string what) {
    return unusable(fmt::format("the variables of {} contradict each other: {}", e.launcher, what));
  };
  if (e.rank >= e.ranks) return contradiction(fmt::format("rank {} of {}", e.rank, e.ranks));
  if (e.local_rank >= e.local_ranks)
    return contradiction(fmt::format("local rank {} of {}", e.local_rank, e.local_ranks));
  if (e.local_ranks > e.ranks)
    return contradiction(fmt::format("{} ranks on this host, {} in all", e.local_ranks, e.ranks));
  if (e.local_rank > e.rank || e.rank - e.local_rank + e.local_ranks > e.ranks)
    return unusable(fmt::format("rank {} is number {} of {} on its host: the ranks of a host are not consecutive",
                                e.rank, e.local_rank, e.local_ranks),
                    "place them by host: srun --distribution=block, mpirun --map-by ppr:N:node --rank-by slot");
  return {};
}

Result<std::string> read_address(const Variables& variables, const Environment& e) {
  // All ranks of one host meet on the loopback, whatever the host calls itself.
  if (e.one_host()) return std::string("127.0.0.1");
  for (const std::string_view name : {"FORESHARD_ADDRESS", "MASTER_ADDR"})
    if (const std::string* address = find(variables, name)) return *address;
  for (const std::string_view name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
    const std::string* list = find(variables, name);
    if (e.launcher != "Slurm" || list == nullptr) continue;
    const auto hosts = slurm_hosts(*list);
    if (!hosts) return unusable(fmt::format("{}: {}", name, hosts.error().what));
    return hosts->front();
  }
  return unusable(fmt::format("{} does not name the host of rank 0, and the ranks are on several hosts", e.launcher),
                  "set MASTER_ADDR to the name of rank 0's host on every rank");
}

Result<std::uint16_t> read_port(const Variables& variables, const Environment& e) {
  std::uint32_t shift = 0;
  for (const std::string_view name : {"FORESHARD_PORT", "MASTER_PORT"}) {
    if (const std::string* text = find(variables, name)) {
      const auto port = parse_count(*text);
      if (!port || *port == 0 || *port + shift > 65'535)
        return unusable(fmt::format("{} is '{:.40}': a TCP port was expected, 1 to {}", name, *text, 65'535 - shift));
      return static_cast<std::uint16_t>(*port + shift);
    }
    shift = 1;  // torchrun's own store listens on MASTER_PORT itself
  }
  if (e.ranks == 1) return std::uint16_t{0};
  const std::string* job = e.launcher == "Slurm" ? find(variables, "SLURM_JOB_ID") : nullptr;
  const auto number = parse_count(job == nullptr ? "0" : *job);
  return static_cast<std::uint16_t>(kDefaultPort + (number ? *number % 1000 : 0));
}

/// The launcher's own name of the run, the same on all ranks.
std::string read_run(const Variables& variables, const Environment& e) {
  if (e.launcher_holds_rendezvous) return {};  // its secret is new for each run
  const std::string* name = nullptr;
  if (e.launcher == "torchrun") name = find(variables, "TORCHELASTIC_RUN_ID");
  if (e.launcher == "Open MPI") name = find(variables, "PMIX_NAMESPACE");
  if (name != nullptr) return *name;
  const std::string* job = find(variables, "SLURM_JOB_ID");
  const std::string* step = find(variables, "SLURM_STEP_ID");
  if (e.launcher != "Slurm" || job == nullptr) return {};
  return fmt::format("{}.{}", *job, step == nullptr ? "" : *step);
}

/// How every rank of several hosts gets the same secret.
std::string secret_hint(std::string_view launcher) {
  constexpr std::string_view kMake = "export FORESHARD_SECRET=$(openssl rand -hex 16)";
  if (launcher == "Slurm") return fmt::format("once, before srun: {}", kMake);
  if (launcher == "Open MPI") return fmt::format("once: {}; then mpirun -x FORESHARD_SECRET ...", kMake);
  if (launcher == "PMI") return fmt::format("once: {}; then mpirun -genvlist FORESHARD_SECRET ...", kMake);
  return "once, on a file system that all hosts share: (umask 077; openssl rand -hex 16 > FILE); then on every host: "
         "export FORESHARD_SECRET_FILE=FILE";
}

Result<void> read_secret_place(const Variables& variables, Environment& e) {
  if (const std::string* folder = find(variables, "XDG_RUNTIME_DIR")) e.runtime_folder = *folder;
  if (const std::string* file = find(variables, "FORESHARD_SECRET_FILE")) {
    e.secret_file = *file;
    return {};
  }
  const auto secret = variables.find("FORESHARD_SECRET");
  if (secret == variables.end()) {
    if (e.one_host()) return {};
    return unusable("the ranks are on several hosts and have no secret to know each other by", secret_hint(e.launcher));
  }
  if (secret->second.size() < kMinSecretBytes || secret->second.size() > kMaxSecretBytes)
    return unusable(fmt::format("FORESHARD_SECRET has {} bytes: {} to {} were expected", secret->second.size(),
                                kMinSecretBytes, kMaxSecretBytes),
                    "export FORESHARD_SECRET=$(openssl rand -hex 16)");
  e.secret = secret->second;
  return {};
}

}  // namespace

Result<std::optional<Task>> read_task(const Variables& variables) {
  for (const Names& names : kLaunchers) {
    if (!is_there(variables, names)) continue;
    auto task = read_task_of(variables, names);
    FORESHARD_TRY(task);
    if (task->task >= task->tasks)
      return unusable(fmt::format("the variables of {} contradict each other: task {} of {}", task->launcher,
                                  task->task, task->tasks));
    if (task->tasks > 1) return std::optional(std::move(*task));
  }
  return read_array_task(variables);
}

bool launched(const Variables& variables) {
  for (const Names& names : kLaunchers)
    if (is_there(variables, names)) return true;
  return false;
}

Result<Environment> read_environment(const Variables& variables) {
  Environment e;
  for (const Names& names : kLaunchers) {
    if (!is_there(variables, names)) continue;
    FORESHARD_TRY(read_ranks(variables, names, e));
    break;
  }
  FORESHARD_TRY(check_ranks(e));
  e.launcher_holds_rendezvous = find(variables, "FORESHARD_LAUNCHER") != nullptr;
  if (e.launcher_holds_rendezvous) e.launcher = "foreshard";
  const auto address = read_address(variables, e);
  FORESHARD_TRY(address);
  e.address = *address;
  const auto port = read_port(variables, e);
  FORESHARD_TRY(port);
  e.port = *port;
  e.run = read_run(variables, e);
  if (e.run.size() > kLongestText || e.address.size() > kLongestText)
    return unusable("the address of the rendezvous or the launcher's name of the run is longer than 1,024 bytes");
  FORESHARD_TRY(read_secret_place(variables, e));
  return e;
}

Variables process_variables() {
  Variables out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::size_t equals = text.find('=');
    if (equals != std::string_view::npos) out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

}  // namespace foreshard::gpu
