// Input that no browser of the person's own sends: each is refused or bounded, and the next one is served as before.
#include "tests/catch.hpp"
#include "tests/viz/serve/browser.hpp"

using namespace foreshard::viz;
using namespace foreshard::viz::test;
using std::chrono::milliseconds;

namespace {

ServerOptions impatient() {
  ServerOptions options;
  options.request_time = milliseconds(500);
  options.idle_time = milliseconds(700);
  options.answer_time = milliseconds(1500);
  return options;
}

}  // namespace

TEST_CASE("other hosts' names (DNS rebinding), none, two, and other ports") {
  const Served served({stored_run()});
  const std::string port = std::to_string(served.port());
  for (const std::string& head :
       {std::string("Host: evil.example\r\n"), "Host: evil.example:" + port + "\r\n",
        std::string("Host: localhost\r\n"), std::string("Host: 127.0.0.1:1\r\n"), std::string("Host:\r\n"),
        std::string(), "Host: localhost:" + port + "\r\nHost: evil.example\r\n",
        "Host: localhost:" + port + ".evil.example\r\n"}) {
    INFO(head);
    const std::string answer = talk(served.port(), "GET / HTTP/1.1\r\n" + head + "\r\n");
    CHECK(status(answer) == 421);
    CHECK(answer.size() < 1000);
  }
  CHECK(status(served.get("/")) == 200);
}

TEST_CASE("requests that another site's page makes the browser send") {
  const Served served({stored_run()});
  for (const std::string more : {"Origin: http://evil.example\r\n", "Origin: null\r\n", "Origin: https://localhost\r\n",
                                 "Sec-Fetch-Site: cross-site\r\n", "Sec-Fetch-Site: same-site\r\n"}) {
    INFO(more);
    CHECK(status(served.get("/run/0/1/meta", more)) == 403);
    CHECK(status(served.ask("SELECT 1", more)) == 403);
  }
  // A form of another site can send text/plain without asking first.
  const std::string form = talk(served.port(), "POST /run/0/sql HTTP/1.1\r\nHost: " + served.host() +
                                                   "\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n"
                                                   "Connection: close\r\n\r\nSELECT 1");
  CHECK(status(form) == 415);
}

TEST_CASE("path tricks") {
  const Served served({stored_run()});
  for (const char* target :
       {"/../../../../etc/passwd", "/run/0/1/../../../etc/passwd", "/run/0/1/%2e%2e/%2e%2e/x", "//evil.example/",
        "/run/0/1/..%2fx", "http://evil.example/", "/run/18446744073709551616/"})
    CHECK(status(served.get(target)) == 404);
}

TEST_CASE("methods, and requests that are none") {
  const Served served({stored_run()});
  const std::string rest = " HTTP/1.1\r\nHost: " + served.host() + "\r\nConnection: close\r\n\r\n";
  for (const char* method : {"PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"})
    CHECK(status(talk(served.port(), std::string(method) + " /" + rest)) == 405);
  CHECK(status(talk(served.port(), "POST /" + rest)) == 405);
  CHECK(status(talk(served.port(), "GET /run/0/sql" + rest)) == 405);
  for (const std::string& garbage :
       {std::string("hello\r\n\r\n"), std::string("\x16\x03\x01\x02\x00\x01", 6) + std::string(200, 'x') + "\r\n\r\n",
        std::string("GET / HTTP/9.9\r\n\r\n"), std::string("GET / HTTP/1.1\r\nbad header\r\n\r\n"),
        std::string("GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"),
        "POST /run/0/sql HTTP/1.1\r\nHost: " + served.host() +
            "\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}) {
    INFO(garbage);
    const int code = status(talk(served.port(), garbage));
    CHECK((code == 400 || code == 415));
  }
  CHECK(status(served.get("/")) == 200);
}

TEST_CASE("requests that are too large") {
  const Served served({stored_run()});
  CHECK(status(served.get("/run/0/1/" + std::string(4000, 'a'))) == 404);
  CHECK(status(served.get("/" + std::string(20'000, 'a'))) == 431);
  CHECK(status(served.get("/", "X: " + std::string(20'000, 'a') + "\r\n")) == 431);
  CHECK(status(served.ask("SELECT '" + std::string(70'000, 'a') + "'")) == 413);
  const std::string claimed = "POST /run/0/sql HTTP/1.1\r\nHost: " + served.host() +
                              "\r\nContent-Type: application/sql\r\nContent-Length: 99999999999\r\n\r\n";
  CHECK(status(talk(served.port(), claimed)) == 413);
  CHECK(status(served.get("/")) == 200);
}

TEST_CASE("slow clients: half a request, a byte at a time, an answer that nobody takes, an idle line") {
  const Served served({stored_run()}, impatient());
  const Line half(served.port()), idle(served.port()), kept(served.port()), deaf(served.port());
  half.say("GET / HTTP/1.1\r\nHost: ");
  kept.say("HEAD / HTTP/1.1\r\nHost: " + served.host() + "\r\n\r\n");
  // Many answers of a page each, none of which is taken.
  for (int i = 0; i < 200; ++i) deaf.say("GET / HTTP/1.1\r\nHost: " + served.host() + "\r\n\r\n");
  const Line slow(served.port());
  bool taken = true;
  for (int i = 0; i < 12 && taken; ++i) {
    taken = slow.say("G");
    std::this_thread::sleep_for(milliseconds(100));
  }
  CHECK(half.closed(milliseconds(100)));
  CHECK(idle.closed(milliseconds(100)));
  CHECK(slow.closed(milliseconds(100)));
  CHECK(kept.closed(milliseconds(1000)));
  std::this_thread::sleep_for(milliseconds(1200));
  CHECK(deaf.closed(milliseconds(200)));
  CHECK(status(served.get("/")) == 200);
}

TEST_CASE("a thousand connections at once") {
  ServerOptions options;
  options.connections = 64;
  const Served served({stored_run()}, options);
  std::vector<Line> lines;
  for (int i = 0; i < 1000; ++i) {
    lines.emplace_back(served.port());
    if (i % 3 == 0) lines.back().say("GET / HTTP/1.1\r\nHost: " + served.host() + "\r\n");
  }
  CHECK(status(served.get("/")) == 200);  // the idle ones make room
  int open = 0;
  for (const Line& line : lines) open += line.closed(milliseconds(0)) ? 0 : 1;
  CHECK(open <= 64);
}

TEST_CASE("endless questions at once: the page is served meanwhile, further questions wait or are refused") {
  ServerOptions options;
  options.questions = 3;
  ContentLimits limits;
  limits.question.time = milliseconds(1500);
  const Served served({stored_run()}, options, limits);
  const std::string sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n";
  const std::string text =
      "POST /run/0/sql HTTP/1.1\r\nHost: " + served.host() +
      "\r\nContent-Type: application/sql\r\nConnection: close\r\nContent-Length: " + std::to_string(sql.size()) +
      "\r\n\r\n" + sql;
  std::vector<Line> lines;
  for (int i = 0; i < 10; ++i) {
    lines.emplace_back(served.port());
    lines.back().say(text);
  }
  CHECK(status(served.get("/")) == 200);
  int refused = 0, ended = 0;
  for (const Line& line : lines) {
    const std::string answer = line.hear();
    refused += status(answer) == 503 ? 1 : 0;
    ended += answer.find("took too long") != std::string::npos ? 1 : 0;
  }
  CHECK(refused == 7);
  CHECK(ended == 3);
}

TEST_CASE("an answer that nobody reads counts as a question until it is") {
  ServerOptions options;
  options.questions = 1;
  const Served served({stored_run()}, options);
  // More than the socket's buffers take.
  const std::string sql =
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT hex(zeroblob(4000)) FROM n";
  const std::string text =
      "POST /run/0/sql HTTP/1.1\r\nHost: " + served.host() +
      "\r\nContent-Type: application/sql\r\nConnection: close\r\nContent-Length: " + std::to_string(sql.size()) +
      "\r\n\r\n" + sql;
  {
    const Line slow(served.port());
    slow.say(text);
    std::this_thread::sleep_for(milliseconds(1500));
    CHECK(status(served.ask("SELECT 1")) == 503);
  }
  std::this_thread::sleep_for(milliseconds(300));
  CHECK(status(served.ask("SELECT 1")) == 200);
}
