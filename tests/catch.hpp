// Catch2, version 2 (Debian 12) or 3 (Ubuntu 24.04), under one name, with one way to skip.
//
// FORESHARD_SKIP(reason), in the body of a test case, ends the case and says why; the reason is streamed, as in INFO. A
// program of which a case was skipped and none failed ends with kSkippedStatus, which CTest shows as "Skipped".
#pragma once
#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#define FORESHARD_SKIP(reason) SKIP(reason)
#else
#include <catch2/catch.hpp>
#include <sstream>
/// `return`, not an exception: Catch2 2 takes an exception that leaves a case for a failure.
#define FORESHARD_SKIP(reason)                               \
  do {                                                       \
    std::ostringstream foreshard_skip_reason;                \
    foreshard_skip_reason << reason;                         \
    foreshard::test::skip_case(foreshard_skip_reason.str()); \
    return;                                                  \
  } while (false)
#endif

namespace foreshard::test {

/// What `SKIP_RETURN_CODE` says in cmake/foreshard.cmake.
inline constexpr int kSkippedStatus = 77;

/// Counts the running case as skipped and prints the reason: Catch2 2's half of FORESHARD_SKIP.
void skip_case(const std::string& reason);

}  // namespace foreshard::test
