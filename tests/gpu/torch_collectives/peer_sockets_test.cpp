#include "gpu/torch_collectives/peer_sockets.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <thread>

#include "tests/catch.hpp"
#include "tests/gpu/torch_collectives/threads_as_ranks.hpp"

namespace foreshard::gpu {
namespace {

using namespace std::chrono_literals;

void expect_all(const std::vector<Result<void>>& results) {
  for (const Result<void>& result : results) {
    INFO((result ? std::string("good") : result.error().text()));
    CHECK(result.has_value());
  }
}

TEST_CASE("every rank has every rank's bytes and descriptors") {
  expect_all(run_threads(4, 10s, [](PeerSockets& sockets) -> Result<void> {
    for (int turn = 0; turn < 50; ++turn) {
      const auto all = sockets.all_gather("sizes", fmt::format("{}.{}", sockets.rank(), turn));
      FORESHARD_TRY(all);
      for (std::uint32_t r = 0; r < 4; ++r)
        if ((*all)[r] != fmt::format("{}.{}", r, turn)) return fail(ErrorKind::mismatch, "other bytes: " + (*all)[r]);
    }
    int ends[2] = {-1, -1};
    if (::pipe(ends) != 0) return fail(ErrorKind::input, "pipe");
    const OwnedDescriptor read_end(ends[0]);
    OwnedDescriptor write_end(ends[1]);
    const auto shared = sockets.share_descriptor("pipe", write_end.get());
    FORESHARD_TRY(shared);
    for (std::uint32_t r = 0; r < 4; ++r) {
      const char mine = static_cast<char>('a' + sockets.rank());
      if (::write((*shared)[r], &mine, 1) != 1) return fail(ErrorKind::input, "write");
      ::close((*shared)[r]);
    }
    FORESHARD_TRY(sockets.barrier("written"));
    std::string got(4, '\0');
    if (::read(read_end.get(), got.data(), got.size()) != 4) return fail(ErrorKind::input, "read");
    std::sort(got.begin(), got.end());
    return got == "abcd" ? Result<void>{} : fail(ErrorKind::mismatch, "a rank's descriptor is another's: " + got);
  }));
}

TEST_CASE("a rank that comes to something else is named, with what it came to") {
  const auto results = run_threads(
      2, 10s, [](PeerSockets& sockets) { return sockets.barrier(sockets.rank() == 0 ? "segment 3" : "segment 4"); });
  REQUIRE_FALSE(results[0].has_value());
  CHECK(results[0].error().kind == ErrorKind::mismatch);
  CHECK(results[0].error().what == "rank 1 came to 'segment 4' where this one is at 'segment 3'");
}

TEST_CASE("a rank that leaves is named at once, one that does not come after the timeout") {
  const auto results = run_threads(2, 10s, [](PeerSockets& sockets) -> Result<void> {
    return sockets.rank() == 1 ? Result<void>{} : sockets.barrier("together");
  });
  CHECK(results[0].error().kind == ErrorKind::rank_lost);
  CHECK(results[0].error().what == "rank 1 has ended before 'together'");
  const auto hung = run_threads(2, 300ms, [](PeerSockets& sockets) -> Result<void> {
    if (sockets.rank() == 1) std::this_thread::sleep_for(700ms);
    return sockets.rank() == 1 ? Result<void>{} : sockets.barrier("together");
  });
  CHECK(hung[0].error().kind == ErrorKind::rank_hung);
  CHECK(hung[0].error().what == "rank 1 did not come to 'together' in time");
}

TEST_CASE("a rank that gives up tells the others before it ends") {
  std::atomic<bool> told{false};
  const auto results = run_threads(3, 60s, [&](PeerSockets& sockets) -> Result<void> {
    if (sockets.rank() != 1) {
      auto waited = sockets.barrier("control");
      told = true;
      return waited;
    }
    sockets.leave();
    while (!told) std::this_thread::sleep_for(1ms);
    return {};
  });
  CHECK(results[1].has_value());
  for (const std::size_t rank : {std::size_t{0}, std::size_t{2}}) {
    REQUIRE_FALSE(results[rank].has_value());
    CHECK(results[rank].error().kind == ErrorKind::rank_lost);
  }
}

TEST_CASE("who does not know the word is not let in") {
  auto sockets = PeerSockets::open(0, 2, 300ms).value();
  sockaddr_un to{};
  to.sun_family = AF_UNIX;
  const std::string name = sockets->address().substr(16);
  std::memcpy(to.sun_path, name.data(), name.size());
  const OwnedDescriptor other(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  REQUIRE(::connect(other.get(), reinterpret_cast<const sockaddr*>(&to),
                    static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size())) == 0);
  const std::string said(16 + sizeof(std::uint32_t), '\1');
  REQUIRE(::send(other.get(), said.data(), said.size(), 0) == static_cast<ssize_t>(said.size()));
  const auto connected = sockets->connect({sockets->address(), "x"});
  REQUIRE_FALSE(connected.has_value());
  CHECK(connected.error().kind == ErrorKind::rank_hung);
}

TEST_CASE("a dead process is gone, for collectives too, although a child that it forked holds its sockets") {
  int ends[2] = {-1, -1};
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0);
  auto sockets = PeerSockets::open(0, 2, 10s).value();
  const pid_t child = ::fork();
  if (child == 0) {
    auto mine = PeerSockets::open(1, 2, 10s).value();
    const std::string address = mine->address();
    (void)!::send(ends[1], address.data(), address.size(), 0);
    if (!mine->connect({sockets->address(), address})) ::_exit(1);
    mine->set_timeout(1ms);
    (void)mine->all_gather("last words", "sent");  // nobody answers
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      std::this_thread::sleep_for(20s);
      ::_exit(0);
    }
    (void)!::send(ends[1], &grandchild, sizeof grandchild, 0);
    ::pause();
    ::_exit(0);
  }
  std::string address(64, '\0');
  const ssize_t got = ::recv(ends[0], address.data(), address.size(), 0);
  REQUIRE(got > 0);
  address.resize(static_cast<std::size_t>(got));
  REQUIRE(sockets->connect({sockets->address(), address}).has_value());
  pid_t grandchild = 0;
  REQUIRE(::recv(ends[0], &grandchild, sizeof grandchild, 0) == sizeof grandchild);
  CHECK_FALSE(sockets->gone().has_value());
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  CHECK(sockets->gone() == 1);
  const auto ended = std::chrono::steady_clock::now();
  const auto words = sockets->all_gather("last words", "");
  REQUIRE(words.has_value());
  CHECK((*words)[1] == "sent");
  const auto after = sockets->barrier("after its end");
  REQUIRE_FALSE(after.has_value());
  CHECK(after.error().kind == ErrorKind::rank_lost);
  CHECK(after.error().what == "rank 1 has ended before 'after its end'");
  CHECK(std::chrono::steady_clock::now() - ended < 5s);
  ::kill(grandchild, SIGKILL);
  ::close(ends[0]);
  ::close(ends[1]);
}

}  // namespace
}  // namespace foreshard::gpu
