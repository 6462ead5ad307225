// What is shown: the page, its pieces, answers to SQL, a store that comes or changes, progress.
#include "viz/serve/content.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/viz/pack/decode.hpp"
#include "tests/viz/serve/browser.hpp"
#include "traces/store/store.hpp"

using namespace foreshard;
using namespace foreshard::viz;
using namespace foreshard::viz::test;
using Json = nlohmann::json;

namespace {

Answer ask(Content& content, const std::string& target, const std::string& text = "") {
  const auto asked = parse_target(target);
  REQUIRE(asked);
  return content.answer(*asked, text);
}

/// The processes that this one started and that have not ended.
std::vector<int> children() {
  std::vector<int> out;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    std::ifstream file(entry.path() / "stat");  // "42 (name) S 41 …": the state, then the parent
    std::string text;
    if (!std::getline(file, text)) continue;
    std::istringstream behind_name(text.substr(text.rfind(')') + 1));
    std::string state;
    int parent = 0;
    if (behind_name >> state >> parent && parent == ::getpid()) out.push_back(std::stoi(text));
  }
  return out;
}

}  // namespace

TEST_CASE("a store that was changed is shown and asked only where stores are read as they are") {
  const foreshard::test::TemporaryFolder folder;
  std::string bytes = foreshard::test::file_bytes(stored_run());
  bytes[bytes.size() - 2] = 'x';  // of the checksum
  const std::string changed = folder.write("changed.db", bytes);
  Content strict({changed}, "auto");
  CHECK(ask(strict, "/").status == 500);
  CHECK(ask(strict, "/run/0/sql", "SELECT 1").status == 400);
  Content lenient({changed}, "auto", {}, {}, {.unverified = true});
  CHECK(ask(lenient, "/").status == 200);
  CHECK(ask(lenient, "/run/0/sql", "SELECT 1").status == 200);
}

TEST_CASE("the page asks for its pieces here, and gets those of the pack") {
  Content content({stored_run()}, "dark");
  REQUIRE(content.check(false));
  const Answer page = ask(content, "/");
  CHECK(page.status == 200);
  CHECK(page.body.find("\"data\":\"/run/0/1/\"") != std::string::npos);
  CHECK(page.body.find("\"theme\":\"dark\"") != std::string::npos);
  CHECK(ask(content, "/run/0/").body == page.body);
  const auto run = traces::read_run(stored_run());
  REQUIRE(run);
  const auto pack = Pack::make(*run, {});
  REQUIRE(pack);
  for (const std::string& name : pack->names()) {
    INFO(name);
    const Answer piece = ask(content, "/run/0/1/" + name);
    CHECK(piece.status == 200);
    CHECK(piece.body == *pack->piece(name));
  }
  CHECK(ask(content, "/run/0/1/nothing").status == 404);
  CHECK(ask(content, "/run/0/2/meta").status == 404);
  CHECK(ask(content, "/run/1/").status == 404);
}

TEST_CASE("several runs have a list") {
  Content content({stored_run(), fresh_path("<b>&.db")}, "auto");
  CHECK_FALSE(content.check(false));
  REQUIRE(content.check(true));
  const std::string list = ask(content, "/").body;
  CHECK(list.find("href=\"/run/1/\"") != std::string::npos);
  CHECK(list.find("<b>") == std::string::npos);
}

TEST_CASE("a page has the pieces of the reports, made once") {
  int made = 0;
  Reports reports;
  reports.extras = {"answer"};
  reports.extra = [&made](std::string_view name, const Run& run, const std::string& path) {
    ++made;
    return "\"" + std::string(name) + " of " + run.info.name + (path.empty() ? "" : " at a path") + "\"";
  };
  Content content({stored_run()}, "auto", {}, reports);
  REQUIRE(content.check(false));
  CHECK(ask(content, "/").body.find("\"extras\":[\"answer\"]") != std::string::npos);
  const Answer answer = ask(content, "/run/0/1/answer");
  CHECK(answer.status == 200);
  CHECK(inflated(answer.body) == "\"answer of " + traces::read_run(stored_run())->info.name + " at a path\"");
  CHECK(ask(content, "/run/0/1/answer").body == answer.body);
  CHECK(made == 1);
  CHECK(ask(content, "/run/0/1/explain").status == 404);
}

TEST_CASE("two runs are picked from a list with their numbers, and shown beside each other") {
  Reports reports;
  reports.columns = {"step <time>"};
  reports.row = [](const Run&) { return std::vector<std::string>{"1.50 <ms>"}; };
  Content without({stored_run(), stored_run()}, "auto", {}, reports);
  CHECK(ask(without, "/").body.find("Compare") == std::string::npos);
  CHECK(ask(without, "/compare/0/1/").status == 404);
  reports.compared_extras = {"answer", "waits"};
  reports.extra = [](std::string_view name, const Run&, const std::string&) { return "\"" + std::string(name) + "\""; };
  reports.comparison = [](const Run& a, const std::string&, const Run& b, const std::string&) -> Result<std::string> {
    return "[\"" + a.info.name + "\",\"" + b.info.name + "\"]";
  };
  Content content({stored_run(), stored_run(), fresh_path("later.db")}, "auto", {}, reports);
  REQUIRE(content.check(true));
  const std::string list = ask(content, "/").body;
  CHECK(list.find("<th>step &lt;time&gt;</th>") != std::string::npos);
  CHECK(list.find("<td>1.50 &lt;ms&gt;</td>") != std::string::npos);
  CHECK(list.find("name=\"b\" value=\"1\" aria-label=\"b\" checked") != std::string::npos);
  CHECK(list.find("value=\"2\"") == std::string::npos);  // what is not there is not compared
  const std::string page = ask(content, "/compare/0/1/").body;
  CHECK(page.find("\"data\":\"/compare/0/1/1/1/\"") != std::string::npos);
  CHECK(page.find("\"extras\":[\"compare\",\"a/answer\",\"a/waits\",\"b/answer\",\"b/waits\"]") != std::string::npos);
  CHECK(page.find("\"home\":\"/\"") != std::string::npos);
  const std::string name = traces::read_run(stored_run())->info.name;
  CHECK(inflated(ask(content, "/compare/0/1/1/1/compare").body) == "[\"" + name + "\",\"" + name + "\"]");
  CHECK(inflated(ask(content, "/compare/0/1/1/1/b/waits").body) == "\"waits\"");
  CHECK(ask(content, "/compare/0/1/1/1/b/meta").body == ask(content, "/run/1/1/meta").body);
  for (const char* bad :
       {"/compare/0/1/1/2/b/meta", "/compare/0/1/1/1/meta", "/compare/0/1/1/1/c/meta", "/compare/0/3/"})
    CHECK(ask(content, bad).status == 404);
  CHECK(ask(content, "/compare/0/2/").status == 500);
}

TEST_CASE("a file that is neither a store nor progress") {
  const std::string path = fresh_path("x.db");
  foreshard::test::write_file(path, "hello");
  Content content({path}, "auto");
  const auto checked = content.check(true);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().where == path);
}

TEST_CASE("a page waits for a store, shows it, and shows the one that takes its place") {
  const std::string path = fresh_path("later.db");
  Content content({path}, "auto");
  REQUIRE(content.check(true));
  CHECK(ask(content, "/").body.find("is not there yet") != std::string::npos);
  CHECK(ask(content, "/run/0/1/meta").status == 404);
  std::filesystem::copy_file(stored_run(), path);
  CHECK(ask(content, "/").body.find("/run/0/1/") != std::string::npos);
  CHECK(ask(content, "/run/0/1/meta").status == 200);
  auto run = traces::read_run(path);
  REQUIRE(run);
  run->info.name = "the next one";
  REQUIRE(traces::write_run(*run, path, {.force = true}));
  CHECK(ask(content, "/run/0/1/meta").status == 200);  // a page that is open goes on
  const Answer next = ask(content, "/");
  CHECK(next.body.find("/run/0/2/") != std::string::npos);
  CHECK(next.body.find("the next one") != std::string::npos);
  CHECK(ask(content, "/run/0/1/meta").status == 404);
  CHECK(ask(content, "/run/0/2/meta").status == 200);
}

TEST_CASE("questions in SQL") {
  Content content({stored_run()}, "auto");
  const Json answer = Json::parse(ask(content, "/run/0/sql", "SELECT 1 AS one, 'a' AS a, NULL, 0.5").body);
  CHECK(answer["columns"] == Json({"one", "a", "NULL", "0.5"}));
  CHECK(answer["rows"] == Json::parse(R"([[1,"a",null,0.5]])"));
  CHECK(answer["truncated"] == false);
  CHECK(ask(content, "/run/0/sql", "SELEC").status == 400);
  CHECK(ask(content, "/run/0/sql", "").status == 400);
}

TEST_CASE("SQL that writes, opens or never ends") {
  ContentLimits limits;
  limits.question = {100, 100'000, std::chrono::milliseconds(300)};
  Content content({stored_run()}, "auto", limits);
  const auto before = std::filesystem::last_write_time(stored_run());
  for (const std::string sql :
       {"DELETE FROM block", "DROP TABLE block", "CREATE TABLE t(x)", "PRAGMA journal_mode=WAL",
        "ATTACH '/tmp/foreshard-serve-attached.db' AS o", "VACUUM INTO '/tmp/foreshard-serve-vacuum.db'",
        "SELECT load_extension('x')", "SELECT 1; SELECT 2"}) {
    INFO(sql);
    CHECK(ask(content, "/run/0/sql", sql).status == 400);
  }
  CHECK_FALSE(std::filesystem::exists("/tmp/foreshard-serve-attached.db"));
  CHECK_FALSE(std::filesystem::exists("/tmp/foreshard-serve-vacuum.db"));
  CHECK(std::filesystem::last_write_time(stored_run()) == before);
  const std::string endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) ";
  const auto start = std::chrono::steady_clock::now();
  const Answer count = ask(content, "/run/0/sql", endless + "SELECT count(*) FROM n");
  CHECK(count.status == 400);
  CHECK(count.body.find("took too long") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(3));
  const Json rows = Json::parse(ask(content, "/run/0/sql", endless + "SELECT * FROM n").body);
  CHECK(rows["rows"].size() == 100);
  CHECK(rows["truncated"] == true);
  CHECK(ask(content, "/run/0/sql", "SELECT randomblob(1000000000)").status == 400);
  const Json bytes = Json::parse(ask(content, "/run/0/sql", endless + "SELECT hex(zeroblob(30000)) FROM n").body);
  CHECK(bytes["rows"].size() < 5);
  CHECK(bytes["truncated"] == true);
  content.stop();
  CHECK(ask(content, "/run/0/sql", endless + "SELECT count(*) FROM n").status == 400);
}

TEST_CASE("what SQLite does within one call of a function ends in time") {
  ContentLimits limits;
  limits.question.time = std::chrono::milliseconds(300);
  Content content({stored_run()}, "auto", limits);
  const auto start = std::chrono::steady_clock::now();
  const Answer long_call = ask(content, "/run/0/sql", "select instr(zeroblob(16000000), zeroblob(8000000)||x'01')");
  CHECK(long_call.status == 400);
  CHECK(long_call.body.find("took too long") != std::string::npos);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(2));
  limits.question.time = std::chrono::seconds(30);
  Content stopped({stored_run()}, "auto", limits);
  std::thread person([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    stopped.stop();
  });
  const auto again = std::chrono::steady_clock::now();
  CHECK(ask(stopped, "/run/0/sql", "select instr(zeroblob(16000000), zeroblob(8000000)||x'01')").status == 400);
  CHECK(std::chrono::steady_clock::now() - again < std::chrono::seconds(1));
  person.join();
}

TEST_CASE("an answer of many large values is cut before it is made") {
  Content content({stored_run()}, "auto");
  std::string sql = "SELECT zeroblob(16000000)";
  for (int i = 0; i < 99; ++i) sql += ",zeroblob(16000000)";
  const Answer wide = ask(content, "/run/0/sql", sql);
  INFO(wide.body.substr(0, 200));
  CHECK(wide.body.size() < 100'000);
  CHECK((wide.status == 400 || Json::parse(wide.body)["truncated"] == true));
  const Answer one = ask(content, "/run/0/sql", "SELECT zeroblob(15000000)");  // six times as long in JSON
  REQUIRE(one.status == 200);
  CHECK(Json::parse(one.body)["truncated"] == true);
  CHECK(Json::parse(ask(content, "/run/0/sql", "SELECT 1").body)["rows"] == Json::parse("[[1]]"));
}

TEST_CASE("what reaches beyond values is no function of a question") {
  Content content({stored_run()}, "auto");
  const Answer answer = ask(content, "/run/0/sql", "select hex(fts3_tokenizer('simple'))");
  CHECK(answer.status == 400);
  CHECK(answer.body.find("the function fts3_tokenizer is refused") != std::string::npos);
}

TEST_CASE("a question that takes its process with it is answered") {
  // A store whose reader aborts does not exist (or is a bug): a process that is ended from outside looks the same.
  Content content({stored_run()}, "auto");
  std::atomic<bool> done{false};
  std::thread killer([&] {
    while (!done) {
      for (const int child : children()) ::kill(child, SIGSEGV);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  const Answer answer = ask(content, "/run/0/sql", "select instr(zeroblob(16000000), zeroblob(8000000)||x'01')");
  done = true;
  killer.join();
  CHECK(answer.status == 400);
  CHECK(answer.body.find("signal 11") != std::string::npos);
  CHECK(ask(content, "/run/0/sql", "SELECT 1").status == 200);
}

TEST_CASE("progress comes in whole lines, from where the page is") {
  const std::string path = fresh_path("sweep.jsonl");
  foreshard::test::write_file(path, "{\"progress\":1}\n{\"done\":1}\n{\"don");
  ContentLimits limits;
  limits.progress_bytes = 64;
  Content content({path}, "auto", limits);
  REQUIRE(content.check(false));
  CHECK(ask(content, "/").body.find("/run/0/") != std::string::npos);
  CHECK(ask(content, "/run/0/").body.find("progress?from=") != std::string::npos);
  Json news = Json::parse(ask(content, "/run/0/progress?from=0").body);
  CHECK(news["lines"] == Json({"{\"progress\":1}", "{\"done\":1}"}));
  CHECK(news["next"] == 26);
  CHECK(news["more"] == true);
  foreshard::test::write_file(path, "{\"progress\":1}\n{\"done\":1}\n{\"done\":2}\n");
  news = Json::parse(ask(content, "/run/0/progress?from=26").body);
  CHECK(news["lines"] == Json({"{\"done\":2}"}));
  CHECK(news["more"] == false);
  foreshard::test::write_file(path, "{}\n");  // another sweep under the same name
  news = Json::parse(ask(content, "/run/0/progress?from=37").body);
  CHECK(news["restarted"] == true);
  CHECK(news["lines"] == Json({"{}"}));
  foreshard::test::write_file(path,
                              "{" + std::string(1000, 'x'));  // a line without end does not stop the page for ever
  news = Json::parse(ask(content, "/run/0/progress?from=0").body);
  CHECK(news["next"] == 64);
  CHECK(ask(content, "/run/0/sql", "SELECT 1").status == 400);
}
