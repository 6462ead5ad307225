#include "gpu/bootstrap/unauthenticated_count.hpp"

#include "tests/catch.hpp"

using namespace foreshard::gpu;

TEST_CASE("strangers are told by number and address, the most frequent first") {
  UnauthenticatedCount unauthenticated;
  CHECK(unauthenticated.text().empty());
  unauthenticated.add("10.0.0.9");
  CHECK(unauthenticated.text() == "1 connection did not prove that it knows the run's secret: 1 from 10.0.0.9");
  unauthenticated.add("10.0.0.7");
  unauthenticated.add("10.0.0.7");
  CHECK(unauthenticated.text() ==
        "3 connections did not prove that they know the run's secret: 2 from 10.0.0.7, 1 from 10.0.0.9");
}

TEST_CASE("a million strangers of as many addresses take no more room than a few") {
  UnauthenticatedCount unauthenticated;
  for (int i = 0; i < 1'000'000; ++i) unauthenticated.add(std::to_string(i));
  CHECK(unauthenticated.number() == 1'000'000);
  CHECK(unauthenticated.text() ==
        "1000000 connections did not prove that they know the run's secret: 1 from 0, 1 from 1, 1 from 10, 1 from 11, "
        "999996 from elsewhere");
}
