// Ranks that torchrun would have started: no launcher of ours, rank 0 holds the rendezvous, and the ranks watch each
// other.
#include <signal.h>

#include <thread>

#include "gpu/bootstrap/message.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/launch/launched_runs.hpp"
#include "tests/gpu/launch/wire.hpp"

using namespace foreshard;
using namespace foreshard::gpu;
using namespace foreshard::gpu::testing;

namespace {

const std::vector<std::string> kTimes{"join=6000", "silence=2000", "grace=2000"};

std::vector<std::string> with_times(std::vector<std::string> arguments,
                                    const std::vector<std::string>& times = kTimes) {
  if (arguments.size() == 1) arguments.emplace_back("0");
  arguments.insert(arguments.begin() + 2, times.begin(), times.end());  // a test's own times come last
  return arguments;
}

std::vector<Process> start(std::uint32_t ranks, std::uint16_t port, const std::vector<std::string>& arguments) {
  std::vector<Process> out;
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    out.push_back(start_rank(rank, ranks, port, with_times(arguments)));
  return out;
}

Finished run_of(std::uint32_t ranks, const std::vector<std::string>& arguments, std::size_t left = 0) {
  auto processes = start(ranks, free_port(), arguments);
  return wait_for(processes, std::chrono::seconds(10), left);
}

/// Every rank but the victim ended by itself with `kind` and named the victim.
void check_told(const Finished& run, ErrorKind kind, std::uint32_t victim, const std::string& text) {
  INFO(run.text());
  for (std::uint32_t rank = 0; rank < run.lines.size(); ++rank) {
    if (rank == victim) continue;
    CHECK(run.end.ranks[rank].status == static_cast<int>(kind));
    CHECK(run.said(rank, text));
  }
  CHECK(run.seconds < 10);
}

}  // namespace

TEST_CASE("four ranks without a launcher of ours") {
  const Finished run = run_of(4, {"none"});
  INFO(run.text());
  for (std::uint32_t rank = 0; rank < 4; ++rank) {
    CHECK(run.end.ranks[rank].status == 0);
    CHECK(run.said(rank, "FINISHED"));
  }
}

TEST_CASE("ranks of two hosts, two on each: the rendezvous is open to the network, files stay within a host") {
  for (const char* fault : {"none", "kill"}) {
    const std::uint16_t port = free_port();
    std::vector<Process> processes;
    for (std::uint32_t rank = 0; rank < 4; ++rank)
      processes.push_back(start_rank(rank, 4, port, with_times({fault, "3"}),
                                     {{"LOCAL_RANK", std::to_string(rank % 2)},
                                      {"LOCAL_WORLD_SIZE", "2"},
                                      {"FORESHARD_SECRET", "a secret of two hosts"}}));
    const Finished run = wait_for(processes, std::chrono::seconds(10));
    INFO(run.text());
    if (fault == std::string("kill")) {
      check_told(run, ErrorKind::rank_lost, 3,
                 "rank 3 died: its connection closed; its last operation: step 5, the middle");
      continue;
    }
    for (const RankEnd& end : run.end.ranks) CHECK(end.status == 0);
  }
}

TEST_CASE("one rank on its own needs no variables") {
  std::vector<Process> processes;
  auto process = start_process({FORESHARD_LAUNCH_WORKER, "none"}, {}, false);
  REQUIRE(process);
  processes.push_back(std::move(*process));
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  INFO(run.text());
  CHECK(run.end.ranks[0].status == 0);
}

TEST_CASE("ranks see each other die, hang and fail through rank 0") {
  check_told(run_of(4, {"kill", "2"}), ErrorKind::rank_lost, 2,
             "rank 2 died: its connection closed; its last operation: step 5, the middle");
  check_told(run_of(4, {"memory", "1"}), ErrorKind::out_of_memory, 1, "rank 1 failed: no room for 1 GiB");
  check_told(run_of(4, {"settings", "3"}), ErrorKind::mismatch, 3, "--seq is '512' there and '4096' at rank 0");
  const Finished stopped = run_of(3, {"stop", "1"}, 1);
  check_told(stopped, ErrorKind::rank_hung, 1, "rank 1 has not been heard of");
}

TEST_CASE("all ranks see the death of rank 0, which holds the rendezvous") {
  const Finished killed = run_of(4, {"kill", "0"});
  check_told(killed, ErrorKind::rank_lost, 0, "rank 0 died, or its rendezvous was cut");
  check_told(killed, ErrorKind::rank_lost, 0, "its last operation: step 5, the middle");
  check_told(run_of(3, {"stop", "0"}, 1), ErrorKind::rank_hung, 0, "rank 0 has not been heard of for 2.0 s");
}

TEST_CASE("a launcher that ends the ranks when one of them died: they stay until they know which") {
  const bool one_died = GENERATE(true, false);
  auto processes = start(4, free_port(), {"slow"});
  std::this_thread::sleep_for(Milliseconds(1000));
  if (one_died) signal_group(processes[2].id, SIGKILL);
  for (const std::uint32_t rank : {0U, 1U, 3U})
    if (one_died || rank == 1) signal_group(processes[rank].id, SIGTERM);
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  if (one_died)
    check_told(run, ErrorKind::rank_lost, 2, "rank 2 died: its connection closed; its last operation: step ");
  else
    check_told(run, ErrorKind::interrupted, 9, "rank 1 was told to end by signal 15 (SIGTERM); its last operation: ");
}

TEST_CASE("a launcher that ends the ranks before all have come") {
  std::vector<Process> processes;
  const std::uint16_t port = free_port();
  for (const std::uint32_t rank : {0U, 1U, 2U}) processes.push_back(start_rank(rank, 4, port, with_times({"none"})));
  std::this_thread::sleep_for(Milliseconds(1000));
  for (const Process& process : processes) signal_group(process.id, SIGTERM);
  check_told(wait_for(processes, std::chrono::seconds(10)), ErrorKind::rendezvous, 9,
             "rank 3 did not come to the rendezvous before rank ");
  std::vector<Process> alone;  // no rendezvous at all
  alone.push_back(start_rank(1, 2, free_port(), with_times({"none"})));
  std::this_thread::sleep_for(Milliseconds(300));
  signal_group(alone[0].id, SIGTERM);
  check_told(wait_for(alone, std::chrono::seconds(5)), ErrorKind::interrupted, 9,
             "rank 1 was told to end by signal 15");
}

TEST_CASE("a rank that is stuck after the run failed is ended by its last resort") {
  std::vector<Process> processes;
  const std::uint16_t port = free_port();
  for (std::uint32_t rank = 0; rank < 2; ++rank)
    processes.push_back(start_rank(rank, 2, port, with_times({"deaf", "1", "exchange=2000"})));
  const Finished bounded = wait_for(processes, std::chrono::seconds(12));
  INFO(bounded.text());
  CHECK(bounded.said(1, "STUCK"));
  CHECK(bounded.end.ranks[1].status == static_cast<int>(ErrorKind::rank_hung));
  check_told(bounded, ErrorKind::rank_hung, 1, "did not come to 'step 5'");
}

TEST_CASE("a rank that never comes, and a rendezvous that is not there") {
  std::vector<Process> processes;
  const std::uint16_t port = free_port();
  for (const std::uint32_t rank : {0U, 1U})
    processes.push_back(start_rank(rank, 3, port, with_times({"none", "0", "join=2000"})));
  const Finished absent = wait_for(processes, std::chrono::seconds(10));
  check_told(absent, ErrorKind::rendezvous, 9,
             "rank 2 did not come to the rendezvous within 2.0 s (2 of 3 ranks came)");
  std::vector<Process> without_server;
  without_server.push_back(start_rank(1, 2, free_port(), with_times({"none", "0", "join=2000"})));
  const Finished refused = wait_for(without_server, std::chrono::seconds(10));
  check_told(refused, ErrorKind::rendezvous, 9, "rank 1 cannot reach the rendezvous at 127.0.0.1");
  check_told(refused, ErrorKind::rendezvous, 9, "Connection refused");
}

TEST_CASE("two runs on one port: the second is told, the first goes on") {
  // By secrets of their own; by their launchers' names for them, where they share the host's secret.
  const bool secrets = GENERATE(true, false);
  const auto variables = [&](const std::string& run) {
    return secrets ? Variables{{"FORESHARD_SECRET", "the secret of the " + run}}
                   : Variables{{"TORCHELASTIC_RUN_ID", run}};
  };
  const std::uint16_t port = free_port();
  std::vector<Process> first, second;
  first.push_back(start_rank(0, 2, port, with_times({"none"}), variables("first")));
  REQUIRE(connect_to(port));
  second.push_back(start_rank(0, 2, port, with_times({"none"}), variables("second")));
  second.push_back(start_rank(1, 2, port, with_times({"none"}), variables("second")));
  const Finished other = wait_for(second, std::chrono::seconds(10));
  INFO(other.text());
  CHECK(other.said(0, "cannot listen on port"));
  CHECK(other.said(1, "is not its run's rendezvous: it does not take this rank's proof of the secret"));
  CHECK(other.end.ranks[1].status == static_cast<int>(ErrorKind::rendezvous));
  first.push_back(start_rank(1, 2, port, with_times({"none"}), variables("first")));
  const Finished run = wait_for(first, std::chrono::seconds(10));
  INFO(run.text());
  CHECK(run.end.ranks[0].status == 0);
  CHECK(run.end.ranks[1].status == 0);
}

TEST_CASE("a rank that comes twice is refused, and the run goes on") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes, twin;
  for (const std::uint32_t rank : {0U, 1U}) processes.push_back(start_rank(rank, 3, port, with_times({"none"})));
  std::this_thread::sleep_for(Milliseconds(700));
  twin.push_back(start_rank(1, 3, port, with_times({"none"})));
  const Finished refused = wait_for(twin, std::chrono::seconds(10));
  CHECK(refused.said(0, "rank 1 is here already"));
  processes.push_back(start_rank(2, 3, port, with_times({"none"})));
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  INFO(run.text());
  for (const RankEnd& end : run.end.ranks) CHECK(end.status == 0);
}

TEST_CASE("a rendezvous cut in the middle: the launcher's") {
  // A program that listens, proves that it knows the secret, lets one rank in, and cuts the connection.
  const std::string secret = "the secret of the launcher";
  Listener listener;
  std::vector<Process> processes;
  processes.push_back(start_rank(0, 2, listener.port(), with_times({"none", "9"}),
                                 {{"FORESHARD_LAUNCHER", "1"}, {"FORESHARD_SECRET", secret}}));
  Wire rank(listener.accept());
  REQUIRE(rank.prove(Role::rendezvous, Key(secret, "")));
  CHECK(rank.receive_one<Hello>());
  rank.send(Welcome{});
  SECTION("closed") {
    std::this_thread::sleep_for(Milliseconds(300));
    rank.close();
    listener.close();
    const Finished run = wait_for(processes, std::chrono::seconds(10));
    check_told(run, ErrorKind::rendezvous, 9, "the rendezvous was cut, or the launcher died");
    CHECK(run.said(0, "ABORT"));
  }
  SECTION("silent") {
    const Finished run = wait_for(processes, std::chrono::seconds(10));
    check_told(run, ErrorKind::rendezvous, 9, "the launcher has not been heard of for 2.0 s");
  }
  SECTION("garbage") {
    rank.send_bytes("HTTP/1.1 400 Bad Request\r\n\r\n");
    const Finished run = wait_for(processes, std::chrono::seconds(10));
    check_told(run, ErrorKind::rendezvous, 9, "it does not speak foreshard's protocol");
  }
}
