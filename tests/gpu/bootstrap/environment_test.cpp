#include "gpu/bootstrap/environment.hpp"

#include "gpu/bootstrap/slurm_lists.hpp"
#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

Variables without(Variables variables, const std::string& name) {
  variables.erase(name);
  return variables;
}

Variables with(Variables variables, const std::string& name, const std::string& value) {
  variables[name] = value;
  return variables;
}

const Variables kTorchrun{{"RANK", "5"},
                          {"WORLD_SIZE", "8"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "4"},
                          {"MASTER_ADDR", "node-a"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "run-7"},
                          {"FORESHARD_SECRET", "0123456789abcdef"}};
const Variables kSlurm{{"SLURM_PROCID", "6"},
                       {"SLURM_NTASKS", "8"},
                       {"SLURM_LOCALID", "2"},
                       {"SLURM_NODEID", "1"},
                       {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"},
                       {"SLURM_STEP_NODELIST", "gpu[07-08]"},
                       {"SLURM_STEP_ID", "0"},
                       {"SLURM_JOB_ID", "123456"},
                       {"FORESHARD_SECRET_FILE", "/home/me/secret"}};
const Variables kOpenMpi{{"OMPI_COMM_WORLD_RANK", "3"},
                         {"OMPI_COMM_WORLD_SIZE", "4"},
                         {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                         {"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}};
const Variables kPmi{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}};

void refuses(const Variables& variables, const std::string& part) {
  const auto read = read_environment(variables);
  REQUIRE_FALSE(read);
  INFO(read.error().text());
  CHECK(read.error().kind == ErrorKind::usage);
  CHECK(read.error().text().find(part) != std::string::npos);
}

}  // namespace

TEST_CASE("no launcher: one rank on its own") {
  const auto e = read_environment({{"PATH", "/bin"}, {"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}});
  REQUIRE(e);
  CHECK(e->launcher == "none");
  CHECK(e->ranks == 1);
  CHECK(e->port == 0);
  CHECK_FALSE(launched({{"SLURM_NTASKS", "4"}, {"SLURM_PROCID", "0"}}));  // a batch script
}

TEST_CASE("torchrun on two hosts") {
  const auto e = read_environment(kTorchrun);
  REQUIRE(e);
  CHECK(e->launcher == "torchrun");
  CHECK(e->rank == 5);
  CHECK(e->ranks == 8);
  CHECK(e->local_rank == 1);
  CHECK(e->local_ranks == 4);
  CHECK(e->address == "node-a");
  CHECK(e->port == 29501);  // torchrun listens on 29500 itself
  CHECK(e->run == "run-7");
  CHECK(e->secret == "0123456789abcdef");
  CHECK_FALSE(e->launcher_holds_rendezvous);
  CHECK(launched(kTorchrun));
  CHECK(read_environment(with(kTorchrun, "FORESHARD_PORT", "4000"))->port == 4000);
  CHECK(read_environment(with(kTorchrun, "FORESHARD_ADDRESS", "10.0.0.1"))->address == "10.0.0.1");
}

TEST_CASE("Slurm, Open MPI, PMI and foreshard's own launcher") {
  const auto slurm = read_environment(kSlurm);
  REQUIRE(slurm);
  CHECK(slurm->launcher == "Slurm");
  CHECK(slurm->rank == 6);
  CHECK(slurm->local_ranks == 4);
  CHECK(slurm->address == "gpu07");
  CHECK(slurm->port == 29'600 + 456);
  CHECK(slurm->run == "123456.0");
  CHECK(slurm->secret_file == "/home/me/secret");
  const auto per_node =
      read_environment(with(without(kSlurm, "SLURM_STEP_TASKS_PER_NODE"), "SLURM_NTASKS_PER_NODE", "4"));
  REQUIRE(per_node);
  CHECK(per_node->local_ranks == 4);

  const auto ompi = read_environment(kOpenMpi);
  REQUIRE(ompi);
  CHECK(ompi->launcher == "Open MPI");
  CHECK(ompi->address == "127.0.0.1");
  CHECK(ompi->port == 29'600);
  const auto pmi = read_environment(kPmi);
  REQUIRE(pmi);
  CHECK(pmi->launcher == "PMI");

  const auto own = read_environment({{"RANK", "0"},
                                     {"WORLD_SIZE", "2"},
                                     {"LOCAL_RANK", "0"},
                                     {"LOCAL_WORLD_SIZE", "2"},
                                     {"FORESHARD_PORT", "1234"},
                                     {"FORESHARD_SECRET", "0123456789abcdef"},
                                     {"TORCHELASTIC_RUN_ID", "of another launcher"},
                                     {"FORESHARD_LAUNCHER", "1"}});
  REQUIRE(own);
  CHECK(own->launcher == "foreshard");
  CHECK(own->launcher_holds_rendezvous);
  CHECK(own->run.empty());
}

TEST_CASE("the secret: from a file, from a variable, on one host from rank 0") {
  const auto both = read_environment(with(kTorchrun, "FORESHARD_SECRET_FILE", "/home/me/secret"));
  REQUIRE(both);
  CHECK(both->secret_file == "/home/me/secret");
  CHECK(both->secret.empty());
  const auto one_host = read_environment(with(kOpenMpi, "XDG_RUNTIME_DIR", "/run/user/7"));
  REQUIRE(one_host);
  CHECK((one_host->secret.empty() && one_host->secret_file.empty()));
  CHECK(one_host->runtime_folder == "/run/user/7");
  refuses(with(kOpenMpi, "FORESHARD_SECRET", "fifteen bytes.."), "FORESHARD_SECRET has 15 bytes: 16 to 4096");
  refuses(with(kOpenMpi, "FORESHARD_SECRET", ""), "FORESHARD_SECRET has 0 bytes");
  refuses(with(kOpenMpi, "FORESHARD_SECRET", std::string(4097, 'x')), "FORESHARD_SECRET has 4097 bytes");
}

TEST_CASE("several hosts without a secret are refused with what to type") {
  const std::string what = "the ranks are on several hosts and have no secret to know each other by";
  refuses(without(kTorchrun, "FORESHARD_SECRET"), what);
  refuses(without(kTorchrun, "FORESHARD_SECRET"), "export FORESHARD_SECRET_FILE=FILE");
  refuses(without(kSlurm, "FORESHARD_SECRET_FILE"), "before srun: export FORESHARD_SECRET=$(openssl rand -hex 16)");
  const Variables mpi = with(with(kOpenMpi, "OMPI_COMM_WORLD_SIZE", "8"), "MASTER_ADDR", "a");
  refuses(mpi, "mpirun -x FORESHARD_SECRET");
  const Variables pmi = with(with(kPmi, "PMI_SIZE", "8"), "MASTER_ADDR", "a");
  refuses(pmi, "mpirun -genvlist FORESHARD_SECRET");
}

TEST_CASE("which of several tasks a process is, whatever it knows of where the others are") {
  const auto task = [](const Variables& variables) {
    const auto read = read_task(variables);
    INFO((read ? "" : read.error().text()));
    REQUIRE(read);
    REQUIRE(*read);
    return **read;
  };
  for (const Variables* launched : {&kTorchrun, &kSlurm, &kOpenMpi, &kPmi}) {
    const auto whole = read_environment(*launched);
    REQUIRE(whole);
    CHECK(task(*launched).task == whole->rank);
    CHECK(task(*launched).tasks == whole->ranks);
    CHECK(task(*launched).launcher == whole->launcher);
  }
  CHECK(task({{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "7"}, {"SLURM_NTASKS", "8"}}).task == 7);
  const Variables array{{"SLURM_ARRAY_TASK_ID", "16"},
                        {"SLURM_ARRAY_TASK_MIN", "10"},
                        {"SLURM_ARRAY_TASK_COUNT", "4"},
                        {"SLURM_ARRAY_TASK_STEP", "2"}};
  CHECK(task(array).task == 3);
  CHECK(task(array).tasks == 4);
  // A batch script of the array: Slurm says that it is task 0 of 1, which is no step.
  CHECK(task(with(with(array, "SLURM_PROCID", "0"), "SLURM_NTASKS", "1")).tasks == 4);
  for (const Variables& none : {Variables{}, Variables{{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}}) {
    const auto read = read_task(none);
    REQUIRE(read);
    CHECK_FALSE(*read);
  }
  CHECK_FALSE(read_task(with(array, "SLURM_ARRAY_TASK_ID", "17")));  // no place of the array
  CHECK_FALSE(read_task(with(array, "SLURM_ARRAY_TASK_ID", "18")));
  CHECK_FALSE(read_task(with(array, "SLURM_ARRAY_TASK_STEP", "0")));
  CHECK_FALSE(read_task(without(array, "SLURM_ARRAY_TASK_COUNT")));
  CHECK_FALSE(read_task({{"OMPI_COMM_WORLD_RANK", "4"}, {"OMPI_COMM_WORLD_SIZE", "4"}}));
}

TEST_CASE("the innermost launcher wins") {
  Variables both = kSlurm;
  both.insert(kTorchrun.begin(), kTorchrun.end());
  CHECK(read_environment(both)->launcher == "torchrun");
  Variables mpi = kSlurm;
  mpi.insert(kOpenMpi.begin(), kOpenMpi.end());
  CHECK(read_environment(mpi)->launcher == "Open MPI");
}

TEST_CASE("sets that are there in part are refused by the name of what is missing") {
  for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"})
    refuses(without(kTorchrun, name), std::string(name) + " is not set, though other variables of torchrun are");
  refuses(without(kTorchrun, "MASTER_ADDR"), "set MASTER_ADDR");
  refuses(without(kSlurm, "SLURM_LOCALID"), "SLURM_LOCALID is not set");
  refuses(without(kSlurm, "SLURM_STEP_TASKS_PER_NODE"), "SLURM_NTASKS_PER_NODE is not set");
  refuses(without(kSlurm, "SLURM_STEP_NODELIST"), "set MASTER_ADDR");
  refuses(without(kPmi, "MPI_LOCALRANKID"), "MPI_LOCALRANKID is not set");
}

TEST_CASE("sets that contradict themselves, and words that are no numbers") {
  refuses(with(kTorchrun, "RANK", "8"), "rank 8 of 8");
  refuses(with(kTorchrun, "LOCAL_RANK", "4"), "local rank 4 of 4");
  refuses(with(kTorchrun, "LOCAL_WORLD_SIZE", "9"), "9 ranks on this host, 8 in all");
  refuses(with(kTorchrun, "RANK", "0"), "not consecutive");  // local rank 1
  refuses(with(kTorchrun, "RANK", "six"), "RANK is 'six'");
  refuses(with(kTorchrun, "WORLD_SIZE", "99999999999999"), "WORLD_SIZE is");
  refuses(with(kTorchrun, "MASTER_PORT", "65535"), "MASTER_PORT is '65535'");
  refuses(with(kTorchrun, "FORESHARD_PORT", "0"), "FORESHARD_PORT is '0'");
  refuses(with(kTorchrun, "MASTER_ADDR", std::string(2000, 'a')), "longer than");
  refuses(with(kSlurm, "SLURM_NODEID", "7"), "SLURM_NODEID is 7");
  refuses(with(kSlurm, "SLURM_STEP_NODELIST", "gpu[1-"), "SLURM_STEP_NODELIST");
  refuses(with(kSlurm, "SLURM_STEP_TASKS_PER_NODE", "4(x"), "SLURM_STEP_TASKS_PER_NODE");
}

TEST_CASE("Slurm's lists of hosts") {
  using Hosts = std::vector<std::string>;
  CHECK(*slurm_hosts("login") == Hosts{"login"});
  CHECK(*slurm_hosts("host[01-04,7],login") == Hosts{"host01", "host02", "host03", "host04", "host7", "login"});
  CHECK(*slurm_hosts("r[1-2]n[08-10].x") == Hosts{"r1n08.x", "r1n09.x", "r1n10.x", "r2n08.x", "r2n09.x", "r2n10.x"});
  for (const char* bad : {"", ",", "a,", "a[", "a]", "a[]", "a[1", "a[3-1]", "a[x]", "a[1-2-3]", "a[-1]", "a[[1]]",
                          "a[1-9999999]", "a[1-1000][1-1000][1-1000]", "a[00000000001]", "a[4294967296]"}) {
    INFO(bad);
    CHECK_FALSE(slurm_hosts(bad));
  }
}

TEST_CASE("Slurm's lists of tasks") {
  using Tasks = std::vector<std::uint32_t>;
  CHECK(*slurm_tasks_per_node("4") == Tasks{4});
  CHECK(*slurm_tasks_per_node("4(x2),3") == Tasks{4, 4, 3});
  for (const char* bad : {"", "0", "4(x0)", "4(x", "4(2)", "x4", "4,", "4(x2)3", "4(x99999999)"}) {
    INFO(bad);
    CHECK_FALSE(slurm_tasks_per_node(bad));
  }
}
