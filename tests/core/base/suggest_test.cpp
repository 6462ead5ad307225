#include "core/base/suggest.hpp"

#include <array>

#include "tests/catch.hpp"

using namespace foreshard;

TEST_CASE("edit distance counts insertions, deletions, substitutions and swaps") {
  CHECK(edit_distance("", "") == 0);
  CHECK(edit_distance("abc", "abc") == 0);
  CHECK(edit_distance("abc", "") == 3);
  CHECK(edit_distance("", "abc") == 3);
  CHECK(edit_distance("plan", "paln") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
}

TEST_CASE("the nearest word is within a third of the length") {
  constexpr std::array<std::string_view, 4> kVerbs{"plan", "replay", "query", "compare"};
  CHECK(nearest("paln", kVerbs) == "plan");
  CHECK(nearest("comapre", kVerbs) == "compare");
  CHECK(nearest("Query", kVerbs) == "query");
  CHECK_FALSE(nearest("zzzz", kVerbs).has_value());
  CHECK_FALSE(nearest("", {}).has_value());
}

TEST_CASE("dashes and underscores are the same; the first of equally near words wins") {
  constexpr std::array<std::string_view, 3> kKeys{"forward_prefetch", "all_gather", "al_gather"};
  CHECK(nearest("forward-prefetch", kKeys) == "forward_prefetch");
  CHECK(nearest("forward-prefech", kKeys) == "forward_prefetch");
  constexpr std::array<std::string_view, 2> kTwins{"ab", "ac"};
  CHECK(nearest("ad", kTwins) == "ab");
}

TEST_CASE("a suggestion lists what is known when nothing is near") {
  constexpr std::array<std::string_view, 2> kWords{"stash", "auto"};
  CHECK(suggestion("stsh", kWords) == "did you mean 'stash'?");
  CHECK(suggestion("qqqqqq", kWords) == "known: stash, auto");
  CHECK(suggestion("x", {}).empty());
}
