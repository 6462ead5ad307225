#include "viz/serve/request.hpp"

#include "tests/catch.hpp"

using namespace foreshard::viz;

TEST_CASE("targets that the page asks for") {
  using What = Asked::What;
  CHECK(*parse_target("/") == Asked{What::index, 0, 0, "", 0});
  CHECK(*parse_target("/run/3/") == Asked{What::page, 3, 0, "", 0});
  CHECK(*parse_target("/run/0/sql") == Asked{What::sql, 0, 0, "", 0});
  CHECK(*parse_target("/run/0/7/tracks/1/2") == Asked{What::piece, 0, 7, "tracks/1/2", 0});
  CHECK(*parse_target("/compare/3/14/") == Asked{What::comparison, 3, 0, "", 0, 14});
  CHECK(*parse_target("/compare/0/1/7/2/a/memory/lines/0/0") ==
        Asked{What::comparison_piece, 0, 7, "a/memory/lines/0/0", 0, 1, 2});
  CHECK(*parse_target("/run/1/progress?from=123") == Asked{What::progress, 1, 0, "", 123});
}

TEST_CASE("everything else is refused: path tricks, escapes, queries, numbers out of range") {
  for (const char* target : {"",
                             "*",
                             "//",
                             "/x",
                             "/run",
                             "/run/",
                             "/run/0",
                             "/run//",
                             "/run/-1/",
                             "/run/00/",
                             "/run/0x1/",
                             "/run/1e9/",
                             "/run/99999999999999999999999/",
                             "/run/0/..",
                             "/run/0/../",
                             "/run/0/1/../../etc/passwd",
                             "/run/0/1/..",
                             "/run/0/1/%2e%2e/x",
                             "/run/0/1/a%00",
                             "/run/0/1/a\\b",
                             "/run/0/1/",
                             "/run/0/1//a",
                             "/run/0/1/a/",
                             "/run/0/1/a b",
                             "/run/0/1/a?b",
                             "/run/0/1/a#b",
                             "/run/0/sql?x",
                             "/run/0/sql/",
                             "/run/0/progress",
                             "/run/0/progress?from=",
                             "/run/0/progress?from=-1",
                             "/run/0/progress?from=1&x=2",
                             "/?x",
                             "http://127.0.0.1/",
                             "/etc/passwd",
                             "/../../etc/passwd",
                             "/run/0/meta",
                             "/compare/",
                             "/compare/0/",
                             "/compare/0/1",
                             "/compare/0/x/",
                             "/compare/0/1/2/",
                             "/compare/0/1/2/3/",
                             "/compare/0/1/2/3/../a"}) {
    INFO(target);
    CHECK_FALSE(parse_target(target));
  }
  CHECK_FALSE(parse_target("/run/0/1/" + std::string(3000, 'a')));
  CHECK_FALSE(parse_target(std::string("/run/0/1/a\0b", 12)));
}

TEST_CASE("hosts and origins of our own, and those that are not") {
  for (const char* host : {"127.0.0.1:8347", "localhost:8347", "[::1]:8347"}) {
    CHECK(own_host(host, 8347));
    CHECK(own_origin(std::string("http://") + host, 8347));
  }
  for (const char* host :
       {"", "127.0.0.1", "localhost", "127.0.0.1:80", "127.0.0.1:83470", "evil.example:8347",
        "localhost.evil.example:8347", "127.0.0.1.evil.example:8347", "evil.example#localhost:8347", "127.0.0.2:8347",
        "0.0.0.0:8347", " localhost:8347", "localhost:8347 ", "LOCALHOST@x:8347"}) {
    INFO(host);
    CHECK_FALSE(own_host(host, 8347));
    CHECK_FALSE(own_origin(std::string("http://") + host, 8347));
  }
  CHECK_FALSE(own_origin("null", 8347));
  CHECK_FALSE(own_origin("https://localhost:8347", 8347));
  CHECK(own_site(""));
  CHECK(own_site("same-origin"));
  CHECK(own_site("none"));
  CHECK_FALSE(own_site("cross-site"));
  CHECK_FALSE(own_site("same-site"));
}
