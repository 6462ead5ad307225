#include "gpu/torch_collectives/call_records.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/gpu/torch_collectives/threads_as_ranks.hpp"

namespace foreshard::gpu {
namespace {

using namespace std::chrono_literals;

/// Rank r calls `calls` times, by `call(r, i)`; returns how many calls each rank came through.
std::vector<int> agreed(std::uint32_t ranks, int calls, const std::function<CallRecord(std::uint32_t, int)>& call,
                        std::vector<Error>* errors = nullptr) {
  std::vector<int> through(ranks, 0);
  const auto results = run_threads(ranks, 10s, [&](PeerSockets& sockets) -> Result<void> {
    auto records = CallRecords::create(sockets);
    FORESHARD_TRY(records);
    FORESHARD_TRY(sockets.barrier("ready"));
    for (int i = 0; i < calls; ++i) {
      FORESHARD_TRY((*records)->agree(call(sockets.rank(), i)));
      through[sockets.rank()] = i + 1;
    }
    return sockets.barrier("done");
  });
  for (const Result<void>& result : results)
    if (!result && errors != nullptr) errors->push_back(result.error());
  return through;
}

TEST_CASE("ranks that call alike agree, however far one is ahead") {
  const auto same = [](std::uint32_t, int i) {
    return CallRecord{i % 2 == 0 ? CallKind::all_gather : CallKind::reduce_scatter, 0, Bytes(i) * 512, Bytes(i)};
  };
  CHECK(agreed(4, 3000, same) == std::vector<int>(4, 3000));
}

TEST_CASE("a buffer at another place is found out by the last rank that comes to the call") {
  for (int turn = 0; turn < 20; ++turn) {
    std::vector<Error> errors;
    const auto through = agreed(
        3, 100,
        [](std::uint32_t rank, int i) {
          return CallRecord{CallKind::all_gather, 0, rank == 1 && i == 57 ? Bytes(4096) : Bytes(0), 64};
        },
        &errors);
    // Ranks that come early may pass; the last one never does, and without it no rank's copies start.
    CHECK(*std::min_element(through.begin(), through.end()) == 57);
    REQUIRE_FALSE(errors.empty());
    const bool named = std::any_of(errors.begin(), errors.end(), [](const Error& error) {
      return error.kind == ErrorKind::mismatch && error.what.find("call 58 of rank") != std::string::npos &&
             error.what.find("all-gather of 64 bytes a rank at 0x1000") != std::string::npos;
    });
    CHECK(named);
  }
}

TEST_CASE("a captured call is not one that runs now") {
  const auto through = agreed(2, 1, [](std::uint32_t rank, int) {
    return CallRecord{CallKind::reduce_scatter, rank, 0, 64};
  });
  CHECK(std::min(through[0], through[1]) == 0);
}

}  // namespace
}  // namespace foreshard::gpu
