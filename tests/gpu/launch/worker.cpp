// A rank without a GPU: joins, does twenty steps of collective calls, checks what it gets, and goes wrong as it is
// told.
//
//   launch_worker FAULT [VICTIM] [NAME=MILLISECONDS]...
//
// VICTIM is the rank that goes wrong. Says on standard error what it hears and, where it ends by itself, with which
// status: the number of the failure's kind, 0 where all went well, 1 where a collective call brought wrong bytes.
#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <thread>

#include "gpu/bootstrap/session.hpp"

using namespace foreshard;
using namespace foreshard::gpu;

namespace {

constexpr int kSteps = 20;
constexpr int kOthersHaveCome = 700;  // milliseconds

struct Plan {
  std::string fault = "none";
  std::uint32_t victim = 0;
  Timeouts timeouts;
};

void say(const std::string& line) {
  const std::string text = line + "\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, text.data(), text.size());
}

void sleep_ms(int time) {
  std::this_thread::sleep_for(Milliseconds(time));
}

Plan read_plan(int argc, char** argv) {
  Plan plan;
  if (argc > 1) plan.fault = argv[1];
  if (argc > 2) plan.victim = static_cast<std::uint32_t>(std::atoi(argv[2]));
  std::map<std::string, Milliseconds*> times{
      {"join", &plan.timeouts.join},         {"exchange", &plan.timeouts.bootstrap},
      {"progress", &plan.timeouts.progress}, {"silence", &plan.timeouts.silence},
      {"grace", &plan.timeouts.grace},
  };
  for (int i = 3; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    *times.at(word.substr(0, equals)) = Milliseconds(std::atoi(word.c_str() + equals + 1));
  }
  return plan;
}

/// What goes wrong in the middle of step 5, in the victim. Nothing: it goes on.
Result<void> go_wrong(const Plan& plan, Session& session) {
  if (plan.fault == "kill") ::raise(SIGKILL);
  if (plan.fault == "crash") ::abort();
  if (plan.fault == "stop") ::raise(SIGSTOP);
  if (plan.fault == "exit") std::_Exit(77);
  if (plan.fault == "hang")
    while (!session.aborted()) sleep_ms(20);
  if (plan.fault == "deaf") {  // hears nothing, not even a request to end
    ::signal(SIGTERM, SIG_IGN);
    for (;;) sleep_ms(1000);
  }
  if (plan.fault == "memory")
    return tl::unexpected(session.fail({ErrorKind::out_of_memory, "no room for 1 GiB", "layers.5", "a smaller batch"}));
  if (plan.fault == "leave") return fail(ErrorKind::rank_lost, "this rank leaves");
  if (plan.fault == "child" && ::fork() == 0)
    for (;;) ::pause();
  if (plan.fault == "child") ::raise(SIGKILL);
  if (plan.fault == "other") {
    const auto met = session.bootstrap().barrier("something else");
    FORESHARD_TRY(met);
  }
  return {};
}

/// Bytes that differ by rank, step and place, of a size that differs too.
std::string share(std::uint32_t rank, int step) {
  std::string out(static_cast<std::size_t>(1 + 37 * rank + 1000 * static_cast<std::uint32_t>(step)), ' ');
  for (std::size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<char>(i * 7 + rank * 31 + static_cast<unsigned>(step));
  return out;
}

Result<void> check_shares(const std::vector<std::string>& shares, int step, std::uint32_t ranks) {
  bool good = shares.size() == ranks;
  for (std::uint32_t rank = 0; good && rank < ranks; ++rank) good = shares[rank] == share(rank, step);
  if (good) return {};
  say("WRONG BYTES");
  std::_Exit(1);
}

/// Each rank passes a file with its number in it and reads the others'.
Result<void> pass_files(Session& session, int step) {
  Bootstrap& bootstrap = session.bootstrap();
  std::array<char, 32> name{"/tmp/launch-worker-XXXXXX"};
  const int file = ::mkstemp(name.data());
  ::unlink(name.data());
  const std::string own = fmt::format("{} at {}", bootstrap.local_rank(), step);
  if (::write(file, own.data(), own.size()) < 0) return fail(ErrorKind::input, "cannot write");
  const auto files = bootstrap.share_descriptor(fmt::format("files {}", step), file);
  FORESHARD_TRY(files);
  for (std::uint32_t i = 0; i < files->size(); ++i) {
    std::array<char, 64> text{};
    if (::pread((*files)[i], text.data(), text.size(), 0) < 0 || fmt::format("{} at {}", i, step) != text.data()) {
      say("WRONG FILE");
      std::_Exit(1);
    }
    ::close((*files)[i]);
  }
  ::close(file);
  return {};
}

Result<void> steps(const Plan& plan, Session& session) {
  const bool victim = session.environment().rank == plan.victim;
  for (int step = 0; step < kSteps; ++step) {
    session.report(fmt::format("step {}, forward", step));
    if (plan.fault == "slow") sleep_ms(100);
    if (step == 5 && victim) {
      session.report("step 5, the middle");
      sleep_ms(250);  // the last heartbeat has it
      if (auto good = go_wrong(plan, session); !good) return good;
    }
    const auto shares =
        session.bootstrap().all_gather(fmt::format("step {}", step), share(session.environment().rank, step));
    FORESHARD_TRY(shares);
    if (auto good = check_shares(*shares, step, session.environment().ranks); !good) return good;
    if (step % 8 == 0)
      if (auto good = pass_files(session, step); !good) return good;
  }
  return {};
}

Result<void> run(const Plan& plan) {
  const auto environment = read_environment(process_variables());
  FORESHARD_TRY(environment);
  SessionOptions options{.environment = *environment, .settings = {}, .timeouts = plan.timeouts, .on_stuck = {}};
  const bool victim = environment->rank == plan.victim;
  options.settings = {{"--batch", "2"}, {"--seq", plan.fault == "settings" && victim ? "512" : "4096"}};
  if ((plan.fault == "secret" || plan.fault == "early") && victim) sleep_ms(kOthersHaveCome);
  if (plan.fault == "secret" && victim) options.environment.secret = "another run's secret";
  if (plan.fault == "ranks" && victim) options.environment.ranks += 4;
  if (plan.fault == "absent" && victim)
    for (;;) sleep_ms(1000);
  if (plan.fault == "early" && victim) std::_Exit(3);
  options.on_stuck = [](const RunFailure& failure) {
    say("STUCK");
    std::_Exit(static_cast<int>(failure.kind));
  };
  options.hear_sigterm = true;
  auto session = Session::join(std::move(options));
  FORESHARD_TRY(session);
  (*session)->on_abort([](const RunFailure& failure) { say("ABORT " + failure.text()); });
  say("JOINED");
  auto done = steps(plan, **session);
  if (const std::string unauthenticated = (*session)->unauthenticated(); !unauthenticated.empty())
    say("UNAUTHENTICATED " + unauthenticated);
  if (!done) return done;
  if (plan.fault == "end" && victim) ::raise(SIGKILL);
  done = (*session)->finish();
  if (!done) return done;
  say("FINISHED");
  if (plan.fault == "late" && victim) std::_Exit(9);
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  const auto done = run(read_plan(argc, argv));
  if (done) return 0;
  say("ERROR " + done.error().text());
  say(fmt::format("STATUS {}", static_cast<int>(done.error().kind)));
  return static_cast<int>(done.error().kind);
}
