// `foreshard run --gpus N` without a GPU: N workers under the launcher, every fault of docs/launch.md. Each run ends
// within ten seconds, names the right rank with its last operation and the cause, tells the others, leaves nothing.
#include "tests/gpu/launch/launched_runs.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <thread>

#include "tests/catch.hpp"

using namespace foreshard;
using namespace foreshard::gpu;
using namespace foreshard::gpu::testing;

namespace {

/// What every failed run of four has in common.
void check_failed(const Finished& run, ErrorKind kind, std::uint32_t rank, const std::string& cause) {
  INFO(run.text());
  REQUIRE(run.end.failure);
  CHECK(run.end.failure->kind == kind);
  CHECK(run.end.exit_code == static_cast<int>(kind));
  CHECK(run.end.failure->rank == rank);
  CHECK(run.end.failure->text().find(cause) != std::string::npos);
  CHECK(run.seconds < 10);
  CHECK(run.nothing_left());
}

/// The other ranks heard of it in the same words, and ended by themselves with the run's code.
void check_others_told(const Finished& run) {
  INFO(run.text());
  for (std::uint32_t rank = 0; rank < run.lines.size(); ++rank) {
    if (rank == *run.end.failure->rank) continue;
    CHECK(run.said(rank, "ABORT " + run.end.failure->text()));
    CHECK(run.said(rank, "ERROR"));
    CHECK(run.end.ranks[rank].status == static_cast<int>(run.end.failure->kind));
  }
}

}  // namespace

TEST_CASE("a run in which nothing goes wrong") {
  for (const std::uint32_t ranks : {1U, 2U, 5U}) {
    const Finished run = launch(ranks, {"none"}, quick());
    INFO(run.text());
    CHECK_FALSE(run.end.failure);
    CHECK(run.end.exit_code == 0);
    for (std::uint32_t rank = 0; rank < ranks; ++rank) CHECK(run.said(rank, "FINISHED"));
    CHECK(run.nothing_left());
  }
}

TEST_CASE("a rank killed in the middle of a step, with the timeouts that users have") {
  const Finished run = launch(4, {"kill", "2"}, Timeouts{});
  check_failed(run, ErrorKind::rank_lost, 2,
               "rank 2 was killed by signal 9 (SIGKILL); its last operation: step 5, the middle");
  check_others_told(run);
  CHECK(run.seconds < 5);
}

TEST_CASE("a rank stopped in the middle of a step, with the timeouts that users have") {
  const Finished run = launch(4, {"stop", "1"}, Timeouts{});
  check_failed(run, ErrorKind::rank_hung, 1, "has not been heard of");
  CHECK(run.end.failure->operation == "step 5, the middle");
  check_others_told(run);
}

TEST_CASE("rank 0 is a rank like the others") {
  const Finished killed = launch(3, {"kill", "0"}, quick());
  check_failed(killed, ErrorKind::rank_lost, 0, "rank 0 was killed by signal 9");
  check_others_told(killed);
  const Finished stopped = launch(3, {"stop", "0"}, quick());
  check_failed(stopped, ErrorKind::rank_hung, 0, "has not been heard of");
}

TEST_CASE("a rank that crashes") {
  const Finished run = launch(4, {"crash", "3"}, quick());
  check_failed(run, ErrorKind::rank_lost, 3, "was killed by signal 6 (SIGABRT)");
  check_others_told(run);
}

TEST_CASE("a rank whose heart beats and who gets nowhere") {
  Timeouts timeouts = quick();
  timeouts.progress = Milliseconds(2'000);
  const Finished run = launch(4, {"hang", "2"}, timeouts);
  check_failed(run, ErrorKind::rank_hung, 2, "hangs: no new operation");
  CHECK(run.end.failure->operation == "step 5, the middle");
  check_others_told(run);
}

TEST_CASE("a rank that hears nothing is made to end") {
  Timeouts timeouts = quick();
  timeouts.bootstrap = Milliseconds(2'000);
  const Finished run = launch(3, {"deaf", "1"}, timeouts);
  check_failed(run, ErrorKind::rank_hung, 1, "did not come to 'step 5' within 2.0 s");
  CHECK(run.end.ranks[1].signal == SIGKILL);
}

TEST_CASE("a rank that runs out of memory") {
  const Finished run = launch(4, {"memory", "1"}, quick());
  check_failed(run, ErrorKind::out_of_memory, 1,
               "rank 1 failed: no room for 1 GiB; its last operation: step 5, the middle");
  CHECK(run.end.failure->where == "layers.5");
  CHECK(run.end.failure->hint == "a smaller batch");
  check_others_told(run);
}

TEST_CASE("a rank with other settings") {
  const Finished run = launch(4, {"settings", "3"}, quick());
  check_failed(run, ErrorKind::mismatch, 3, "--seq is '512' there and '4096' at rank 0");
  for (std::uint32_t rank = 0; rank < 4; ++rank) CHECK(run.said(rank, "--seq is '512' there"));
  CHECK(run.seconds < 3);
}

TEST_CASE("a rank of a run of another size") {
  const Finished run = launch(3, {"ranks", "2"}, quick());
  check_failed(run, ErrorKind::mismatch, 2, "was started as one of 7 ranks, not 3");
}

TEST_CASE("a rank that asks for another collective") {
  const Finished run = launch(3, {"other", "1"}, quick());
  INFO(run.text());
  REQUIRE(run.end.failure);
  CHECK(run.end.failure->kind == ErrorKind::mismatch);
  CHECK(run.end.failure->text().find("something else") != std::string::npos);
  CHECK(run.end.failure->text().find("step 5") != std::string::npos);
}

TEST_CASE("a rank that leaves before the end, or ends with a status of its own") {
  check_failed(launch(3, {"leave", "1"}, quick()), ErrorKind::rank_lost, 1, "left before the end");
  const Finished run = launch(3, {"exit", "1"}, quick());
  INFO(run.text());
  CHECK(run.end.failure->text().find("rank 1 ended with status 77") != std::string::npos);
  CHECK(run.end.exit_code == 77);
  const Finished late = launch(3, {"late", "1"}, quick());
  INFO(late.text());
  REQUIRE(late.end.failure);
  CHECK(late.end.failure->text().find("rank 1 ended with status 9 after the run") != std::string::npos);
}

TEST_CASE("a rank that dies while the others already wait for the end") {
  const Finished run = launch(3, {"end", "1"}, quick());
  check_failed(run, ErrorKind::rank_lost, 1, "was killed by signal 9");
}

TEST_CASE("a rank that never comes, one that ends before it, one with another run's secret") {
  Timeouts timeouts = quick();
  timeouts.join = Milliseconds(2'000);
  const Finished absent = launch(3, {"absent", "2"}, timeouts);
  check_failed(absent, ErrorKind::rendezvous, 2, "did not come to the rendezvous within 2.0 s (2 of 3 ranks came)");
  const Finished early = launch(3, {"early", "2"}, quick());
  check_failed(early, ErrorKind::input, 2, "ended with status 3 before the run was over");
  const Finished secret = launch(3, {"secret", "2"}, quick());
  check_failed(secret, ErrorKind::rendezvous, 2, "it does not know the run's secret");
  CHECK(secret.said(2, "is not its run's rendezvous: it does not take this rank's proof of the secret"));
  CHECK(secret.end.unauthenticated == "1 connection did not prove that it knows the run's secret: 1 from 127.0.0.1");
}

TEST_CASE("what a rank started ends with it") {
  const Finished run = launch(2, {"child", "1"}, quick());
  check_failed(run, ErrorKind::rank_lost, 1, "was killed by signal 9");
}

TEST_CASE("a program that is not there") {
  LaunchOptions options;
  options.ranks = 2;
  const auto run = launch_ranks({"/no/such/program"}, options);
  REQUIRE_FALSE(run);
  CHECK(run.error().text().find("/no/such/program: cannot be started: No such file or directory") != std::string::npos);
  CHECK_FALSE(launch_ranks({}, options));
  options.ranks = 0;
  CHECK_FALSE(launch_ranks({"/bin/true"}, options));
}

TEST_CASE("a program that is no rank") {
  LaunchOptions options;
  options.ranks = 2;
  const auto run = launch_ranks({"/bin/true"}, options);
  REQUIRE(run);
  REQUIRE(run->failure);
  CHECK(run->failure->text().find("ended with status 0 before the run was over") != std::string::npos);
}

TEST_CASE("SIGTERM and SIGHUP end all ranks, and the end says by which") {
  for (const int signal : {SIGTERM, SIGHUP}) {
    LaunchOptions options;
    options.ranks = 2;
    options.variables = process_variables();
    options.timeouts = quick();
    options.on_line = [&](std::uint32_t rank, std::string_view line) {
      if (rank == 1 && line == "JOINED") ::kill(::getpid(), signal);
    };
    const auto end = launch_ranks({FORESHARD_LAUNCH_WORKER, "hang", "1"}, options);
    REQUIRE(end);
    CHECK(end->interrupted_by == signal);
    REQUIRE(end->failure);
    CHECK(end->failure->kind == ErrorKind::interrupted);
  }
}

TEST_CASE("Ctrl-C ends all ranks, and the signal's action is put back") {
  struct sigaction before {};
  before.sa_handler = SIG_IGN;
  struct sigaction old {};
  ::sigaction(SIGINT, &before, &old);
  Finished run;
  run.lines.resize(3);
  LaunchOptions options;
  options.ranks = 3;
  options.variables = process_variables();
  options.timeouts = quick();
  options.on_start = [&](const std::vector<int>& processes) { run.processes = processes; };
  options.on_line = [&](std::uint32_t rank, std::string_view line) {
    run.lines[rank].emplace_back(line);
    if (rank == 1 && line == "JOINED") ::kill(::getpid(), SIGINT);
  };
  const auto start = std::chrono::steady_clock::now();
  auto end = launch_ranks({FORESHARD_LAUNCH_WORKER, "hang", "1"}, options);
  run.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  REQUIRE(end);
  run.end = std::move(*end);
  struct sigaction after {};
  ::sigaction(SIGINT, &old, &after);
  INFO(run.text());
  REQUIRE(run.end.failure);
  CHECK(run.end.exit_code == 130);
  CHECK(run.end.interrupted_by == SIGINT);
  CHECK(run.end.failure->text() == "interrupted by signal 2 (SIGINT)");
  CHECK(run.said(1, "ABORT interrupted"));
  CHECK(run.seconds < 5);
  CHECK(run.nothing_left());
  CHECK(after.sa_handler == SIG_IGN);
}

TEST_CASE("a launcher that is killed takes its ranks along") {
  std::array<int, 2> ends{};
  REQUIRE(::pipe(ends.data()) == 0);
  const pid_t launcher = ::fork();
  if (launcher == 0) {
    LaunchOptions options;
    options.ranks = 3;
    options.variables = process_variables();
    options.on_start = [&](const std::vector<int>& processes) {
      [[maybe_unused]] const auto n = ::write(ends[1], processes.data(), processes.size() * sizeof(int));
    };
    (void)launch_ranks({FORESHARD_LAUNCH_WORKER, "hang", "1"}, options);
    ::_exit(0);
  }
  Finished run;
  run.processes.resize(3);
  REQUIRE(::read(ends[0], run.processes.data(), 3 * sizeof(int)) == 3 * sizeof(int));
  std::this_thread::sleep_for(Milliseconds(500));
  CHECK_FALSE(run.nothing_left());
  ::kill(launcher, SIGKILL);
  ::waitpid(launcher, nullptr, 0);
  const auto start = std::chrono::steady_clock::now();
  while (!run.nothing_left() && std::chrono::steady_clock::now() - start < std::chrono::seconds(5))
    std::this_thread::sleep_for(Milliseconds(20));
  CHECK(run.nothing_left());
  ::close(ends[0]);
  ::close(ends[1]);
}
