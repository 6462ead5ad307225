// Which rank a process is, from the variables that its launcher set: foreshard's own launcher and torchrun (the same
// names), Open MPI, MPICH and Intel MPI (PMI), Slurm's srun. Pure: variables in, an Environment or an Error out.
//
// Where several sets are there, the innermost launcher wins: torchrun, Open MPI, PMI, Slurm. (mpirun inside a Slurm job
// sees both; srun --mpi=pmi2 sets both.) A set that is there in part, or contradicts itself, is an Error that names the
// variables. Names: torch/distributed/elastic/agent/server/api.py (torchrun), orterun(1) (Open MPI 4 and 5), hydra's
// pm/hydra/proxy (PMI_RANK, MPI_LOCALRANKID), srun(1) OUTPUT ENVIRONMENT VARIABLES.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "core/base/error.hpp"

namespace foreshard::gpu {

using Variables = std::map<std::string, std::string>;

struct Environment {
  std::string launcher = "none";  ///< "foreshard", "torchrun", "Open MPI", "PMI", "Slurm"; "none": one rank on its own
  std::uint32_t rank = 0;
  std::uint32_t ranks = 1;
  std::uint32_t local_rank = 0;       ///< rank within this host, and the number of its GPU
  std::uint32_t local_ranks = 1;      ///< ranks of this host
  std::string address = "127.0.0.1";  ///< of the rendezvous: the host of rank 0
  std::uint16_t port = 0;             ///< of the rendezvous; 0 only where `ranks` is 1 (any free port)
  std::string run;                    ///< keeps runs of one secret apart: the launcher's name of the run; may be empty
  std::string secret_file;            ///< where the run's secret is (secret_file.hpp); else
  std::string secret;                 ///< the secret; else (one host) rank 0 makes one for the others
  std::string runtime_folder;         ///< XDG_RUNTIME_DIR: where it puts that
  bool launcher_holds_rendezvous = false;  ///< foreshard's own launcher does; elsewhere rank 0

  [[nodiscard]] bool one_host() const { return ranks == local_ranks; }
};

/// Reads the variables. The port of the rendezvous: FORESHARD_PORT, else MASTER_PORT + 1 (torchrun's own store listens
/// on MASTER_PORT), else 29600 + the Slurm job's number modulo 1000, else 29600. The address: FORESHARD_ADDRESS, else
/// MASTER_ADDR, else the first host of the Slurm step, else this host where all ranks are on it. The secret:
/// FORESHARD_SECRET_FILE, else FORESHARD_SECRET (16 bytes at least), without which the ranks must be on one host. The
/// run's name: TORCHELASTIC_RUN_ID, PMIX_NAMESPACE (Open MPI), or the Slurm job and step.
[[nodiscard]] Result<Environment> read_environment(const Variables& variables);

/// Which of how many tasks this process is, for work that is split without their knowing of one another.
struct Task {
  std::string launcher;  ///< as Environment's, or "Slurm's job array"
  std::uint32_t task = 0;
  std::uint32_t tasks = 1;
};

/// By the same variables, but for where the ranks are; of a Slurm job array, whose tasks are no ranks, by the array's.
/// None: no launcher started this process as one of several. Errors (usage): variables that are there in part, or that
/// contradict themselves.
[[nodiscard]] Result<std::optional<Task>> read_task(const Variables& variables);

/// Whether some launcher already started this process as one of several ranks, so that `foreshard run` is a rank and
/// starts none itself. Says nothing about whether the variables are right.
[[nodiscard]] bool launched(const Variables& variables);

/// This process's variables.
[[nodiscard]] Variables process_variables();

}  // namespace foreshard::gpu
