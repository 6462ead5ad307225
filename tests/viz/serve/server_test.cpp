// The server with an ordinary browser, and its end.
#include "viz/serve/server.hpp"

#include <signal.h>
#include <sys/stat.h>

#include <atomic>

#include "tests/catch.hpp"
#include "tests/viz/serve/browser.hpp"

using namespace foreshard::viz;
using namespace foreshard::viz::test;
using std::chrono::milliseconds;

TEST_CASE("a browser gets the page, a piece, an answer") {
  const Served served({stored_run()});
  const std::string page = served.get("/", "Sec-Fetch-Site: none\r\n");
  CHECK(status(page) == 200);
  CHECK(page.find("Content-Type: text/html") != std::string::npos);
  CHECK(page.find("frame-ancestors 'none'") != std::string::npos);
  CHECK(page.find("nosniff") != std::string::npos);
  CHECK(page.find("Access-Control") == std::string::npos);
  const std::string piece =
      served.get("/run/0/1/meta", "Sec-Fetch-Site: same-origin\r\nOrigin: http://" + served.host() + "\r\n");
  CHECK(status(piece) == 200);
  CHECK(body(piece).size() > 10);
  CHECK(body(served.ask("SELECT 41+1")).find("[[42]]") != std::string::npos);
  CHECK(status(served.get("/favicon.ico")) == 404);
}

TEST_CASE("several requests on one connection, HEAD among them") {
  const Served served({stored_run()});
  const Line line(served.port());
  const std::string get = " / HTTP/1.1\r\nHost: localhost:" + std::to_string(served.port()) + "\r\n";
  line.say("HEAD" + get + "\r\n");
  const std::string head = line.hear(milliseconds(500));
  CHECK(status(head) == 200);
  CHECK(body(head).empty());
  line.say("GET" + get + "\r\nGET" + get + "Connection: close\r\n\r\n");
  const std::string both = line.hear();
  CHECK(both.find("HTTP/1.1 200 OK", 20) != std::string::npos);
  CHECK(both.rfind("</html>") > both.size() - 20);
}

TEST_CASE("it listens on the loopback alone, and says when it cannot") {
  const Served served({stored_run()});
  Content content({stored_run()}, "auto");
  ServerOptions options;
  options.port = served.port();
  Server second(content, options);
  const auto port = second.listen();
  REQUIRE_FALSE(port);
  CHECK(port.error().text().find("cannot listen on port") != std::string::npos);
}

TEST_CASE("browsers that go away in the middle do not stop it") {
  const Served served({stored_run()});
  for (int i = 0; i < 50; ++i) {
    const Line line(served.port());
    line.say("GET / HTTP/1.1\r\nHost: " + served.host() + "\r\n\r\n");
    if (i % 2 == 0) line.say("GET /run/0/1/me");
  }
  CHECK(status(served.get("/")) == 200);
}

TEST_CASE("it ends at once, with a question running and connections open") {
  Served served({stored_run()});
  const Line idle(served.port()), half(served.port()), asking(served.port());
  half.say("GET / HT");
  const std::string sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT count(*) FROM n";
  asking.say("POST /run/0/sql HTTP/1.1\r\nHost: " + served.host() +
             "\r\nContent-Type: application/sql\r\nContent-Length: " + std::to_string(sql.size()) + "\r\n\r\n" + sql);
  std::this_thread::sleep_for(milliseconds(300));
  CHECK(served.stop() < 2);
  CHECK(idle.closed(milliseconds(1000)));
  CHECK(asking.closed(milliseconds(1000)));
}

TEST_CASE("it ends at once, within a call of a function that takes minutes") {
  Served served({stored_run()});
  const std::string sql = "select instr(zeroblob(16000000), zeroblob(8000000)||x'01')";
  std::vector<Line> asking;
  for (int i = 0; i < 3; ++i) {
    asking.emplace_back(served.port());
    asking.back().say("POST /run/0/sql HTTP/1.1\r\nHost: " + served.host() +
                      "\r\nContent-Type: application/sql\r\nContent-Length: " + std::to_string(sql.size()) +
                      "\r\n\r\n" + sql);
  }
  std::this_thread::sleep_for(milliseconds(300));
  CHECK(status(served.get("/")) == 200);
  CHECK(served.stop() < 1);
}

TEST_CASE("reports that take long are made once for all who ask; pages are served meanwhile, and it ends at once") {
  std::atomic<int> made{0};
  std::atomic<bool> go{false};
  Reports reports;
  reports.extras = {"explain", "time"};
  reports.extra = [&](std::string_view, const foreshard::Run&, const std::string&) {
    ++made;
    while (!go) std::this_thread::sleep_for(milliseconds(5));
    return std::string("1");
  };
  Served served({stored_run(), stored_run()}, {}, {}, reports);
  CHECK(status(served.get("/run/0/")) == 200);
  CHECK(status(served.get("/run/1/")) == 200);
  std::vector<Line> asking;
  for (const char* target : {"/run/0/1/explain", "/run/0/1/explain", "/run/0/1/explain", "/run/1/1/time"}) {
    asking.emplace_back(served.port());
    asking.back().say(std::string("GET ") + target + " HTTP/1.1\r\nHost: " + served.host() +
                      "\r\nConnection: close\r\n\r\n");
  }
  while (made < 2) std::this_thread::sleep_for(milliseconds(5));
  CHECK(status(served.get("/run/1/")) == 200);
  CHECK(status(served.get("/run/0/1/meta")) == 200);
  CHECK(made == 2);  // one for each run, whoever asks
  SECTION("all get it") {
    go = true;
    for (const Line& line : asking) CHECK(status(line.hear()) == 200);
    CHECK(made == 2);
  }
  SECTION("the server ends while they are made") {
    CHECK(served.stop() < 1);
    for (const Line& line : asking) CHECK(line.closed(milliseconds(1000)));
    go = true;
  }
}

TEST_CASE("it ends at once, while a page is being made") {
  std::atomic<bool> begun{false}, go{false};
  Reports reports;
  reports.row = [&](const foreshard::Run&) {
    begun = true;
    while (!go) std::this_thread::sleep_for(milliseconds(5));
    return std::vector<std::string>();
  };
  Served served({stored_run(), stored_run()}, {}, {}, reports);
  const Line asking(served.port());
  asking.say("GET / HTTP/1.1\r\nHost: " + served.host() + "\r\n\r\n");
  while (!begun) std::this_thread::sleep_for(milliseconds(5));
  CHECK(served.stop() < 1);
  CHECK(asking.closed(milliseconds(1000)));
  go = true;
}

TEST_CASE("a pipe that takes a run's name holds nobody up") {
  const std::string pipe = fresh_path("pipe");
  Served served({stored_run(), pipe});
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (int i = 0; i < 3; ++i) CHECK(status(served.get("/run/1/")) == 500);
  CHECK(status(served.get("/")) == 200);
  CHECK(status(served.get("/run/0/")) == 200);
  CHECK(served.stop() < 1);
}

TEST_CASE("a signal ends it") {
  for (const int signal : {SIGINT, SIGTERM}) {
    Content content({stored_run()}, "auto");
    ServerOptions options;
    options.signals = true;
    Server server(content, options);
    REQUIRE(server.listen());
    std::thread person([signal] {
      std::this_thread::sleep_for(milliseconds(200));
      ::kill(::getpid(), signal);
    });
    const auto start = std::chrono::steady_clock::now();
    server.run();
    person.join();
    CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
  }
}
